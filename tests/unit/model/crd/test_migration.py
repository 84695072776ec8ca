"""Migrations as values and as API objects, and the annotation that names one on a pod."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from scheduler.model import well_known
from scheduler.model.crd import migration_codec
from scheduler.model.crd.migration import holder, is_for, match_of
from scheduler.model.crd.migration_result import MigrationEnd, MigrationResult
from scheduler.model.dra.device import DeviceId
from scheduler.state import event as ev
from scheduler.watch.decode import migrations
from tests.builders import pod, restoring

CRD = Path(__file__).parents[4] / "cluster" / "crd-podmigrations.yaml"
TICKET = restoring(
    "restore-2-0a1b2c3d",
    index=3,
    requests={"nvidia.com/mig-2g.20gb": 1, "cpu": 500},
    devices=(DeviceId("gpu.example.com", "n1", "gpu-0"),),
    priority=-7,
    attempt=2,
    replicas=3,
    deadline=1795770000.0,
)
END = MigrationEnd(MigrationResult.DEADLINE_EXCEEDED, 1795770000.25, "not placed in time")


@pytest.mark.contract("S3-13")
def test_written_object_is_read_back() -> None:
    stored = msgspec.json.decode(migration_codec.encode(TICKET, "own"))
    stored["metadata"] |= {"uid": "u-t", "creationTimestamp": "2026-11-27T10:00:00Z"}

    read = migration_codec.decode(msgspec.json.encode(stored))

    assert read == msgspec.structs.replace(TICKET, uid="u-t", made_at=1795773600.0)


def test_migration_result_is_read_as_written() -> None:
    """An hour is counted from it, and the API has whole seconds."""
    stored = msgspec.json.decode(migration_codec.encode(TICKET, "own"))
    patch = msgspec.json.decode(migration_codec.encode_end(END))
    stored["status"] = patch["status"]

    read = migration_codec.decode(msgspec.json.encode(stored)).end

    assert read == MigrationEnd(
        MigrationResult.DEADLINE_EXCEEDED, 1795770001.0, "not placed in time"
    )


@pytest.mark.contract("S3-12", "S3-13")
def test_the_schema_knows_every_field_that_is_written_and_no_other() -> None:
    crd = yaml.safe_load(CRD.read_text())
    [version] = crd["spec"]["versions"]
    schema = version["schema"]["openAPIV3Schema"]["properties"]
    spec, status = schema["spec"], schema["status"]
    written: dict[str, Any] = msgspec.json.decode(migration_codec.encode(TICKET, "own"))["spec"]
    ended: dict[str, Any] = msgspec.json.decode(migration_codec.encode_end(END))["status"]

    assert crd["metadata"]["name"] == f"{migration_codec.PLURAL}.{migration_codec.GROUP}"
    assert (version["name"], crd["spec"]["names"]["kind"]) == (
        migration_codec.VERSION,
        migration_codec.KIND,
    )
    assert set(spec["properties"]) == set(written)
    assert set(spec["required"]) <= set(written)
    assert set(status["properties"]) == set(ended)
    assert set(status["properties"]["result"]["enum"]) == {
        result.word for result in MigrationResult
    }
    assert status["properties"]["message"]["maxLength"] == migration_codec.TEXT_MAX


def test_unreadable_migration_is_no_ticket() -> None:
    foreign = msgspec.json.encode({"metadata": {"name": "by-hand"}, "spec": {"move": "Sideways"}})
    good = msgspec.Raw(migration_codec.encode(TICKET, "own"))
    newer = msgspec.json.decode(good)
    newer["status"] = {"result": "Sideways", "completionTime": "2026-11-27T10:00:00Z"}
    later = msgspec.json.encode(newer)

    for content, name in ((foreign, "by-hand"), (later, TICKET.id)):
        found = migrations.migration_event(content, is_gone=False)
        assert isinstance(found, ev.MigrationDeleted)
        assert (found.migration_id, found.unread is not None) == (name, True)
    listed = migrations.migrations_listed([msgspec.Raw(foreign), good])
    assert isinstance(listed, ev.MigrationsReplaced)
    assert (listed.migrations, [one.name for one in listed.unread]) == ((TICKET,), ["by-hand"])
    assert migrations.migration_event(foreign, is_gone=True) == ev.MigrationDeleted("by-hand")


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        pytest.param({}, True, id="its-replacement"),
        pytest.param({"annotations": {}}, False, id="without-the-annotation"),
        pytest.param({"namespace": "other"}, False, id="another-namespace"),
        pytest.param({"owner": "Deployment/other"}, False, id="another-owner"),
        pytest.param({"owner": ""}, False, id="bare"),
    ],
)
def test_held_devices_of_a_ticket_are_only_for_pods_of_its_owner(
    fields: dict[str, Any], expected: bool
) -> None:
    claims = {
        "owner": "Deployment/web@r1",
        "annotations": {well_known.MIGRATION: TICKET.id},
        **fields,
    }

    assert is_for(holder(TICKET), pod("p", **claims)) is expected


def test_pods_with_an_index_are_not_interchangeable() -> None:
    first, second = (pod(f"db-{n}", owner="StatefulSet/db") for n in (0, 1))
    replicas = [pod(f"web-{n}", owner="Deployment/web") for n in (0, 1)]

    assert match_of(first) != match_of(second)
    assert match_of(replicas[0]) == match_of(replicas[1])
    assert match_of(pod("bare-0")) is None
