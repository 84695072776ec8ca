"""Selectors: causes of errors, bounds, kept results, and a missing package."""

from __future__ import annotations

import contextlib
import gc
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from scheduler.model.dra.cel import engine
from scheduler.model.dra.cel.engine import MISSING_PACKAGE, SelectorError, compile_selector
from scheduler.model.dra.device import Capacity, Device, Version
from scheduler.model.limits import SELECTOR_LENGTH_MAX, SELECTOR_RESULTS_MAX

A100 = Device(driver="gpu.nvidia.com", pool="n1", name="gpu-0", attributes={"model": "A100"})


def cause(text: str, device: Device = A100) -> str:
    with pytest.raises(SelectorError) as caught:
        compile_selector(text).matches(device)
    return str(caught.value)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            'device.attributes["gpu.nvidia.com"].speed == 1',
            'Key not found in map : "speed"',
        ),
        ('device.attributes["gpu.nvidia.com"].model > 1', "No matching overloads found"),
        ("unknown(1)", "No matching overloads found : unknown(int64)"),
        ("device.driver ==", "Syntax error: mismatched input '<EOF>'"),
        ("device.driver", "it evaluates to string, not bool"),
        ("null", "it evaluates to null, not bool"),
        ("optional.of(true)", "it evaluates to an optional value, not bool"),
        ("dyn([1].first())", "it evaluates to an optional value, not bool"),
        ('quantity("3 apples").isInteger()', "'3 apples' is not a quantity"),
        ('semver("1.0").major() == 1', "'1.0' is not a semantic version"),
        ("[null].includes(null)", "null is not supported together with functions of lists"),
        ("google.protobuf.Value{}.includes(1)", "messages are not supported"),
        ("type(google.protobuf.Value) == type(1)", "types of google.protobuf are not supported"),
    ],
)
def test_error_names_its_cause_in_a_line(text: str, expected: str) -> None:
    assert cause(text).startswith(expected)
    assert "\n" not in cause(text)
    assert len(cause(text)) <= 200


def test_invalid_version_of_a_device_is_an_error_of_each_selector() -> None:
    broken = Device(driver="d", pool="n1", name="x", attributes={"v": Version("1.2")})

    assert cause("device.driver == 'd'", broken) == "'1.2' is not a semantic version"


def test_selector_of_the_greatest_length_is_compiled() -> None:
    text = "true".ljust(SELECTOR_LENGTH_MAX)

    assert compile_selector(text).matches(A100)
    assert cause(text + " ") == f"it has more than {SELECTOR_LENGTH_MAX} characters"


HOSTILE = (
    "(" * 5_000,
    "!(" * 3_000 + "true" + ")" * 3_000,
    "[" * 2_000 + "]" * 2_000,
    "device.attributes[" * 500,
    "\"\"\"'''" * 1_600,
    "1" * 10_000,
    "lists.range(10000).all(x, lists.range(10000).all(y, true))",
    "\ud800",
    "\x00",
)


@pytest.mark.parametrize("number", range(len(HOSTILE)))
def test_hostile_selector_is_an_error(number: int) -> None:
    assert cause(HOSTILE[number])


def test_result_is_computed_once_for_a_device(monkeypatch: pytest.MonkeyPatch) -> None:
    device = Device(driver="d", pool="n1", name="x")
    selector = compile_selector("device.driver == 'd' && true")
    assert selector.matches(device)

    monkeypatch.setattr(selector, "_expression", None)

    assert selector.matches(device)
    with pytest.raises(AttributeError):
        selector.matches(Device(driver="e", pool="n1", name="x"))


def test_kept_results_of_a_device_are_bounded() -> None:
    device = Device(driver="d", pool="n1", name="x")
    most = 0

    for number in range(3 * SELECTOR_RESULTS_MAX):
        assert compile_selector(f"{number} < 1000").matches(device)
        most = max(most, len(vars(device)[engine._RESULTS]))

    assert most == SELECTOR_RESULTS_MAX


def test_package_is_not_imported_before_the_first_selector() -> None:
    code = (
        "import sys; import scheduler.model.dra.cel.engine as engine;"
        "print([name for name in sys.modules if 'cel_expr' in name or 'protobuf' in name]);"
        "engine.compile_selector('true'); print('cel_expr_python.cel' in sys.modules)"
    )

    printed = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)

    assert printed.stdout.decode().split() == ["[]", "True"]


def test_missing_package_is_the_cause_for_each_selector() -> None:
    code = (
        "import sys; sys.modules['cel_expr_python'] = None\n"
        "from scheduler.model.dra.cel.engine import SelectorError, compile_selector\n"
        "for text in ('true', 'false', 'true'):\n"
        "  try: compile_selector(text)\n"
        "  except SelectorError as error: print(error)"
    )

    printed = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)

    assert printed.stdout.decode().splitlines() == [MISSING_PACKAGE] * 3


@pytest.mark.parametrize(
    ("text", "matches"),
    [
        ("v.isGreaterThan(semver('1.2.0')) && q.isLessThan(quantity('1.5'))", True),
        ("v.compareTo(semver('1.2.3')) == 0 && q.compareTo(quantity('1')) == 0", True),
        ("cel.bind(_left_, v, v.compareTo(_left_) == 0)", True),
        ("q.add(quantity('1')).sub(1).compareTo(q) == 0", True),
        ("q.add(1).compareTo(quantity('2').sub(q).add(q)) > 0", False),
    ],
)
def test_quantities_and_versions_are_compared(text: str, *, matches: bool) -> None:
    device = Device(
        driver="d",
        pool="n1",
        name="x",
        attributes={"v": Version("1.2.3")},
        capacities={"q": Capacity(10**9)},
    )
    bound = f"cel.bind(v, device.attributes['d'].v, cel.bind(q, device.capacity['d'].q, {text}))"

    assert compile_selector(bound).matches(device) == matches


def test_frequent_selectors_lose_no_memory() -> None:
    """The library loses the arguments of each call of a Python function."""
    text = "device.capacity['d'].q.compareTo(quantity('1Gi')) <= 0"
    selector = compile_selector(text)
    sizes = []

    for number in range(3):
        device = Device(driver="d", pool="n", name="x", capacities={"q": Capacity(number)})
        for _ in range(10_000):
            vars(device).clear()
            selector.matches(device)
        sizes.append(resident())

    assert sizes[2] - sizes[1] < 5_000_000


def resident() -> int:
    """The bytes that this process has in memory."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * resource.getpagesize()


def test_evaluation_keeps_the_references_to_none() -> None:
    """The library loses one for each null that is read."""
    texts = ("null", "[null].size() == 1", "dyn(null) == null", "dyn([null])[0]", "{'a': null}.a")
    devices = [Device(driver="d", pool="n1", name=str(number)) for number in range(2_000)]
    gc.collect()
    before = sys.getrefcount(None)

    for text in texts:
        for device in devices:
            with contextlib.suppress(SelectorError):
                compile_selector(text).matches(device)

    assert sys.getrefcount(None) > before - len(devices)
