"""The claim for extended resources is created, allocated, named and deleted in order."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from scheduler.model.actions import CreateClaim, CreatedClaim, ReleaseClaims, ReserveClaims
from scheduler.model.dra.extended_resources import extended_requests
from scheduler.state.event import ClaimsReleased, ClaimsReserved
from scheduler.watch.client import Client
from tests.builders import GPU, pod
from tests.dra import FINALIZER, claim_json, request_json
from tests.http.bind.test_claim_writer import GIVEN, POD, WriterWorld, decoded, given
from tests.http.fakeapi import Answer, FakeApi, Json, failure, reply

CLAIMS = "/apis/resource.k8s.io/v1/namespaces/team/resourceclaims"
NAME = "p-extended-resources-x7k2p"
POD_STATUS = "PATCH /api/v1/namespaces/team/pods/p/status"
CREATE, STATUS = f"POST {CLAIMS}", f"PATCH {CLAIMS}/{NAME}/status"
READ, DELETE = f"GET {CLAIMS}/{NAME}", f"DELETE {CLAIMS}/{NAME}"
POD_READ = "GET /api/v1/namespaces/team/pods/p"
WAITS = reply({"metadata": {"uid": "team-p"}, "spec": {}})
GONE = failure(404, "NotFound", "no such pod")
ASKED = extended_requests(pod("p", gpus=2).containers, {GPU: "gpu"})
ACTION = ReserveClaims("team-p", "p", 1, (), CreateClaim("team", NAME, ASKED, given()))
UNDO = ReleaseClaims("team-p", (), created=CreatedClaim("team", NAME, "p"))


def claim(version: str = "2", *, owner: str = "team-p", is_allocated: bool = False) -> Json:
    """The claim as the API server has it."""
    request = request_json("container-0-request-0", "gpu", count=2)
    more: Json = {"allocation": GIVEN, "users": ["p"]} if is_allocated else {}
    body = claim_json(NAME, request, version=version, owner=owner, extended=True, **more)
    return {**body, "metadata": {**body["metadata"], "finalizers": [FINALIZER]}}


@pytest.fixture
async def world(client: Client) -> AsyncIterator[WriterWorld]:
    one = WriterWorld(client)
    task = asyncio.create_task(one.writer.run())
    yield one
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


def done(api: FakeApi) -> list[str]:
    """The requests in their order."""
    return [f"{one.method} {one.path}" for one in api.seen]


async def test_claim_is_created_allocated_and_named_in_this_order(
    api: FakeApi, world: WriterWorld
) -> None:
    api.script(CREATE, reply(claim()))
    api.script(STATUS, reply(claim("3", is_allocated=True)))
    api.script(POD_STATUS, reply({}))

    answer = await world.answer_to(ACTION)

    assert answer == ClaimsReserved("team-p", 1, (decoded(claim("3", is_allocated=True)),))
    assert done(api) == [CREATE, STATUS, POD_STATUS]
    made, allocated, named = (one.json for one in api.seen)
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "team-p", "controller": True}
    assert made["metadata"] == {
        "name": NAME,
        "namespace": "team",
        "generateName": "p-extended-resources-",
        "annotations": {"resource.kubernetes.io/extended-resource-claim": "true"},
        "ownerReferences": [owner],
        "finalizers": [FINALIZER],
    }
    exactly = {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 2}
    asked = [{"name": "container-0-request-0", "exactly": exactly}]
    assert made["spec"] == {"devices": {"requests": asked}}
    assert allocated["metadata"] == {"uid": f"uid-{NAME}", "resourceVersion": "2"}
    assert allocated["status"] == {"allocation": GIVEN, "reservedFor": [POD]}
    mapping = {
        "containerName": "app",
        "resourceName": GPU,
        "requestName": "container-0-request-0",
    }
    status = {"resourceClaimName": NAME, "requestMappings": [mapping]}
    assert named == {
        "metadata": {"uid": "team-p"},
        "status": {"extendedResourceClaimStatus": status},
    }


async def test_lost_answer_creates_no_second_claim(api: FakeApi, world: WriterWorld) -> None:
    api.script(CREATE, failure(503, "busy", "later"), failure(409, "AlreadyExists", "it exists"))
    api.script(READ, reply(claim()))
    api.script(STATUS, reply(claim("3", is_allocated=True)))
    api.script(POD_STATUS, reply({}))

    answer = await world.answer_to(ACTION)

    assert answer.problem == ""
    assert done(api) == [CREATE, CREATE, READ, STATUS, POD_STATUS]


async def test_claim_of_another_pod_is_not_taken(api: FakeApi, world: WriterWorld) -> None:
    api.script(CREATE, failure(409, "AlreadyExists", "it exists"))
    api.script(READ, reply(claim(owner="another")))

    answer = await world.answer_to(ACTION)

    assert answer.problem == f"claim team/{NAME}: another claim has its name"
    assert api.count(STATUS) == 0


async def test_pod_that_is_gone_is_told(api: FakeApi, world: WriterWorld) -> None:
    """The controller then deletes the claim."""
    api.script(CREATE, reply(claim()))
    api.script(STATUS, reply(claim("3", is_allocated=True)))
    api.script(POD_STATUS, failure(404, "NotFound", 'pods "p" not found'))

    answer = await world.answer_to(ACTION)

    assert answer.claims == ()
    assert answer.problem == f'claim team/{NAME}: pods "p" not found'


async def test_undo_frees_the_devices_and_deletes_the_claim(
    api: FakeApi, world: WriterWorld
) -> None:
    released = {**claim("4", is_allocated=True), "status": {"allocation": GIVEN}}
    api.script(READ, reply(claim("3", is_allocated=True)))
    api.script(POD_READ, WAITS)
    api.script(STATUS, reply(released), reply(claim("5")))
    api.script(DELETE, reply({}))

    assert await world.answer_to(UNDO) == ClaimsReleased("team-p")

    assert done(api) == [READ, POD_READ, STATUS, STATUS, DELETE]
    assert api.seen[3].json["status"]["allocation"] is None
    assert api.seen[4].json == {"preconditions": {"uid": f"uid-{NAME}"}}


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(failure(404, "NotFound", "no such claim"), id="never-created"),
        pytest.param(reply(claim(owner="another")), id="of-another-pod"),
    ],
)
async def test_undo_leaves_other_claims(api: FakeApi, world: WriterWorld, answer: Answer) -> None:
    api.script(READ, answer)

    assert await world.answer_to(UNDO) == ClaimsReleased("team-p")

    assert done(api) == [READ]


async def test_claim_without_an_allocation_is_deleted(api: FakeApi, world: WriterWorld) -> None:
    api.script(READ, reply(claim()))
    api.script(POD_READ, GONE)
    api.script(STATUS, reply(claim("3")))
    api.script(DELETE, reply({}))

    assert await world.answer_to(UNDO) == ClaimsReleased("team-p")
    assert done(api) == [READ, POD_READ, STATUS, DELETE]


async def test_undo_leaves_the_claim_of_a_bound_pod(api: FakeApi, world: WriterWorld) -> None:
    """A former leader sent its Binding, and the watch did not show it yet."""
    api.script(READ, reply(claim("3", is_allocated=True)))
    api.script(POD_READ, reply({"metadata": {"uid": "team-p"}, "spec": {"nodeName": "n1"}}))

    assert await world.answer_to(UNDO) == ClaimsReleased("team-p")

    assert done(api) == [READ, POD_READ]


async def test_nothing_is_deleted_without_the_lease(api: FakeApi, world: WriterWorld) -> None:
    world.leader.is_leading = False

    assert await world.answer_to(UNDO) == ClaimsReleased("team-p")
    assert done(api) == []
