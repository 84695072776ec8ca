"""Recordings: sequences with the answers of kube-scheduler, one JSON line each.

Storage objects are written as short arrays (``short_storage``), reasons by short names. The lines
of ``claims`` and ``sources`` are compressed, because slices and further volumes are long.
"""

from __future__ import annotations

import gzip
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from tests.differential.answers import FAILED, Answer
from tests.differential.sequence import FORM, Sequence
from tests.differential.short_storage import short_volume, shortened, whole, whole_volume

#: The recordings that the tests replay.
KEPT: Final = Path(__file__).with_name("recorded")
#: The seeds whose recordings are kept there, by kind; others are kept in the user's cache.
KEPT_SEEDS: Final = {
    "claims": range(1, 301),
    "core": range(1, 301),
    "preemption": range(1, 131),
    "sources": range(1, 61),
    "volumes": range(201, 261),
}
COMPRESSED: Final = ".gz"
_COMPRESSED_KINDS: Final = ("claims", "sources")
#: Where an answer has its effects, and an object's step its manifest.
_EFFECTS: Final = 3
_EFFECTS_END: Final = 4
_MANIFEST: Final = 2
#: Differences that were found, cut to the fewest steps.
FOUND: Final = Path(__file__).with_name("found")

#: kube-scheduler's texts by their names in files.
_TEXTS: Final = {
    "affinity": "node(s) didn't match Pod's node affinity/selector",
    "anti": "node(s) didn't match pod anti-affinity rules",
    "claim": "resourceclaim not available on the node",
    "cordon": "node(s) were unschedulable",
    "cpu": "Insufficient cpu",
    "devices": "cannot allocate all claims",
    "existing": "node(s) didn't satisfy existing pods anti-affinity rules",
    "failed": FAILED,
    "gpu": "Insufficient nvidia.com/gpu",
    "memory": "Insufficient memory",
    "near": "node(s) didn't match pod affinity rules",
    "pools": "invalid resource pools were encountered",
    "pods": "Too many pods",
    "ports": "node(s) didn't have free ports for the requested pod ports",
    "spread": "node(s) didn't match pod topology spread constraints",
    "spread-label": (
        "node(s) didn't match pod topology spread constraints (missing required label)"
    ),
    "taint": "node(s) had untolerated taint(s)",
    "unnamed": "node(s) didn't satisfy plugin(s) [NodeAffinity]",
    "widget": "Insufficient example.com/widget",
    "disk": "node(s) had no available disk",
    "volume-affinity": "node(s) didn't match PersistentVolume's node affinity",
    "volume-limit": "node(s) exceed max volume count",
    "volume-none": "node(s) didn't find available persistent volumes to bind",
    "volume-size": "node(s) did not have enough free storage",
    "volume-unbound": "pod has unbound immediate PersistentVolumeClaims",
    "volume-user": (
        "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode"
        " already in-use by another pod"
    ),
    "volume-zone": "node(s) had no available volume zone",
}
_NAMES: Final = {text: name for name, text in _TEXTS.items()}


class Recording(msgspec.Struct, frozen=True, kw_only=True):
    """A sequence, and one answer for each step that creates a pod."""

    form: int = FORM
    sequence: Sequence
    answers: tuple[Answer, ...]


def read(path: Path) -> Iterator[Recording]:
    """The recordings in a file, one in each line; none where there is no file."""
    if not path.exists():
        return
    content = path.read_bytes()
    if path.suffix == COMPRESSED:
        content = gzip.decompress(content)
    for line in content.splitlines():
        recorded = msgspec.json.decode(line)
        _each_object(recorded, whole)
        _each_volume(recorded, whole_volume)
        recording = msgspec.convert(recorded, Recording)
        assert recording.form == FORM, f"{path}: record it again with make differential"
        yield _renamed(recording, _TEXTS)


def file_of(kind: str, seed: int) -> Path:
    """The file in which a seed is recorded."""
    name = f"{kind}.jsonl{COMPRESSED}" if kind in _COMPRESSED_KINDS else f"{kind}.jsonl"
    if seed in KEPT_SEEDS.get(kind, ()):
        return KEPT / name
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return cache / "gpu-scheduler" / "differential" / name


def of_kind(kind: str) -> Iterator[Recording]:
    """Every recording of a kind."""
    if kind in KEPT_SEEDS:
        yield from read(file_of(kind, KEPT_SEEDS[kind].start))
    yield from read(file_of(kind, 0))


def append(path: Path, recording: Recording) -> None:
    """Add a recording to a file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    line = encoded(recording) + b"\n"
    with path.open("ab") as file:
        file.write(gzip.compress(line, mtime=0) if path.suffix == COMPRESSED else line)


def encoded(recording: Recording) -> bytes:
    """The line of a recording."""
    found = msgspec.to_builtins(_renamed(recording, _NAMES))
    _each_object(found, shortened)
    _each_volume(found, short_volume)
    return msgspec.json.encode(found)


def _each_object(recorded: Any, change: Callable[[str, Any], Any]) -> None:
    """Replace the manifest of each object in a recording."""
    effects = [step for answer in recorded["answers"] for step in answer[_EFFECTS:_EFFECTS_END]]
    sequence = recorded["sequence"]
    for steps in (sequence.get("objects", ()), sequence["steps"], *effects):
        for step in steps:
            if step[0] == "object":
                step[_MANIFEST] = change(step[_MANIFEST - 1], step[_MANIFEST])


def _each_volume(recorded: Any, change: Callable[[Any], Any]) -> None:
    """Replace each volume of a pod template in a recording."""
    for workload in recorded["sequence"]["workloads"]:
        volumes = workload.get("spec", {}).get("volumes", ())
        for at, volume in enumerate(volumes):
            volumes[at] = change(volume)


def _renamed(recording: Recording, names: Mapping[str, str]) -> Recording:
    replace = msgspec.structs.replace
    answers = [
        replace(one, reasons={names.get(text, text): n for text, n in one.reasons.items()})
        for one in recording.answers
    ]
    return replace(recording, answers=tuple(answers))
