"""The objects beside the pod that a reason is about: nodes, claims, volumes and classes.

A next step is written for every pod of its code; here it gets the names. Nodes are known with the
leader's answer only, the other names are in the message as well.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from scheduler.decide.explain import Refusal
from scheduler.decide.rejection_message import Part

NODES_MAX: Final = 3
#: The codes whose next step is done to a node.
OF_NODES: Final = frozenset(
    (
        *("NODE_UNSCHEDULABLE", "TAINT", "NODE_UNREADABLE", "GPU_MEMORY_UNKNOWN"),
        *("MIG_NOT_READY", "GPU_BACKOFF", "TOO_MANY_PODS", "VOLUME_LIMIT", "CSI_DRIVER_MISSING"),
        *("DISK_IN_USE", "PORTS", "TOPOLOGY_LABEL", "DECLARED_FEATURES", "NO_DEVICE_CLASS"),
        *("KUBELET_ASSIGNS_DEVICES", "DEVICE_ASSIGNMENT_UNKNOWN", "DEVICE_INDEX_UNKNOWN"),
        *("DEVICE_HELD", "DEVICE_NOT_FOUND", "DEVICE_FAILED", "DEVICE_POOL_INVALID"),
        *("NODE_AVOIDED", "VOLUME_NOT_AVAILABLE", "RESOURCE_CLAIM_ELSEWHERE"),
        *("TOO_MANY_IN_ONE_CONTAINER", "STORAGE_FULL", "DEVICES_NOT_AVAILABLE"),
    )
)
_DRA: Final = re.compile(r"^(?:RESOURCE_CLAIM|DEVICE)_|^DEVICES_|^MAP_CLAIM_|^NO_DEVICE_CLASS")
_NAME: Final = r"([a-z0-9](?:[-a-z0-9./]*[a-z0-9])?)"
CLAIM, VOLUME, CLASS, DRIVER = "claim", "volume", "class", "driver"
#: What a name stands behind in a message.
_WORDS: Final = {
    CLAIM: re.compile(
        rf'(?:(?:persistentvolumeclaim|resourceclaim) "|\(claim |resource claim |and claim ){_NAME}'
    ),
    VOLUME: re.compile(rf'(?:persistentvolume "|; volume |to volume ){_NAME}'),
    CLASS: re.compile(rf"(?:^|[;:(] ?|device )class {_NAME}"),
    DRIVER: re.compile(rf"(?:\(|of )driver {_NAME}|^{_NAME} CSI driver"),
}
_KINDS: Final = {
    CLAIM: ("PersistentVolumeClaim", "ResourceClaim"),
    VOLUME: ("PersistentVolume", "PersistentVolume"),
    CLASS: ("StorageClass", "DeviceClass"),
    DRIVER: ("driver", "driver"),
}
#: Words of a next step that stand for a name -> what they stand for.
_PLACES: Final = {
    "resourceclaim NAME": (CLAIM, "resourceclaim {}"),
    "pv NAME": (VOLUME, "pv {}"),
    "pvc NAME": (CLAIM, "pvc {}"),
}


class ConcernedObjects(msgspec.Struct, frozen=True):
    """The objects of one code: the nodes by name, the others by what they are."""

    code: str
    nodes: tuple[str, ...] = ()
    others: dict[str, str] = {}

    def named(self, step: str) -> str:
        """The next step with the names of the objects."""
        for words, (what, text) in _PLACES.items():
            if what in self.others:
                step = step.replace(words, text.format(self.others[what]))
        if self.nodes and self.code in OF_NODES:
            step = re.sub(r"\bNODE\b", self.nodes[0], step)
        return f"{step} ({', '.join((self.code, *self._told()))})"

    def _told(self) -> Iterable[str]:
        if self.nodes and self.code in OF_NODES:
            yield f"node{'s' * (len(self.nodes) > 1)} {shortened(self.nodes)}"
        at = int(_DRA.match(self.code) is not None)
        yield from (f"{_KINDS[what][at]} {name}" for what, name in self.others.items())


def shortened(names: Sequence[str]) -> str:
    """The first names, and how many more there are.

    >>> shortened(["a"]), shortened(["a", "b"]), shortened(["a", "b", "c", "d", "e"])
    ('a', 'a and b', 'a, b, c and 2 more')
    """
    shown, more = names[:NODES_MAX], len(names) - NODES_MAX
    if more > 0:
        return f"{', '.join(shown)} and {more} more"
    return " and ".join(filter(None, (", ".join(shown[:-1]), shown[-1])))


def of_refusals(refusals: Iterable[Refusal]) -> dict[str, ConcernedObjects]:
    """The objects of each code in the leader's answer."""
    return _objects((one.code, one.node, one.text) for one in refusals)


def of_message(parts: Iterable[Part]) -> dict[str, ConcernedObjects]:
    """The objects of each code in a message, which names no nodes."""
    return _objects((one.code.name, "", one.text) for one in parts if one.code is not None)


def _objects(found: Iterable[tuple[str, str, str]]) -> dict[str, ConcernedObjects]:
    nodes: dict[str, dict[str, None]] = {}
    others: dict[str, dict[str, str]] = {}
    for code, node, text in found:
        there = nodes.setdefault(code, {})
        if node:
            there[node] = None
        if code not in others:
            others[code] = _others(text)
    return {code: ConcernedObjects(code, tuple(nodes[code]), others[code]) for code in nodes}


def _others(text: str) -> dict[str, str]:
    """The objects that the text of a reason names, each the first of its kind."""
    names = {}
    for what, words in _WORDS.items():
        if (match := words.search(text)) is not None:
            names[what] = next(filter(None, match.groups()))
    return names
