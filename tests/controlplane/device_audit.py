"""The holder of each device over time, from the API server's audit log alone.

A pod holds what its Binding says, from the Binding's answer until its deletion is asked for: in
between it certainly does. Two pods that certainly hold one device at one moment are a crime.
It reads annotations by itself and knows nothing of the scheduler's ledger.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any

from tests.controlplane.audit_log import AuditLog

Json = dict[str, Any]
DEVICES = "gpu-scheduler.io/devices"
NUMBERED = re.compile(r"gpu:([0-9,]+)")
COUNTED = re.compile(r"([a-z0-9.]+) x ([0-9]+)")


@dataclass(slots=True)
class Assignment:
    """One pod on one node."""

    pod: str
    node: str
    since: float
    until: float = float("inf")
    numbers: frozenset[int] = frozenset()
    counts: dict[str, int] = field(default_factory=dict)


@dataclass(slots=True)
class Record:
    """What happened to the pods of one namespace."""

    stays: list[Assignment] = field(default_factory=list)
    created: set[str] = field(default_factory=set)
    #: When a pod's creation was asked for; the last time if it was tried again.
    created_at: dict[str, float] = field(default_factory=dict)
    deleted: set[str] = field(default_factory=set)
    refused: list[int] = field(default_factory=list)


def read(log: Path, namespace: str, binder: str = "") -> Record:
    """Read all that the API server did for pods of a namespace.

    With ``binder``, a user's name, the Bindings of every other user are left out.
    """
    record = Record()
    open_stays: dict[str, Assignment] = {}
    for event in _events(log, namespace):
        reference = event["objectRef"]
        name, verb, code = reference.get("name", ""), event["verb"], event["responseStatus"]["code"]
        subresource = reference.get("subresource", "")
        if subresource == "binding":
            if binder and event["user"]["username"] != binder:
                continue
            if code >= 300:
                record.refused.append(code)
            else:
                stay = _stay(name, event)
                assert name not in open_stays, f"{name} was bound twice"
                open_stays[name] = stay
                record.stays.append(stay)
        elif subresource not in ("", "eviction") or code >= 300:
            continue
        elif verb == "delete" or subresource == "eviction":
            record.deleted.add(name)
            if name in open_stays:
                open_stays.pop(name).until = _time(event["requestReceivedTimestamp"])
        elif verb == "create" and "dryRun" not in event.get("requestURI", ""):
            name = event["requestObject"]["metadata"].get("name", name)
            record.created.add(name)
            record.created_at[name] = _time(event["requestReceivedTimestamp"])
    return record


@cache
def _reader(log: Path, namespace: str) -> AuditLog:
    """One for all questions, so that each line is decoded once."""
    return AuditLog(log, f'"{namespace}"')


def _events(log: Path, namespace: str) -> Iterator[Json]:
    """In the order in which they were asked for."""
    found = []
    for event in _reader(log, namespace).events():
        reference = event.get("objectRef", {})
        if reference.get("resource") == "pods" and reference.get("namespace") == namespace:
            event.get("requestObject", {}).pop("spec", None)  # it may be large, and is not needed
            found.append(event)
    return iter(sorted(found, key=lambda event: str(event["requestReceivedTimestamp"])))


def _stay(name: str, event: Json) -> Assignment:
    body = event["requestObject"]
    text = body["metadata"].get("annotations", {}).get(DEVICES, "")
    numbers: set[int] = set()
    counts: dict[str, int] = {}
    for part in filter(None, text.split("; ")):
        if found := NUMBERED.fullmatch(part):
            numbers.update(map(int, found[1].split(",")))
        elif found := COUNTED.fullmatch(part):
            counts[found[1]] = int(found[2])
        else:
            raise AssertionError(f"{name}: devices that cannot be read: {text!r}")
    since = _time(event["stageTimestamp"])
    return Assignment(
        name, body["target"]["name"], since, numbers=frozenset(numbers), counts=counts
    )


def crimes(stays: Iterable[Assignment], capacity: Mapping[str, Mapping[str, int]]) -> list[str]:
    """Devices held twice, and counts beyond what a node has; ``capacity`` is per node and profile.

    On a numbered node a GPU by number and a GPU by count are of the same stock.
    """
    found: list[str] = []
    certain = [stay for stay in stays if stay.since < stay.until]
    moments = [(stay.since, 1, n, stay) for n, stay in enumerate(certain)]
    moments += [(stay.until, 0, n, stay) for _, _, n, stay in moments]
    here: dict[str, list[Assignment]] = {}
    for _, begins, _, stay in sorted(moments, key=lambda moment: moment[:3]):
        on_node = here.setdefault(stay.node, [])
        if not begins:
            on_node.remove(stay)
            continue
        found += [
            f"{stay.node} GPU {sorted(common)}: {other.pod} and {stay.pod}"
            for other in on_node
            if (common := stay.numbers & other.numbers)
        ]
        on_node.append(stay)
        found += _over(stay, on_node, capacity.get(stay.node, {}))
    return found


def _over(stay: Assignment, on_node: list[Assignment], capacity: Mapping[str, int]) -> list[str]:
    found = []
    for profile in stay.counts.keys() | ({"gpu"} if stay.numbers else set()):
        held = sum(one.counts.get(profile, 0) for one in on_node)
        if profile == "gpu":
            held += sum(len(one.numbers) for one in on_node)
        if profile in capacity and held > capacity[profile]:
            found.append(f"{stay.node}: {held} of {capacity[profile]} x {profile} with {stay.pod}")
    return found


def _time(text: str) -> float:
    return datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()
