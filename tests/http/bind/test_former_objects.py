"""A new leader copies the objects of a former version before its caches are listed."""

from __future__ import annotations

import msgspec
import pytest

from scheduler.bind.former_objects import FormerObjects
from scheduler.model.crd import former_version, mig_partition_codec, migration_codec
from scheduler.watch.client import Client
from tests.http.fakeapi import FakeApi, Json, failure, reply
from tests.unit.loop.loop_world import Leader
from tests.unit.model.crd.test_former_version import TICKET, mig_rule

RULES = former_version.path(former_version.MIGRATIONS, "own")
CUTS = former_version.path(former_version.PARTITIONS, "own")
TICKETS = migration_codec.path("own")
PARTITIONS = mig_partition_codec.path("own")
CUT: Json = {
    "metadata": {"name": "n1"},
    "spec": {"epoch": 3, "instances": [{"gpu": 0, "profile": "2g.20gb", "start": 4}]},
}
NOW = 50.0


@pytest.fixture
def former(client: Client, api: FakeApi) -> FormerObjects:
    for kind in (RULES, CUTS):
        api.script(f"GET {kind}", failure(404, "NotFound"))
    for kind in (TICKETS, PARTITIONS):
        api.script(f"POST {kind}", reply({}))
    api.script(f"PATCH {TICKETS}/{TICKET.id}/status", reply({}))
    api.script(f"DELETE {RULES}/{TICKET.id}", reply({}))
    return FormerObjects(client, "own", Leader(epoch=7), lambda: NOW)


def rules(**status: str) -> Json:
    """A list of one MigRule."""
    return {"items": [msgspec.json.decode(mig_rule(**status))]}


async def test_cluster_without_the_former_kinds_needs_two_requests(
    api: FakeApi, former: FormerObjects
) -> None:
    assert await former.adopt(7.0) == 7.0
    assert [(seen.method, seen.path) for seen in api.seen] == [("GET", RULES), ("GET", CUTS)]


async def test_open_migrule_becomes_a_podmigration_and_is_deleted(
    api: FakeApi, former: FormerObjects
) -> None:
    api.script(f"GET {RULES}", reply(rules()))

    assert await former.adopt(7.0) == NOW, "the caches must contain the copy"

    assert (await api.next(f"POST {TICKETS}")).body == migration_codec.encode(TICKET, "own")
    deleted = await api.next(f"DELETE {RULES}/{TICKET.id}")
    assert deleted.json == {"preconditions": {"uid": "u-t"}}
    assert api.count(f"PATCH {TICKETS}/{TICKET.id}/status") == 0


async def test_result_of_a_completed_migrule_is_kept(api: FakeApi, former: FormerObjects) -> None:
    told = {"result": "Expired", "ended": "2026-11-27T10:00:00Z", "message": "late"}
    api.script(f"GET {RULES}", reply(rules(**told)))

    await former.adopt(7.0)

    patched = await api.next(f"PATCH {TICKETS}/{TICKET.id}/status")
    assert patched.json == {
        "status": {
            "result": "DeadlineExceeded",
            "completionTime": "2026-11-27T10:00:00Z",
            "message": "late",
        }
    }


async def test_copy_that_an_earlier_leader_created_is_finished(
    api: FakeApi, former: FormerObjects
) -> None:
    api.script(f"GET {RULES}", reply(rules()))
    api.script(f"POST {TICKETS}", failure(409, "AlreadyExists"))

    await former.adopt(7.0)

    assert api.count(f"DELETE {RULES}/{TICKET.id}") == 1


async def test_migrule_stays_where_the_podmigration_is_refused(
    api: FakeApi, former: FormerObjects
) -> None:
    api.script(f"GET {RULES}", reply(rules()))
    api.script(f"POST {TICKETS}", failure(403, "Forbidden"))

    assert await former.adopt(7.0) == 7.0

    assert api.count(f"DELETE {RULES}/{TICKET.id}") == 0
    assert api.count(f"GET {CUTS}") == 1


async def test_unreadable_migrule_stays_and_the_others_are_copied(
    api: FakeApi, former: FormerObjects
) -> None:
    items = [{"metadata": {"name": "by-hand"}}, *rules()["items"]]
    api.script(f"GET {RULES}", reply({"items": items}))

    await former.adopt(7.0)

    assert api.count(f"POST {TICKETS}") == 1
    assert api.count(f"DELETE {RULES}/by-hand") == 0


async def test_migcut_becomes_a_migpartition_of_this_term_and_is_kept(
    api: FakeApi, former: FormerObjects
) -> None:
    api.script(f"GET {CUTS}", reply({"items": [CUT]}))

    assert await former.adopt(7.0) == NOW

    created = (await api.next(f"POST {PARTITIONS}")).json
    assert created["metadata"]["name"] == "n1"
    assert created["spec"] == CUT["spec"] | {"epoch": 7}
    assert {seen.method for seen in api.seen} == {"GET", "POST"}


async def test_migcut_of_a_node_with_a_migpartition_changes_nothing(
    api: FakeApi, former: FormerObjects
) -> None:
    api.script(f"GET {CUTS}", reply({"items": [CUT]}))
    api.script(f"POST {PARTITIONS}", failure(409, "AlreadyExists"))

    assert await former.adopt(7.0) == 7.0


async def test_process_without_migrations_reads_no_migrule(api: FakeApi, client: Client) -> None:
    api.script(f"GET {CUTS}", failure(404, "NotFound"))
    without = FormerObjects(client, "own", Leader(epoch=7), lambda: NOW, has_migrations=False)

    assert await without.adopt(7.0) == 7.0
    assert [seen.path for seen in api.seen] == [CUTS]
