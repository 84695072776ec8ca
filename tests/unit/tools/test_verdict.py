"""The verdict of the kill tests detects violations."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.controlplane.device_audit import Assignment, crimes, read

CAPACITY = {"n": {"gpu": 4, "2g.20gb": 2}}
FOREVER = float("inf")


def stay(
    pod: str, since: float, until: float = FOREVER, *numbers: int, **counts: int
) -> Assignment:
    named = {name.replace("mig_", "").replace("_", "."): n for name, n in counts.items()}
    return Assignment(pod, "n", since, until, frozenset(numbers), named)


@pytest.mark.parametrize(
    ("stays", "expected"),
    [
        pytest.param([stay("a", 1, 5, 0), stay("b", 2, 3, 1)], [], id="side-by-side"),
        pytest.param([stay("a", 1, 2, 0), stay("b", 2, 3, 0)], [], id="one-after-the-other"),
        pytest.param(
            [stay("a", 1, 3, 0), stay("b", 2, 5, 0, 1)], ["n GPU [0]: a and b"], id="twice"
        ),
        pytest.param(
            [stay("a", 1, FOREVER, 0), stay("b", 2, FOREVER, 0)],
            ["n GPU [0]: a and b"],
            id="twice-for-ever",
        ),
        pytest.param([stay("a", 3, 3, 0), stay("b", 2, 5, 0)], [], id="gone-before-it-was-there"),
        pytest.param(
            [stay("a", 1, FOREVER, 0, 1), stay("b", 2, FOREVER, gpu=3)],
            ["n: 5 of 4 x gpu with b"],
            id="numbers-and-counts-are-one-stock",
        ),
        pytest.param(
            [stay(name, at, **{"mig_2g_20gb": 1}) for at, name in enumerate("abc")],
            ["n: 3 of 2 x 2g.20gb with c"],
            id="more-slices-than-there-are",
        ),
    ],
)
def test_what_is_a_crime(stays: list[Assignment], expected: list[str]) -> None:
    assert crimes(stays, CAPACITY) == expected


def event(verb: str, name: str, at: int, code: int = 201, **more: Any) -> str:
    stamp = f"2026-11-28T00:00:0{at}.000000Z"
    reference = {"resource": "pods", "namespace": "ns", "name": name, **more.pop("reference", {})}
    return json.dumps(
        {
            "verb": verb,
            "objectRef": reference,
            "responseStatus": {"code": code},
            "requestReceivedTimestamp": stamp,
            "stageTimestamp": stamp,
            **more,
        }
    )


def bound(name: str, at: int, devices: str, code: int = 201) -> str:
    body = {
        "metadata": {"name": name, "annotations": {"gpu-scheduler.io/devices": devices}},
        "target": {"name": "n"},
    }
    subresource = {"subresource": "binding"}
    return event("create", name, at, code, reference=subresource, requestObject=body)


def test_an_audit_log_becomes_stays(tmp_path: Path) -> None:
    log = tmp_path / "audit.log"
    made: dict[str, Any] = {"requestObject": {"metadata": {"name": "a"}}}
    lines = [
        event("create", "a", 1, **made),
        bound("a", 2, "gpu:0,1; 1g.10gb x 2"),
        bound("b", 3, "gpu x 2", code=403),
        event("delete", "a", 4, code=200),
        event("delete", "c", 4, code=404),
        event("create", "x", 5, reference={"namespace": "other"}, **made),
    ]
    log.write_text("".join(f"{line}\n" for line in lines))
    record = read(log, "ns")

    [only] = record.stays
    assert (only.pod, only.node, only.until - only.since) == ("a", "n", 2.0)
    assert (only.numbers, only.counts) == (frozenset({0, 1}), {"1g.10gb": 2})
    assert (record.created, record.deleted, record.refused) == ({"a"}, {"a"}, [403])


def test_devices_that_cannot_be_read_are_no_verdict(tmp_path: Path) -> None:
    log = tmp_path / "audit.log"
    log.write_text(bound("a", 1, "all of them") + "\n")

    with pytest.raises(AssertionError, match="cannot be read"):
        read(log, "ns")
