"""The data of each page, on a small cluster with pods that wait for several reasons."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from scheduler.report.dashboard.contents import PAGES
from scheduler.report.dashboard.pages.nodes import NODES_MAX
from scheduler.report.dashboard.pages.teams import TeamCost, team_costs, teams_page
from scheduler.report.dashboard.pages.waiting import PODS_MAX, REASON_LENGTH_MAX
from scheduler.report.dashboard.pages.waiting_sums import WaitingSums
from scheduler.report.wall_times import LoopTimes
from scheduler.state import event as ev
from scheduler.state.parts import finish
from tests.builders import node, pod
from tests.dashboard_world import NOON, DashboardWorld
from tests.unit.loop.loop_world import playing

QUEUED = "2026-11-27T12:00:00.000000Z"


@pytest.fixture
async def world() -> AsyncIterator[DashboardWorld]:
    found = DashboardWorld()
    async with playing(found.stage):
        await found.fill()
        yield found


async def test_overview_sums_devices_and_reasons(world: DashboardWorld) -> None:
    page = await world.data("overview")

    assert page["nodes"] == {"total": 4, "withDevices": 4, "unavailable": 1}
    assert page["devices"]["gpu"] == {"total": 16, "held": 4, "free": 3, "failed": 1}
    assert [(one["name"], one["fits"]) for one in page["models"]] == [
        ("A100 40G", {}),
        ("H100 80G", {"8": 0, "4": 0, "2": 1, "1": 3}),
    ]
    assert page["waiting"] == {
        "pods": 4,
        "devices": {"gpu": 82},
        "oldest": QUEUED,
        "oldestPod": {"namespace": "team-nlp", "pod": "train-0"},
    }
    assert [(one["code"], one["pods"], one["devices"]) for one in page["reasons"]] == [
        ("INSUFFICIENT", 3, {"gpu": 80}),
        ("AFFINITY", 1, {"gpu": 2}),
    ]


async def test_an_empty_cluster_has_pages_too() -> None:
    world = DashboardWorld()
    async with playing(world.stage):
        world.stage.sync()
        for page in PAGES:
            if page != "pod":
                await world.data(page)
        overview = await world.data("overview")

    assert overview["waiting"] == {"pods": 0, "devices": {}, "oldest": None, "oldestPod": None}


async def test_nodes_have_their_holders_and_largest_block(world: DashboardWorld) -> None:
    page = await world.data("nodes")
    nodes = {one["node"]: one for one in page["nodes"]}

    assert list(nodes) == ["a100-01", "a100-02", "h100-01", "h100-02"]
    assert (page["models"], page["zones"]) == (["A100 40G", "H100 80G"], ["zone-a", "zone-b"])
    assert page["namespaces"] == ["research", "team-nlp", "team-vision"]
    assert page["fragmentation"] == {"freeGpus": 3, "onPartlyHeldNodes": 3}
    assert nodes["h100-01"]["holders"] == [
        {
            "namespace": "team-nlp",
            "pod": "vllm-0",
            "since": "2026-11-27T10:00:30Z",
            "devices": {"gpu": 4},
            "indexes": [0, 1, 2, 3],
        }
    ]
    assert nodes["h100-01"]["largestFree"] == {"unit": "gpu", "count": 3}
    assert (nodes["h100-02"]["state"], nodes["h100-02"]["largestFree"]) == ("cordoned", None)
    assert (nodes["a100-01"]["isNumbered"], nodes["a100-02"]["isNumbered"]) == (False, True)


async def test_waiting_pods_come_in_their_order_with_help(world: DashboardWorld) -> None:
    page = await world.data("waiting")
    first, _, third, _ = page["pods"]

    assert [one["pod"] for one in page["pods"]] == ["train-0", "train-1", "eval", "huge"]
    assert (first["position"], first["owner"], first["asks"]) == (1, "Job/train", {"gpu": 8})
    assert first["reason"].startswith("0/4 nodes are available: ")
    assert (first["since"], first["nextTry"], first["place"]) == (QUEUED, None, "unschedulable")
    assert (third["code"], third["help"][:25]) == ("AFFINITY", "compare spec.nodeSelector")
    assert [(one["code"], one["pods"]) for one in page["byReason"]] == [
        ("INSUFFICIENT", 3),
        ("AFFINITY", 1),
    ]
    assert [(one["namespace"], one["owner"], one["codes"]) for one in page["byOwner"]] == [
        ("research", "", {"AFFINITY": 1, "INSUFFICIENT": 1}),
        ("team-nlp", "Job/train", {"INSUFFICIENT": 2}),
    ]


async def test_a_pod_before_its_decision_has_no_reason(world: DashboardWorld) -> None:
    world.stage.leader.is_leading = False
    world.stage.see(ev.PodUpdated(pod("new", gpus=1, created=5)))
    await world.stage.quiet()
    [one] = [each for each in (await world.data("waiting"))["pods"] if each["pod"] == "new"]

    assert (one["code"], one["reason"], one["help"]) == ("NEW", "", "")


async def test_long_messages_are_one_short_line(world: DashboardWorld) -> None:
    for entry in world.stage.loop.queue.entries():
        entry.message = "a long\nmessage " * 100
    reason = (await world.data("waiting"))["pods"][0]["reason"]

    assert len(reason) == REASON_LENGTH_MAX
    assert "\n" not in reason


async def test_teams_have_holdings_quota_and_waiting(world: DashboardWorld) -> None:
    page = await world.data("teams")

    assert page["teams"][0] == {
        "namespace": "team-nlp",
        "pods": 1,
        "held": {"gpu": 4},
        "quotas": [{"quota": "gpus", "device": "gpu", "used": 4, "hard": 16}],
        "waitingPods": 2,
        "waitingDevices": {"gpu": 16},
        "oldest": QUEUED,
        "degraded": {},
        "idle": None,
        "cost": None,
    }
    assert [one["namespace"] for one in page["teams"]] == ["team-nlp", "team-vision", "research"]


async def test_a_waiting_pod_has_the_answer_of_gpuctl_why(world: DashboardWorld) -> None:
    page = await world.data("pod", "team-nlp", "train-0")
    summary = {one["name"]: one["lines"] for one in page["summary"]}

    assert page["headline"].startswith("cannot start as it is: ")
    assert list(summary) == ["asks", "closest", "nodes", "queue", "do one"]
    assert summary["closest"][0] == "h100-01: 3 of 8 nvidia.com/gpu free"
    assert summary["queue"] == ["1st of 4 by priority and age"]
    assert "kubectl uncordon h100-02 -> starts now on h100-02" in summary["do one"]
    assert [(one["count"], one["nodes"]) for one in page["nodeReasons"]] == [
        (2, ["a100-01", "a100-02"]),
        (1, ["h100-01"]),
        (1, ["h100-02"]),
    ]
    assert [one["event"] for one in page["timeline"]] == ["created", "queued", "rejected"]
    assert page["commands"][0]["command"] == "gpuctl why -n team-nlp train-0"


async def test_a_running_pod_without_decisions_is_shown(world: DashboardWorld) -> None:
    page = await world.data("pod", "team-nlp", "vllm-0")

    assert (page["standing"], page["node"]) == ("placed", "h100-01")
    assert page["given"]["devices"] == "gpu:0,1,2,3"
    assert [one["event"] for one in page["timeline"]] == ["created", "started"]
    assert (page["headline"], page["summary"], page["waiting"]) == ("", [], None)


async def test_a_bound_pod_has_its_timeline(world: DashboardWorld) -> None:
    stage = world.stage
    stage.see(ev.PodUpdated(pod("one", gpus=1)))
    stage.confirm(await stage.binder.next())
    await stage.quiet()
    page = await world.data("pod", "team", "one")

    assert [one["event"] for one in page["timeline"]] == ["created", "placed", "bound"]
    assert page["timeline"][1]["text"] == "h100-01 gpu:4"


async def test_a_deleted_pod_is_known_by_its_decisions(world: DashboardWorld) -> None:
    world.stage.see(ev.PodDeleted("team-nlp-train-0"))
    await world.stage.quiet()
    page = await world.data("pod", "team-nlp", "train-0")

    assert (page["standing"], page["uid"]) == ("unknown", "team-nlp-train-0")
    assert len(page["decisions"]) == 1


async def test_health_judges_what_it_knows(world: DashboardWorld) -> None:
    def states(page: dict[str, Any]) -> dict[str, str]:
        return {one["name"]: one["state"] for one in page["checks"]}

    well = states(await world.data("health"))
    world.watches[2].is_healthy = False
    world.stage.clock.now += 1000.0
    world.stage.metrics.binds.labels("refused").inc()
    world.stage.metrics.over_committed.set(2)
    world.stage.metrics.count_internal_error("decision")
    ill = states(await world.data("health"))
    world.watches[0].is_healthy = False
    worse = states(await world.data("health"))

    names = ("leader", "watches", "queue", "decisions", "binds", "devices", "errors")
    assert well == dict.fromkeys(names, "ok")
    assert {name for name in names if ill[name] != "ok"} == {
        *("watches", "queue", "binds", "devices", "errors")
    }
    assert (ill["watches"], worse["watches"], ill["devices"]) == ("warn", "fail", "fail")


async def test_equal_states_have_equal_bytes(world: DashboardWorld) -> None:
    before = {page: await world.content(page) for page in PAGES if page != "pod"}
    before["pod"] = await world.content("pod", "team-nlp", "train-0")
    world.stage.clock.now += 7.0
    after = {page: await world.content(page) for page in PAGES if page != "pod"}
    after["pod"] = await world.content("pod", "team-nlp", "train-0")

    assert before == after


async def test_too_many_entries_are_counted() -> None:
    world = DashboardWorld()
    async with playing(world.stage):
        world.stage.see(*(ev.NodeUpdated(node(f"n{at}", gpus=1)) for at in range(NODES_MAX + 3)))
        world.stage.leader.is_leading = False
        world.stage.see(*(ev.PodUpdated(pod(f"p{at}", gpus=1)) for at in range(PODS_MAX + 2)))
        world.stage.sync()
        await world.stage.quiet()
        nodes, waiting = await world.data("nodes"), await world.data("waiting")

    assert (len(nodes["nodes"]), nodes["leftOut"]) == (NODES_MAX, 3)
    assert (len(waiting["pods"]), waiting["leftOut"]) == (PODS_MAX, 2)
    assert waiting["byReason"][0]["pods"] == PODS_MAX + 2


async def test_teams_have_the_costs_of_the_same_pass(tmp_path: Path) -> None:
    prices = tmp_path / "prices.yaml"
    prices.write_text("currency: EUR\ndefault: 2.5\n")
    world = DashboardWorld(prices=str(prices))
    passed: list[str] = []
    async with playing(world.stage):
        await world.fill()
        page = await world.data("teams")
        beside = world.capacity.take(
            with_nodes=False,
            with_holders=False,
            beside=lambda one: passed.append(one.node.name if one.node is not None else ""),
        )
        assert finish(beside) == finish(world.capacity.take(with_nodes=False, with_holders=False))
        costs = team_costs(finish(world.costs.summary()))

    assert passed == ["a100-01", "a100-02", "h100-01", "h100-02"]
    assert costs["team-nlp"].per_hour == 10.0
    found = {one["namespace"]: one["cost"] for one in page["teams"]}
    assert found == {
        name: msgspec.to_builtins(costs[name]) if name in costs else None for name in found
    }


async def test_teams_show_the_cost_of_a_report(world: DashboardWorld) -> None:
    cost = TeamCost(per_hour=9.6, currency="EUR", gpus=4.0, unpriced=0.0, saved_per_hour=0.0)
    capacity = finish(world.capacity.take(with_nodes=False, with_holders=False))
    times = LoopTimes(NOON)
    page = teams_page(capacity, WaitingSums(), times, {"team-nlp": cost})

    assert [one.cost for one in page.teams] == [cost, None, None]
