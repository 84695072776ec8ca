"""How the doctor reads pods: in pages, with neighbours, strangers and waits."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from gpuctl.doctor.collect_pods import pods_seen
from gpuctl.doctor.facts import Neighbour, PodsSeen, Unread, Waiting
from gpuctl.doctor.reader import Reader, known
from scheduler.model import well_known
from scheduler.watch.client import Client
from tests.builders import pod_json
from tests.http.fakeapi import FakeApi, failure, listed, reply
from tests.http.gpuctl.test_why_command import User

PODS = "GET /api/v1/pods"
CREATED = datetime.fromisoformat(pod_json("p")["metadata"]["creationTimestamp"])
NOW = CREATED + timedelta(seconds=1100)
DECIDED = {well_known.DECISION: "a-1"}


def waits(name: str, message: str = "", **fields: Any) -> dict[str, Any]:
    condition = {"type": "PodScheduled", "status": "False", "message": message}
    return pod_json(name, gpus=1, status={"conditions": [condition]}, **fields)


FULL = "0/2 nodes are available: 2 Insufficient nvidia.com/gpu (need 1; best node has 0 free)."
OTHER = pod_json("other", gpus=1, node="n2", scheduler="default-scheduler")


async def test_pods_of_every_page_are_counted(api: FakeApi, client: Client) -> None:
    first = listed(
        "7",
        waits("full", FULL),
        waits("new"),
        pod_json("mine", gpus=1, node="n1", annotations=DECIDED),
        pod_json("stranger", gpus=1, node="n1"),
        pod_json("done", gpus=1, node="n1", scheduler="volcano", phase="Succeeded"),
    )
    first["metadata"]["continue"] = "more"
    second = listed(
        "7",
        OTHER,
        pod_json("web", node="n2", scheduler="default-scheduler"),
        pod_json("pending", gpus=1, scheduler="default-scheduler"),
        waits("gated", gates=("team/quota",)),
        waits("goes", deleting=True),
        {"metadata": {"name": 7}},
    )
    api.script(PODS, reply(first), reply(second))

    assert await pods_seen(Reader(client), "gpu-scheduler", NOW) == PodsSeen(
        count=11,
        strangers=("team/stranger",),
        neighbours=(Neighbour("default-scheduler", 1, ("n2",)),),
        waiting=Waiting(2, 1100.0, (("INSUFFICIENT", 1), ("NO_ANSWER", 1))),
    )
    assert [seen.query.get("limit") for seen in api.seen] == ["500", "500"]


@pytest.mark.parametrize(
    ("message", "lacks"),
    [
        pytest.param(
            'nodes is forbidden: User "u" cannot list resource "nodes" in API group "" at the'
            " cluster scope",
            "list nodes",
            id="core",
        ),
        pytest.param(
            'leases.coordination.k8s.io "x" is forbidden: User "u" cannot get resource "leases" in'
            ' API group "coordination.k8s.io" in the namespace "a"',
            "get leases.coordination.k8s.io",
            id="group",
        ),
        pytest.param("denied by a policy", "", id="another-refusal"),
    ],
)
async def test_missing_right_is_read_from_the_answer(
    api: FakeApi, client: Client, message: str, lacks: str
) -> None:
    api.script(PODS, failure(403, "Forbidden", message))

    found = await known(pods_seen(Reader(client), "gpu-scheduler", NOW))

    assert found == Unread(message, lacks)


async def test_missing_namespace_is_said_in_one_line(api: FakeApi, tmp_path: Path) -> None:
    api.script("GET /version", reply({"major": "1", "minor": "37"}))

    result = await User(api, tmp_path).types("doctor", "-n", "nope")

    assert (result.status, result.out) == (1, "")
    assert result.err == "gpuctl doctor: namespace nope does not exist; -n NS names another\n"
