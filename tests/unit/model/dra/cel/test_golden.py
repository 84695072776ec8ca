"""Selectors against the answers of the CEL environment of kube-scheduler."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import pytest

from scheduler.model.dra.cel.engine import SelectorError, compile_selector
from scheduler.model.dra.device import AttributeValue, Capacity, Device, Version
from scheduler.model.quantity import nano_value

GOLDEN: Final[dict[str, list[dict[str, Any]]]] = json.loads(
    (Path(__file__).parents[4] / "golden" / "cel.json").read_text(encoding="utf-8")
)
DOMAIN: Final = 'device.attributes["dra.example.com"]'
GPU: Final = 'device.attributes["gpu.nvidia.com"]'
#: Why answers differ -> the selectors. docs/conformance.md lists the same reasons.
DIFFERENT: Final = {
    "the libraries ip, cidr, url, format and regex (find, findAll) do not exist": (
        'ip("10.0.0.1").family() == 4',
        'isIP(device.attributes["dra.net"].ipv4)',
        'ip(device.attributes["dra.net"].ipv4).family() == 4',
        'cidr("10.0.0.0/8").containsIP(device.attributes["dra.net"].ipv4)',
        'cidr("10.0.0.0/8").containsIP(ip("10.1.2.3"))',
        'isCIDR("10.0.0.0/8")',
        'ip(device.attributes["dra.net"].ipv6).isGlobalUnicast()',
        'isURL(device.attributes["dra.net"].url)',
        'url(device.attributes["dra.net"].url).getHost() == "example.com:80"',
        '!format.dns1123Label().validate("my-name").hasValue()',
        '"abc 123".find("[0-9]+") == "123"',
        '"abc 123".findAll("[0-9]") == ["1", "2", "3"]',
        '"123 abc 456".findAll("[0-9]+", 1) == ["123"]',
        f'{GPU}.productName.find("[AH]100") == "A100"',
    ),
    "transformMap, the sum of durations and messages are not supported": (
        '{"a": 1, "b": 2}.transformMap(k, v, v * 2) == {"a": 2, "b": 4}',
        '[duration("1m"), duration("1s")].sum() == duration("61s")',
        "google.protobuf.Int64Value{value: 1} == 1",
    ),
    "a quantity that is whole in value is an integer, however it is written": (
        'quantity("1.5Gi").asInteger() == 1610612736',
        'quantity("1.5Gi").isInteger()',
        'quantity("2000m").isInteger()',
        'quantity("2.0").isInteger()',
        'quantity("7Ei").isInteger()',
        'quantity("1.5").add(quantity("0.5")).asInteger() == 2',
    ),
    "== with a version or a quantity and another type is false, not an error": (
        'dyn(device.capacity["gpu.nvidia.com"].memory) == "80Gi"',
        'quantity("70k") == quantity("50k").add(quantity("20k"))',
        f'{GPU}.driverVersion == "570.86.15"',
        f'{GPU}.driverVersion in ["570.86.15"]',
        f'{DOMAIN}.version == "1.2.3"',
        "device.attributes[device.driver].index == 0",
    ),
    "a version and a quantity are bytes, which have an order, a text and a size, but no fields": (
        f"{GPU}.driverVersion > {GPU}.cudaDriverVersion",
        'dyn(device.capacity["gpu.nvidia.com"].memory) > dyn(quantity("10Gi"))',
        f'{GPU}.driverVersion.isGreaterThan(quantity("500"))',
        f'string({GPU}.driverVersion) == "570.86.15"',
        f"size({GPU}.driverVersion) == 1",
        f"has({GPU}.driverVersion.text)",
        f"{DOMAIN}.version.isSorted()",
    ),
    "an unknown domain that is not looked up directly is missing, not an empty map": (
        "has(device.attributes.simple)",
        "has(device.attributes.unknown)",
        'cel.bind(all, device.attributes, has(all["unknown.example.com"].model))',
    ),
    "a field or an optional index of another type is an error, and the reverse": (
        f"has({DOMAIN}.?model.orValue({{}}).x)",
        f'{DOMAIN}.model[?5].orValue("x") == "x"',
    ),
}
EXPECTED: Final = {selector for selectors in DIFFERENT.values() for selector in selectors}


def device(row: dict[str, Any]) -> Device:
    return Device(
        driver=row["driver"],
        pool="pool",
        name="device",
        attributes={name: attribute(one) for name, one in row.get("attributes", {}).items()},
        capacities={
            name: Capacity(nano_value(one["value"]))
            for name, one in row.get("capacity", {}).items()
        },
        allow_multiple=row.get("allowMultipleAllocations", False),
    )


def attribute(row: dict[str, Any]) -> AttributeValue:
    [(kind, value)] = row.items()
    if kind.startswith("version"):
        return tuple(map(Version, value)) if isinstance(value, list) else Version(value)
    return tuple(value) if isinstance(value, list) else value


DEVICES: Final = [device(row) for row in GOLDEN["devices"]]
ACCEPTED: Final = [row for row in GOLDEN["rows"] if "compile" not in row]
REFUSED: Final = [row["selector"] for row in GOLDEN["rows"] if "compile" in row]


def answers(text: str) -> str:
    """A letter for each device, as the golden file has them."""
    letters = ""
    for one in DEVICES:
        try:
            letters += "t" if compile_selector(text).matches(one) else "f"
        except SelectorError:
            letters += "e"
    return letters


def test_golden_file_has_each_answer_often() -> None:
    letters = "".join(row["answers"] for row in ACCEPTED)

    assert len(letters) > 5_500
    assert all(letters.count(letter) > 1_000 for letter in "tfe")
    assert {row["selector"] for row in ACCEPTED} >= EXPECTED


@pytest.mark.parametrize(
    "row", [pytest.param(row, id=ascii(row["selector"])[1:80]) for row in ACCEPTED]
)
def test_a_selector_answers_as_in_kube_scheduler(row: dict[str, Any]) -> None:
    same = answers(row["selector"]) == row["answers"]

    assert same == (row["selector"] not in EXPECTED), (answers(row["selector"]), row["answers"])


@pytest.mark.parametrize("text", REFUSED)
def test_a_selector_that_the_api_server_refuses_gives_an_answer(text: str) -> None:
    """No such selector reaches a scheduler; no exception ends a decision."""
    assert len(answers(text)) == len(DEVICES)
