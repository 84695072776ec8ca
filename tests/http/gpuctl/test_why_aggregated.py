"""``gpuctl why`` without a right on the scheduler's pods: through the API server, if enabled."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from gpuctl.pods.pod_answers import of_api_server
from scheduler.decide.remedy.outlook import CanStart, Closest, Outlook
from scheduler.report.decisions.api_types import API_VERSION, PodAnswer
from scheduler.watch.client import Client
from tests.builders import pod_json
from tests.http.fakeapi import FakeApi, failure, listed, reply
from tests.http.gpuctl.test_cluster_access import EVENTS, POD
from tests.http.gpuctl.test_why_command import PODS, REFUSED, WAITS, User, told

AGGREGATED = "GET /apis/decisions.gpu-scheduler.io/v1alpha1/namespaces/team/decisions/a"
CLOSEST = Closest(node="n1", text="0 of 1 nvidia.com/gpu free", elsewhere=2)
ANSWER = PodAnswer(
    api_version=API_VERSION,
    namespace="team",
    pod="a",
    leads=True,
    now=REFUSED,
    outlook=Outlook(can_start=CanStart.LATER, text="when pods on 1 node end", closest=CLOSEST),
)


def decision(answer: PodAnswer = ANSWER) -> Any:
    """A Decision of the API group."""
    whole = json.loads(msgspec.json.encode(answer))
    return reply({"kind": "Decision", "metadata": {"name": "a"}, "answer": whole})


@pytest.fixture
def tenant(api: FakeApi, tmp_path: Path) -> User:
    """A user who may read pods and events in one namespace, and a pod that waits there."""
    api.script(EVENTS, reply({"items": []}))
    waiting = pod_json("a", status={"conditions": [WAITS]})
    api.script(POD, reply(waiting))
    api.script(PODS, reply(listed("1", waiting)))
    return User(api, tmp_path)


async def test_answer_of_the_api_server_is_the_present_one(tenant: User) -> None:
    tenant.api.script(AGGREGATED, decision())

    result = await tenant.types("why", "a")

    assert result.status == 2, result.err
    assert "CAN start later: when pods on 1 node end" in result.out
    assert "n1: 0 of 1 nvidia.com/gpu free" in result.out
    assert "held by 2 pods of other namespaces" in result.out
    assert "port-forward" not in result.out


async def test_group_has_the_outlook_of_its_oldest_pod(tenant: User) -> None:
    tenant.api.script(AGGREGATED, decision())

    result = await tenant.types("why", "-o", "json")

    assert result.status == 2, result.err

    found = json.loads(result.out)
    assert [group["outlook"]["canStart"] for group in found["groups"]] == ["later"]
    assert "more" not in found


@pytest.mark.parametrize("status", [403, 404])
async def test_without_the_api_or_a_right_the_stored_answer_is_shown(
    tenant: User, status: int
) -> None:
    tenant.api.script(AGGREGATED, failure(status, "no"))

    result = await tenant.types("why", "a")

    assert result.status == 2
    assert "Too many pods" in result.out
    assert "remarks" not in result.out
    assert "port-forward" in result.out


async def test_failed_api_is_a_remark(tenant: User) -> None:
    tenant.api.script(AGGREGATED, failure(503, "ServiceUnavailable", "no leader answers"))

    result = await tenant.types("why", "a")

    assert result.status == 2
    assert "the aggregated decisions API: no leader answers" in result.out
    assert "port-forward" in result.out


async def test_busy_leader_is_asked_again_after_the_time_it_names(
    api: FakeApi, client: Client
) -> None:
    pauses: list[float] = []

    async def pause(seconds: float) -> None:
        pauses.append(seconds)

    busy = failure(503, "ServiceUnavailable", "ask again after 2 s", retry_after="2")
    api.script(AGGREGATED, busy, decision())

    answer = await of_api_server(client, "team", "a", pause)

    assert answer == ANSWER
    assert pauses == [2.0]


async def test_leader_is_asked_first(tenant: User) -> None:
    tenant.api.script("GET /decisions/team/a", told(REFUSED, waits=True))
    tenant.api.script(AGGREGATED, decision())

    result = await tenant.types("why", "a", "--server", tenant.api.url)

    assert result.status == 2
    assert tenant.api.count(AGGREGATED) == 0
