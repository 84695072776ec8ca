"""Volumes as the real Go code judges them: ``tools/golden/storage`` holds the questions."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from scheduler.model.volumes.csi_volume import MIGRATED, UNCOUNTED
from scheduler.plugins.volumes.static_match import candidates
from scheduler.state.volumes.store import VolumeStore
from scheduler.watch.decode import volumes
from scheduler.watch.decode.object_decoder import ObjectDecoder
from tests.builders import pod
from tests.storage import HOSTNAME, ZONE

GOLDEN = Path(__file__).parents[3] / "golden"
TRANSLATIONS: list[Any] = json.loads((GOLDEN / "csitranslation.json").read_text(encoding="utf-8"))
MATCHES: list[Any] = json.loads((GOLDEN / "volumematch.json").read_text(encoding="utf-8"))
NODES = {"n1": "a", "n2": "a", "n3": "b"}


def decoded(decoder: ObjectDecoder[Any], body: Any) -> Any:
    event: Any = decoder.event(msgspec.json.encode(body), False)
    return event.item


def terms(found: Any) -> Any:
    """Node selector terms as the API writes them, without what is empty."""
    return None if found is None else [_bare(msgspec.to_builtins(term)) for term in found]


def _bare(term: Any) -> Any:
    every = term.get("matchExpressions") or []
    return [(one["key"], one["operator"], sorted(one.get("values") or ())) for one in every]


def test_the_questions_are_there() -> None:
    assert len(TRANSLATIONS) > 300
    assert len(MATCHES) == 200
    assert any(row["failed"] for row in TRANSLATIONS)
    assert sum(bool(row["expected"]) for row in MATCHES) > 40


@pytest.mark.parametrize("row", TRANSLATIONS, ids=lambda row: row["plugin"].rpartition("/")[2])
def test_in_tree_disks_are_translated_as_by_the_library(row: Any) -> None:
    found = decoded(volumes.VOLUMES, row["volume"])
    assert (found.plugin.name if found.plugin is not None else "") == row["plugin"]
    if found.plugin is None:
        return

    assert found.plugin.driver == row["driver"]
    assert (found.csi.handle if found.csi is not None else "") == row["handle"]
    if not row["failed"]:
        expected = row["terms"]
        assert terms(found.translated_terms) == (
            None if expected is None else [_bare(term) for term in expected]
        )


@pytest.mark.parametrize(
    "row",
    [row for row in TRANSLATIONS if "inline" in row],
    ids=lambda row: row["plugin"].rpartition("/")[2],
)
def test_inline_disks_are_translated_as_by_the_library(row: Any) -> None:
    (disk,) = pod(spec={"volumes": [row["inline"]]}).volumes.disks

    assert (disk.csi.handle if disk.csi is not None else "") == row["inlineHandle"]


def test_every_plugin_of_the_library_is_known() -> None:
    known = {row["plugin"] for row in TRANSLATIONS} - {""}

    assert known == set(MIGRATED)
    assert UNCOUNTED.isdisjoint(known)


@pytest.mark.parametrize("row", MATCHES)
def test_volumes_match_claims_as_in_kube_scheduler(row: Any) -> None:
    store = VolumeStore()
    for body in row["volumes"] or ():
        store.upsert(decoded(volumes.VOLUMES, body))
    claim = decoded(volumes.CLAIMS, row["claim"])
    found = candidates(store, claim)

    for name, zone in NODES.items():
        labels = {HOSTNAME: name, ZONE: zone}
        volume = found.on_node(store, labels, set(row["chosen"]))
        assert (volume.name if volume is not None else "") == row["expected"].get(name, "")
