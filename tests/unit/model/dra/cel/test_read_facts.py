"""A selector is evaluated once for devices that are equal in what it reads."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler.model.dra.cel.engine import SelectorError, compile_selector
from scheduler.model.dra.cel.read_facts import ReadFacts, read_facts
from scheduler.model.dra.device import Capacity, Device

NAMED = [
    pytest.param("device.driver == 'x'", ReadFacts(), id="driver"),
    pytest.param("device.allowMultipleAllocations", ReadFacts(), id="sharing"),
    pytest.param("true", ReadFacts(), id="nothing"),
    pytest.param('device.attributes["x"].a', ReadFacts((("x", "a"),)), id="field"),
    pytest.param('device.attributes["x"]["a/b"]', ReadFacts((("x", "a/b"),)), id="brackets"),
    pytest.param('has(device.attributes["x"].a)', ReadFacts((("x", "a"),)), id="has"),
    pytest.param(
        "device.attributes[?'x'].?a.orValue(1) == 1", ReadFacts((("x", "a"),)), id="optional"
    ),
    pytest.param(
        'device.capacity["x"].m.isGreaterThan(quantity("1"))',
        ReadFacts((), (("x", "m"),)),
        id="capacity",
    ),
    pytest.param(
        'device.attributes["x"].a == 1 && device.attributes["y"].b == device.driver',
        ReadFacts((("x", "a"), ("y", "b"))),
        id="several",
    ),
    pytest.param("'device.attributes' == device.driver // device", ReadFacts(), id="text"),
]


@pytest.mark.parametrize(("text", "reads"), NAMED)
def test_what_a_selector_names_is_known(text: str, reads: ReadFacts) -> None:
    assert read_facts(text) == reads


@pytest.mark.parametrize(
    "text",
    [
        "device.attributes[device.driver].a == 1",
        'device.attributes["x"].exists(key, key == "a")',
        'device.attributes["x"].size() == 1',
        '"a" in device.attributes["x"]',
        'size(device.attributes["x"]) == 1',
        'cel.bind(mine, device.attributes["x"], mine.a == 1)',
        "cel.bind(one, device, one.driver == 'x')",
        "[1].exists(device, device == 1)",
        'device.attributes["\\u0078"].a == 1',
        "device.attributes == {}",
        "device.attributes",
        "device.other.a",
        "one.device.a == 1",
        'device["attributes"]["x"].a',
        'device.attributes[?"x"].orValue({}).a == 1',
    ],
)
def test_of_other_selectors_nothing_is_known(text: str) -> None:
    assert read_facts(text) is None


def device(**facts: Any) -> Device:
    return Device(driver="x", pool="p", name="d", **facts)


def result(text: str, one: Device) -> Any:
    try:
        return compile_selector(text).matches(one)
    except SelectorError as error:
        return str(error)


@pytest.mark.parametrize(
    ("text", "one", "other"),
    [
        pytest.param(
            'device.attributes["x"].a == 1',
            device(attributes={"a": 1}),
            device(attributes={"a": True}),
            id="one-is-not-true",
        ),
        pytest.param(
            'has(device.attributes["x"].a)',
            device(attributes={"a": 1}),
            device(attributes={"y/a": 1}),
            id="domains",
        ),
        pytest.param(
            'device.capacity["x"].m.compareTo(quantity("1")) == 0',
            device(capacities={"m": Capacity(10**9)}),
            device(capacities={"m": Capacity(2 * 10**9)}),
            id="capacities",
        ),
        pytest.param(
            "device.allowMultipleAllocations", device(), device(allow_multiple=True), id="sharing"
        ),
    ],
)
def test_devices_that_differ_in_it_have_results_of_their_own(
    text: str, one: Device, other: Device
) -> None:
    assert result(text, one) != result(text, other)


def test_names_are_those_of_the_drivers_domain_or_qualified() -> None:
    text = 'device.attributes["x"].a == 1'

    assert result(text, device(attributes={"a": 1})) is True
    assert result(text, device(attributes={"x/a": 1})) is True
    assert result(text, device(attributes={"x/a": 2})) is False


def test_equal_devices_are_evaluated_once() -> None:
    text = 'device.attributes["x"].a == 7'
    selector = compile_selector(text)
    for number in range(100):
        assert selector.matches(device(attributes={"a": 7, "uuid": f"id-{number}"}))

    assert len(selector.results) == 1
