"""Objects and annotations of builds up to commit 8db2d48 are read under their present names."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from scheduler.model import well_known
from scheduler.model.crd import former_version, migration_codec
from scheduler.model.crd.migration_result import MigrationResult
from scheduler.watch.decode.pods import kept
from tests.builders import restoring

TICKET = restoring("restore-2-0a1b2c3d", attempt=2, replicas=3, deadline=1795770000.0)
FORMER_RESULTS = {
    "Done": MigrationResult.SUCCEEDED,
    "WithoutTier": MigrationResult.TIER_NOT_GRANTED,
    "Expired": MigrationResult.DEADLINE_EXCEEDED,
    "Hindered": MigrationResult.BLOCKED,
    "Forbidden": MigrationResult.FORBIDDEN,
    "PodChanged": MigrationResult.POD_CHANGED,
    "Refused": MigrationResult.EVICTION_REFUSED,
    "Unwritten": MigrationResult.NOT_CREATED,
}


def mig_rule(**status: str) -> bytes:
    """A MigRule as such a build wrote it."""
    rule: dict[str, Any] = msgspec.json.decode(migration_codec.encode(TICKET, "own"))
    rule["kind"] = "MigRule"
    rule["spec"]["move"] = rule["spec"].pop("type")
    rule["metadata"]["uid"] = "u-t"
    return msgspec.json.encode(rule | ({"status": status} if status else {}))


def test_open_migrule_is_a_migration_in_progress() -> None:
    assert former_version.migration_of(mig_rule()) == msgspec.structs.replace(TICKET, uid="u-t")


@pytest.mark.parametrize(("word", "result"), FORMER_RESULTS.items(), ids=FORMER_RESULTS)
def test_result_of_a_migrule_is_read(word: str, result: MigrationResult) -> None:
    rule = mig_rule(result=word, ended="2026-11-27T10:00:00Z", message="why")

    end = former_version.migration_of(rule).end

    assert end is not None
    assert (end.result, end.at, end.text) == (result, 1795773600.0, "why")


@pytest.mark.parametrize("content", [b"{}", b"[]", b'{"metadata": {}, "spec": {"move": 7}}', b"{"])
def test_undecodable_migrule_raises_a_value_error(content: bytes) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - msgspec's two kinds
        former_version.migration_of(content)


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ({well_known.FORMER_MIGRATION: "restore-1-a"}, {well_known.MIGRATION: "restore-1-a"}),
        (
            {well_known.FORMER_MIGRATION: "restore-1-a", well_known.MIGRATION: "restore-2-b"},
            {well_known.MIGRATION: "restore-2-b"},
        ),
    ],
    ids=["former name only", "both names"],
)
def test_former_annotation_is_read_as_the_migration(
    written: dict[str, str], read: dict[str, str]
) -> None:
    assert kept(written) == read
