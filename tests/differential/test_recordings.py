"""Recordings give back what was recorded, and storage objects are short in them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.differential import recordings
from tests.differential.answers import Answer
from tests.differential.generate.kinds import KINDS
from tests.differential.recordings import Recording
from tests.differential.short_storage import shortened, whole


@pytest.mark.parametrize("kind", KINDS)
def test_recording_survives_its_file(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "one.jsonl"
    every = []
    for seed in range(1, 20):
        sequence = KINDS[kind](seed)
        answer = Answer(nodes="n1", choice="n1", effects=sequence.objects)
        rejected = Answer(reasons={"Insufficient cpu": 1, "of another text": 2})
        every.append(Recording(sequence=sequence, answers=(answer, rejected)))
        recordings.append(path, every[-1])

    assert list(recordings.read(path)) == every


def test_storage_objects_of_sequences_are_written_as_arrays() -> None:
    whole_kinds = set()
    for seed in range(1, 30):
        line = recordings.encoded(Recording(sequence=KINDS["volumes"](seed), answers=()))
        sequence = msgspec.json.decode(line)["sequence"]
        steps = (*sequence["objects"], *sequence["steps"])
        whole_kinds |= {one[1] for one in steps if one[0] == "object" and isinstance(one[2], dict)}

    assert whole_kinds <= {"volumeattachments"}


def _changed(kind: str, change: Any) -> Any:
    objects = KINDS["volumes"](7).objects
    manifest = next(one.manifest for one in objects if one.kind == kind)
    found = msgspec.json.decode(msgspec.json.encode(manifest))
    change(found)
    return found


@pytest.mark.parametrize(
    ("kind", "change"),
    [
        pytest.param(
            "persistentvolumeclaims",
            lambda one: one["metadata"].update(labels={"a": "b"}),
            id="claim-with-labels",
        ),
        pytest.param(
            "persistentvolumes",
            lambda one: one["spec"].update(mountOptions=["ro"]),
            id="volume-with-options",
        ),
        pytest.param("persistentvolumes", lambda one: one["spec"].pop("csi"), id="no-csi"),
        pytest.param("csinodes", lambda one: one["spec"].clear(), id="no-drivers"),
    ],
)
def test_object_that_no_array_gives_back_is_written_whole(kind: str, change: Any) -> None:
    manifest = _changed(kind, change)

    assert shortened(kind, manifest) == manifest
    assert whole(kind, manifest) == manifest
