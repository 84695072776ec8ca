"""Claims are allocated, reserved and released in the order that the API demands."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest
from aiohttp import web

from scheduler.bind.claim_patch import reservation_patch
from scheduler.bind.claim_protobuf import CONTENT_TYPE, with_finalizer
from scheduler.bind.claim_requests import TRIES
from scheduler.bind.claim_writer import ClaimWriter
from scheduler.model.actions import ClaimRef, ReleaseClaims, ReserveClaim, ReserveClaims
from scheduler.model.dra.claim import ResourceClaim
from scheduler.state.event import ClaimsReleased, ClaimsReserved
from scheduler.watch.client import Client
from scheduler.watch.decode.dra.claims import read_claim
from tests.dra import (
    DRIVER,
    FINALIZER,
    allocation_json,
    claim_json,
    consumer_json,
    resource_claim,
    result_json,
)
from tests.http.fakeapi import Answer, FakeApi, Json, failure, reply
from tests.http.shells import Heard
from tests.unit.bind.test_claim_protobuf import claim as binary_claim
from tests.unit.loop.loop_world import Leader

PATH = "/apis/resource.k8s.io/v1/namespaces/team/resourceclaims/gpu"
CLAIM, STATUS, READ = f"PATCH {PATH}", f"PATCH {PATH}/status", f"GET {PATH}"
TIME = "2026-01-01T00:00:00Z"
GIVEN = allocation_json(
    result_json("gpu-0", shareID="s", consumedCapacity={"memory": "1Gi"}),
    allocationTimestamp=TIME,
)
POD = consumer_json("p")
TERM = {"fieldManager": "gpu-scheduler-term-7"}
CONFLICT = failure(409, "Conflict", "the object has been modified")


def given() -> Any:
    found = resource_claim(allocation=GIVEN).allocation
    assert found is not None
    return found


ALLOCATE = ReserveClaim("team", "gpu", "uid-gpu", "1", given())
RESERVE = msgspec.structs.replace(ALLOCATE, version="4", is_allocated=True, finalizers=(FINALIZER,))
REF = ClaimRef("team", "gpu", "uid-gpu")


def protected(version: str = "2") -> Json:
    """The claim with its finalizer, and without an allocation."""
    body = claim_json(version=version)
    return {**body, "metadata": {**body["metadata"], "finalizers": [FINALIZER]}}


def allocated(*users: str, version: str = "3", **more: Any) -> Json:
    return claim_json(allocation=GIVEN, users=users, version=version, **more)


def decoded(body: Json) -> ResourceClaim:
    return read_claim(msgspec.json.encode(body))


def reserve(*claims: ReserveClaim, attempt: int = 1) -> ReserveClaims:
    return ReserveClaims("team-p", "p", attempt, claims)


class WriterWorld:
    """A running writer and its inbox."""

    def __init__(self, client: Client) -> None:
        self.heard = Heard()
        self.leader = Leader(epoch=7)
        self.writer = ClaimWriter(client, self.heard, self.leader, read_claim, pause_first_s=0.001)

    async def answer_to(self, action: ReserveClaims | ReleaseClaims) -> Any:
        self.writer.send(action)
        return await self.heard.next()


@pytest.fixture
async def world(client: Client) -> AsyncIterator[WriterWorld]:
    one = WriterWorld(client)
    task = asyncio.create_task(one.writer.run())
    yield one
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_finalizer_precedes_allocation_and_reservation_in_one_write(
    api: FakeApi, world: WriterWorld
) -> None:
    api.script(CLAIM, reply(protected()))
    api.script(STATUS, reply(allocated("p")))

    answer = await world.answer_to(reserve(ALLOCATE))

    assert answer == ClaimsReserved("team-p", 1, (decoded(allocated("p")),))
    first, second = api.seen
    assert first.content_type == "application/merge-patch+json"
    assert second.content_type == "application/strategic-merge-patch+json"
    assert first.json == {
        "metadata": {"uid": "uid-gpu", "resourceVersion": "1", "finalizers": [FINALIZER]}
    }
    assert second.json == {
        "metadata": {"uid": "uid-gpu", "resourceVersion": "2"},
        "status": {"allocation": GIVEN, "reservedFor": [POD]},
    }


def binary(content: bytes) -> Answer:
    """An answer in the API's binary form."""

    async def answer(_: web.Request) -> web.StreamResponse:
        return web.Response(body=content, content_type=CONTENT_TYPE)

    return answer


async def test_claim_that_patches_would_change_is_written_in_binary_form(
    api: FakeApi, world: WriterWorld
) -> None:
    """The blanks in its configuration are part of its immutable spec. Every write has the term."""
    immutable = failure(422, "Invalid", "spec: field is immutable")
    api.script(CLAIM, immutable)
    api.script(READ, binary(binary_claim(version="1")))
    api.script(f"PUT {PATH}", reply(protected("5")))
    api.script(STATUS, reply(allocated("p")))

    answer = await world.answer_to(reserve(ALLOCATE))

    assert answer.problem == ""
    put = api.seen[2]
    assert (put.method, put.content_type) == ("PUT", CONTENT_TYPE)
    assert put.body == with_finalizer(binary_claim(version="1"))
    assert api.seen[3].json["metadata"]["resourceVersion"] == "5"
    assert [one.query for one in api.seen] == [TERM, {}, TERM, TERM]


async def test_claim_that_changed_meanwhile_is_not_written_in_binary_form(
    api: FakeApi, world: WriterWorld
) -> None:
    api.script(CLAIM, failure(422, "Invalid"), reply(protected("8")))
    api.script(READ, binary(binary_claim(version="7")), reply(claim_json(version="7")))
    api.script(STATUS, reply(allocated("p")))

    answer = await world.answer_to(reserve(ALLOCATE))

    assert answer.problem == ""
    assert api.count(f"PUT {PATH}") == 0


async def test_protected_claim_gets_no_second_finalizer(api: FakeApi, world: WriterWorld) -> None:
    api.script(STATUS, reply(allocated("p")))

    await world.answer_to(reserve(msgspec.structs.replace(ALLOCATE, finalizers=(FINALIZER,))))

    assert api.count(CLAIM) == 0


async def test_allocated_claim_is_only_reserved(api: FakeApi, world: WriterWorld) -> None:
    api.script(STATUS, reply(allocated("other", "p")))

    answer = await world.answer_to(reserve(RESERVE))

    assert answer.claims[0].is_reserved_for("team-p")
    assert [one.json for one in api.seen] == [
        {
            "metadata": {"uid": "uid-gpu", "resourceVersion": "4"},
            "status": {"reservedFor": [POD]},
        }
    ]


def test_every_field_of_an_allocation_is_written_as_it_is_read() -> None:
    """What the API server stores is what the decision said."""
    toleration = {"key": "k", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 0}
    whole = allocation_json(
        result_json(
            "gpu-0",
            adminAccess=True,
            tolerations=[toleration],
            bindingConditions=["Ready"],
            bindingFailureConditions=["Failed"],
            skipNodeOperations=["*"],
        ),
        result_json("gpu-1", shareID="s", consumedCapacity={"memory": "1500m"}),
        allocationTimestamp=TIME,
    )
    opaque = {"driver": DRIVER, "parameters": {"b": [1, {"a": None}]}}
    whole["devices"]["config"] = [
        {"source": "FromClass", "opaque": opaque},
        {"source": "FromClaim", "requests": ["gpu"], "opaque": opaque},
    ]
    allocation = resource_claim(allocation=whole).allocation
    assert allocation is not None

    body = msgspec.json.decode(reservation_patch("u", "1", "p", "team-p", allocation))
    assert body["status"]["allocation"] == whole


@pytest.mark.parametrize(
    ("action", "conflict_at", "seen"),
    [
        pytest.param(ALLOCATE, CLAIM, claim_json(version="7"), id="finalizer"),
        pytest.param(ALLOCATE, STATUS, protected("7"), id="allocation"),
        pytest.param(RESERVE, STATUS, allocated("other", version="7"), id="reservation"),
    ],
)
async def test_conflict_about_something_else_repeats_the_write(
    api: FakeApi, world: WriterWorld, action: ReserveClaim, conflict_at: str, seen: Json
) -> None:
    api.script(CLAIM, reply(protected()))
    api.script(STATUS, reply(allocated("p", version="9")))
    good = reply(protected("8")) if conflict_at == CLAIM else reply(allocated("p", version="9"))
    api.script(conflict_at, CONFLICT, good)
    api.script(READ, reply(seen))

    answer = await world.answer_to(reserve(action))

    assert answer.problem == ""
    assert answer.claims[0].version == "9"
    repeated = [one for one in api.seen if f"{one.method} {one.path}" == conflict_at][-1]
    assert repeated.json["metadata"]["resourceVersion"] == "7"


ELSEWHERE = claim_json(version="7", allocation=allocation_json(result_json("gpu-9")))


@pytest.mark.parametrize(
    ("action", "seen", "problem"),
    [
        pytest.param(ALLOCATE, ELSEWHERE, "allocated by another scheduler", id="allocated"),
        pytest.param(ALLOCATE, claim_json(deleting=True), "being deleted", id="deleted"),
        pytest.param(RESERVE, protected("7"), "deallocated in the meantime", id="deallocated"),
        pytest.param(RESERVE, ELSEWHERE, "deallocated in the meantime", id="given-other-devices"),
    ],
)
async def test_claim_that_is_not_as_decided_ends_the_writes(
    api: FakeApi, world: WriterWorld, action: ReserveClaim, seen: Json, problem: str
) -> None:
    action = msgspec.structs.replace(action, finalizers=(FINALIZER,))
    api.script(STATUS, CONFLICT)
    api.script(READ, reply(seen))

    answer = await world.answer_to(reserve(action, action, attempt=3))

    assert answer == ClaimsReserved("team-p", 3, (), answer.problem)
    assert answer.problem.startswith("claim team/gpu: it")
    assert problem in answer.problem
    assert api.count(STATUS) == 1


async def test_claim_replaced_by_another_one_ends_the_writes(
    api: FakeApi, world: WriterWorld
) -> None:
    body = claim_json()
    api.script(CLAIM, CONFLICT)
    api.script(READ, reply({**body, "metadata": {**body["metadata"], "uid": "another"}}))

    answer = await world.answer_to(reserve(ALLOCATE))

    assert "replaced by another claim" in answer.problem


async def test_lost_answer_to_our_own_write_is_a_success(api: FakeApi, world: WriterWorld) -> None:
    """The repeated write conflicts with the first one, which the API server has carried out."""
    api.script(STATUS, failure(504, "Timeout"), CONFLICT)
    api.script(READ, reply(allocated("p", version="9")))

    answer = await world.answer_to(
        reserve(msgspec.structs.replace(ALLOCATE, finalizers=(FINALIZER,)))
    )

    assert answer.problem == ""
    assert answer.claims[0].version == "9"


async def test_conflicts_without_end_fail(api: FakeApi, world: WriterWorld) -> None:
    api.script(STATUS, CONFLICT)
    api.script(READ, reply(protected("7")))

    answer = await world.answer_to(
        reserve(msgspec.structs.replace(ALLOCATE, finalizers=(FINALIZER,)))
    )

    assert answer.problem == "claim team/gpu: the object has been modified"
    assert api.count(STATUS) == TRIES


async def test_claims_reserved_before_a_failure_are_reported(
    api: FakeApi, world: WriterWorld
) -> None:
    api.script(STATUS, reply(allocated("p", version="9")), failure(422, "Invalid", "no"))

    answer = await world.answer_to(reserve(RESERVE, RESERVE))

    reserved = decoded(allocated("p", version="9"))
    assert answer == ClaimsReserved("team-p", 1, (reserved,), "claim team/gpu: no")


async def test_former_leader_writes_no_claim(api: FakeApi, world: WriterWorld) -> None:
    world.leader.is_leading = False

    assert await world.answer_to(reserve(ALLOCATE)) == ClaimsReserved("team-p", 1, is_unsent=True)
    assert await world.answer_to(ReleaseClaims("team-p", (REF,))) == ClaimsReleased("team-p")
    assert api.seen == []


async def test_release_takes_only_the_pods_own_reservation(
    api: FakeApi, world: WriterWorld
) -> None:
    api.script(STATUS, reply(allocated("other", version="9")))

    answer = await world.answer_to(ReleaseClaims("team-p", (REF,), deallocate=True))

    assert answer == ClaimsReleased("team-p", (decoded(allocated("other", version="9")),))
    assert [one.json for one in api.seen] == [
        {
            "metadata": {"uid": "uid-gpu"},
            "status": {"reservedFor": [{"$patch": "delete", "uid": "team-p"}]},
        }
    ]


async def test_last_reservation_is_followed_by_deallocation(
    api: FakeApi, world: WriterWorld
) -> None:
    api.script(STATUS, reply(allocated(version="9")), reply(protected("10")))

    answer = await world.answer_to(ReleaseClaims("team-p", (REF,), deallocate=True))

    assert answer.claims[0].allocation is None
    assert api.seen[-1].json == {
        "metadata": {"uid": "uid-gpu", "resourceVersion": "9"},
        "status": {"allocation": None, "reservedFor": None, "devices": None},
    }


async def test_claim_reserved_in_the_meantime_is_not_deallocated(
    api: FakeApi, world: WriterWorld
) -> None:
    api.script(STATUS, reply(allocated(version="9")), CONFLICT)
    api.script(READ, reply(allocated("other", version="10")))

    answer = await world.answer_to(ReleaseClaims("team-p", (REF,), deallocate=True))

    assert answer.claims == (decoded(allocated("other", version="10")),)
    assert api.count(STATUS) == 2


async def test_release_of_a_claim_that_is_gone_changes_nothing(
    api: FakeApi, world: WriterWorld
) -> None:
    api.script(STATUS, failure(404))

    assert await world.answer_to(ReleaseClaims("team-p", (REF,))) == ClaimsReleased("team-p")


async def test_release_spares_another_claim_of_the_same_name(
    api: FakeApi, world: WriterWorld
) -> None:
    body = claim_json()
    api.script(STATUS, CONFLICT)
    api.script(READ, reply({**body, "metadata": {**body["metadata"], "uid": "another"}}))

    assert await world.answer_to(ReleaseClaims("team-p", (REF,))) == ClaimsReleased("team-p")
    assert api.count(STATUS) == 1


async def test_release_is_repeated_after_a_conflict(api: FakeApi, world: WriterWorld) -> None:
    api.script(STATUS, CONFLICT, reply(allocated(version="9")))
    api.script(READ, reply(allocated("p", version="8")))

    answer = await world.answer_to(ReleaseClaims("team-p", (REF,)))

    assert answer.claims == (decoded(allocated(version="9")),)


async def test_requests_of_one_pod_keep_their_order(api: FakeApi, world: WriterWorld) -> None:
    """A release that is repeated must not overtake the next reservation."""
    api.script(STATUS, failure(503), reply(allocated(version="5")), reply(allocated("p")))

    world.writer.send(ReleaseClaims("team-p", (REF,)))
    world.writer.send(reserve(RESERVE))

    assert isinstance(await world.heard.next(), ClaimsReleased)
    assert isinstance(await world.heard.next(), ClaimsReserved)
    sent = ["$patch" in str(one.json) for one in api.seen]
    assert sent == [True, True, False]
