"""The oracle of the chaos run detects violations."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.chaos import attacks, outsider
from tests.chaos.oracle import Latency, late, latency, records, twice
from tests.chaos.storm import DECK
from tests.chaos.windows import Windows
from tests.controlplane.device_audit import Assignment, Record


def placed(name: str, asked: float, bound: float, *numbers: int) -> Record:
    stay = Assignment(name, "counted0", bound, numbers=frozenset(numbers))
    return Record(stays=[stay], created={name}, created_at={name: asked})


def test_a_wait_lasts_from_the_request_to_the_bindings_answer() -> None:
    found = latency([placed("a", 10.0, 10.5), placed("b", 20.0, 22.0)], Windows())

    assert (sorted(found.waits), found.touched) == ([0.5, 2.0], 0)


def test_of_a_wait_only_what_is_outside_of_windows_counts() -> None:
    windows = Windows()
    for begun, over in ((10.0, 20.0), (15.0, 22.0), (30.0, 31.0)):
        windows.add(begun, over)

    found = latency([placed("a", 5.0, 35.0), placed("b", 11.0, 12.0), placed("c", 1, 3)], windows)

    assert (found.waits, found.touched) == ([5.0 + 8.0 + 4.0, 0.0, 2.0], 2)


def test_a_window_that_is_open_has_no_end() -> None:
    windows = Windows()
    with windows.during(0.0):
        assert windows.is_open(1e12)
    assert not windows.is_open(1e12)


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        pytest.param(Latency(waits=[0.1] * 99 + [60.0]), [], id="one-of-a-hundred"),
        pytest.param(Latency(waits=[0.1] * 98 + [5.0] * 2), ["p99"], id="two-of-a-hundred"),
        pytest.param(Latency(waits=[0.1] * 79), ["79"], id="too-few"),
    ],
)
def test_wait_beyond_the_limit_is_late(found: Latency, expected: list[str]) -> None:
    assert [text.split()[0] for text in late(found, 100)] == expected


def test_one_device_of_pods_in_two_namespaces_is_held_twice() -> None:
    both = [placed("a", 1.0, 2.0, 3), placed("b", 1.0, 2.5, 3)]

    assert twice(both) == ["held twice: counted0 GPU [3]: a and b"]


def test_inconsistent_audit_log_is_a_violation(tmp_path: Path) -> None:
    log = tmp_path / "audit.log"
    user = '"user":{"username":"system:serviceaccount:gpu-scheduler-system:gpu-scheduler"}'
    reference = '"objectRef":{"resource":"pods","namespace":"a","name":"p","subresource":"binding"}'
    body = '"requestObject":{"metadata":{"annotations":{}},"target":{"name":"n"}}'
    times = '"requestReceivedTimestamp":"2026-11-28T00:00:00Z","stageTimestamp":'
    line = f'{{"verb":"create","responseStatus":{{"code":201}},{user},{reference},{body},{times}'
    log.write_text(f'{line}"2026-11-28T00:00:01Z"}}\n{line}"2026-11-28T00:00:02Z"}}\n')

    _, problems = records(log, ["a"])

    assert problems == ["a: p was bound twice"]


def test_every_attack_has_a_name_of_its_own() -> None:
    assert len({attack.name for attack in DECK}) == len(attacks.ATTACKS) + len(outsider.ATTACKS)
