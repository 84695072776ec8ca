"""Another ``scheduler.name`` than the chart's default: where gpuctl learns it, and who uses it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from gpuctl.cluster_access import Access
from gpuctl.our_scheduler import OurScheduler, our_scheduler
from scheduler.report.decisions.api_types import API_VERSION, Leader
from scheduler.watch.client import Client
from tests.builders import pod_json
from tests.http.fakeapi import FakeApi, failure, reply
from tests.http.gpuctl.test_cluster_access import EVENTS, POD
from tests.http.gpuctl.test_why_command import PODS, WAITS, User

TEAM = "team-scheduler"
UNKNOWN = OurScheduler(is_known=False)
CONFIG_MAP = "GET /api/v1/namespaces/gpu-scheduler-system/configmaps/gpu-scheduler-config"
FILE = f"apiVersion: gpu-scheduler.io/v1\nschedulerName: {TEAM}\n"
QUOTAS = "GET /api/v1/namespaces/team/resourcequotas"


def config_map(content: str) -> Any:
    return reply({"metadata": {"name": "x"}, "data": {"config.yaml": content}})


def leader(name: str) -> Any:
    found = Leader(api_version=API_VERSION, identity="a", leads=True, scheduler=name)
    return reply(json.loads(msgspec.json.encode(found)))


@pytest.fixture
def user(api: FakeApi, tmp_path: Path) -> User:
    api.script(CONFIG_MAP, config_map(FILE))
    api.script(EVENTS, reply({"items": []}))
    return User(api, tmp_path)


@pytest.mark.parametrize(
    ("option", "leads", "stored", "expected"),
    [
        pytest.param("by-hand", leader(TEAM), config_map(FILE), OurScheduler("by-hand"), id="own"),
        pytest.param("", leader("led"), config_map(FILE), OurScheduler("led"), id="leader"),
        pytest.param("", leader(""), config_map(FILE), OurScheduler(TEAM), id="older-leader"),
        pytest.param("", failure(404), config_map(FILE), OurScheduler(TEAM), id="config-map"),
        pytest.param("", failure(404), config_map("{}"), OurScheduler(), id="default-in-the-file"),
        pytest.param("", failure(404), config_map("a: ["), UNKNOWN, id="unreadable"),
        pytest.param(
            "",
            failure(404),
            failure(403, "Forbidden"),
            OurScheduler(is_known=False),
            id="forbidden",
        ),
    ],
)
async def test_name_is_of_the_option_the_leader_or_the_config_map(
    api: FakeApi, client: Client, option: str, leads: Any, stored: Any, expected: OurScheduler
) -> None:
    api.script("GET /leader", leads)
    api.script(CONFIG_MAP, stored)

    assert await our_scheduler(client, Access(scheduler=option), api.url) == expected


async def test_lease_names_the_config_map_of_the_installation(api: FakeApi, client: Client) -> None:
    api.script("GET /api/v1/namespaces/gpu/configmaps/mine-config", config_map(FILE))

    found = await our_scheduler(client, Access(lease_namespace="gpu", lease_name="mine"))

    assert found == OurScheduler(TEAM)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        pytest.param(TEAM, "", id="its-own"),
        pytest.param("team-schduler", f"did you mean spec.schedulerName: {TEAM}?", id="misspelt"),
        pytest.param("gpu-scheduler", f"not {TEAM}; to be placed by {TEAM}", id="default-name"),
    ],
)
async def test_why_compares_a_pod_with_the_installed_name(user: User, name: str, said: str) -> None:
    user.api.script(POD, reply(pod_json("a", scheduler=name, status={"conditions": [WAITS]})))

    result = await user.types("why", "a")

    assert said in result.out
    assert ("did you mean" in result.out or "to be placed by" in result.out) is bool(said)


async def test_why_lists_the_pods_of_the_installed_name(user: User) -> None:
    items = [
        pod_json("ours", scheduler=TEAM, status={"conditions": [WAITS]}),
        pod_json("theirs", scheduler="gpu-scheduler", status={"conditions": [WAITS]}),
    ]
    user.api.script(PODS, reply({"metadata": {"resourceVersion": "1"}, "items": items}))

    listed = await user.types("why")
    by_option = await user.types("why", "--scheduler", "gpu-scheduler")

    assert ("team/ours" in listed.out, "team/theirs" in listed.out) == (True, False)
    assert ("team/ours" in by_option.out, "team/theirs" in by_option.out) == (False, True)


@pytest.mark.parametrize("source", ["api", "namespace"])
async def test_top_counts_the_waiting_pods_of_the_installed_name(user: User, source: str) -> None:
    items = [pod_json(name, scheduler=name, gpus=2) for name in (TEAM, "gpu-scheduler")]
    listed = reply({"metadata": {"resourceVersion": "1"}, "items": items})
    nothing = reply({"metadata": {"resourceVersion": "1"}, "items": []})
    user.api.script(PODS, listed)
    user.api.script(QUOTAS, nothing)
    user.api.script("GET /api/v1/nodes", failure(403, "Forbidden"))
    if source == "api":
        user.api.script("GET /api/v1/pods", listed)
        user.api.script("GET /api/v1/nodes", nothing)

    result = await user.types("top", "-o", "json")

    answer = json.loads(result.out)
    assert answer["source"] == source
    assert [one["pod"] for one in answer["capacity"]["waiting"]] == [TEAM]
