"""The mig-manager's protocol, step by step, as the plan of one node goes through it."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from fakegpu.api_types import MapFacts
from fakegpu.controller.plan_types import Plan, Settings
from fakegpu.topology.invalid import Invalid
from fakegpu.topology.mig_config import by_name, read
from scheduler.model.mig import layout as mig_layout
from tests.unit.fakegpu.nodes import GPU, H200, facts, planned, use

POOL = f"{H200}, gpuCount: 2"
BOARD = mig_layout.GPU_MODELS["H200-70"]
THREE_TWOS = (("2g.20gb", 0), ("2g.20gb", 2), ("2g.20gb", 4), ("1g.10gb", 6))
STATE = "nvidia.com/mig.config.state"


def config(devices: str, which: str = "all") -> str:
    return f"mig-configs: {{selected: [{{devices: {which}, mig-devices: {devices}}}]}}"


def node(text: str, **more: str) -> Any:
    return facts(annotations={"run.ai/mig.config": text, **more})


def record(plan: Plan) -> MapFacts:
    body = json.loads(plan.config_map)
    meta = body["metadata"]
    return MapFacts(name=meta["name"], annotations=meta["annotations"], data=body["data"])


SHAPES = [
    pytest.param("{0: 2g.20gb, 2: 2g.20gb, 4: 2g.20gb, 6: 1g.10gb}", id="position-to-profile"),
    pytest.param("[2g.20gb, 1g.10gb, 2g.20gb, 2g.20gb]", id="list-of-profiles"),
    pytest.param(
        "[{name: 2g.20gb, position: 0, size: 2}, {name: 2g.20gb, position: 2, size: 2},"
        " {name: 2g.20gb, position: 4, size: 2}, {name: 1g.10gb, position: 6, size: 1}]",
        id="name-position-size",
    ),
    pytest.param('{"2g.20gb": 3, "1g.10gb": 1}', id="profile-to-count"),
]


@pytest.mark.contract("S0-5", "S0-10", "S1-61")
@pytest.mark.parametrize("devices", SHAPES)
def test_the_four_shapes_mean_the_same_cut(devices: str) -> None:
    assert read(config(devices), [BOARD, BOARD]) == (THREE_TWOS, THREE_TWOS)


@pytest.mark.contract("S1-B9")
@pytest.mark.parametrize(
    ("which", "cut"),
    [("all", {0, 1}), ("[0]", {0}), ('["1"]', {1}), ("[0, 1]", {0, 1}), ('"0,1"', {0, 1})],
)
def test_an_entry_is_for_all_gpus_or_for_those_that_it_names(which: str, cut: set[int]) -> None:
    found = read(config("{7g.70gb: 1}", which), [BOARD, BOARD])

    assert {index for index, layout in enumerate(found) if layout is not None} == cut


@pytest.mark.contract("S0-5", "S1-B9")
@pytest.mark.parametrize(
    ("text", "problem"),
    [
        pytest.param(config("{2g.20gb: 4}"), "4 x 2g.20gb do not fit", id="too-many"),
        pytest.param(config("{1: 2g.20gb}"), "cannot begin at slice 1", id="no-such-start"),
        pytest.param(config("{9g.90gb: 1}"), "9g.90gb is no profile of H200-70", id="no-profile"),
        pytest.param(config("{1g.10gb: 1}", "[2]"), "there is no GPU 2", id="no-gpu"),
        pytest.param("mig-configs: [", "is not YAML", id="no-yaml"),
        pytest.param("a: b", "has no mapping mig-configs", id="something-else"),
        pytest.param(
            "mig-configs: {selected: [{devices: 0, mig-enabled: false},"
            " {devices: all, mig-enabled: false}]}",
            "GPU 0 is named by an earlier entry too",
            id="twice",
        ),
    ],
)
def test_what_cannot_be_cut_is_refused(text: str, problem: str) -> None:
    with pytest.raises(Invalid) as refused:
        read(text, [BOARD, BOARD])

    assert problem in str(refused.value)


def test_a_product_without_mig_is_not_cut() -> None:
    with pytest.raises(Invalid, match="no MIG"):
        read(config("{1g.10gb: 1}"), [None])


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("all-1g.10gb", ["1g.10gb"] * 7),
        ("all-7g.70gb", ["7g.70gb"]),
        ("all-balanced", ["3g.40gb", "2g.20gb", "1g.10gb", "1g.10gb"]),
        ("all-enabled", []),
        ("all-disabled", None),
    ],
)
def test_the_names_that_every_mig_manager_knows(name: str, wanted: list[str] | None) -> None:
    (layout,) = by_name(name, [BOARD])

    cut = None if layout is None else sorted((slot[0] for slot in layout), reverse=True)
    assert cut == wanted


def test_other_names_are_refused() -> None:
    with pytest.raises(Invalid, match="no such configuration"):
        by_name("all-9g.90gb", [BOARD])


IDS = [
    ("40", {"1g.5gb": 19, "1g.10gb": 15, "2g.10gb": 14, "3g.20gb": 9, "4g.20gb": 5, "7g.40gb": 0}),
    ("80", {"1g.10gb": 19, "1g.20gb": 15, "2g.20gb": 14, "3g.40gb": 9, "4g.40gb": 5, "7g.80gb": 0}),
]


@pytest.mark.contract("S1-62")
@pytest.mark.parametrize(("memory", "wanted"), IDS, ids=["a100-40gb", "a100-80gb"])
def test_instance_ids_are_the_drivers(memory: str, wanted: dict[str, int]) -> None:
    """By the profile, on each board."""
    pool = f"gpuProduct: NVIDIA-A100-SXM4-{memory}GB, gpuCount: 1, gpuMemory: {memory}GB"

    def number(profile: str) -> int:
        wants = node(config(f"{{{profile}: 1}}"))
        begun = planned(pool, wants)
        done = planned(pool, wants, memory=begun.memory, now=1.0)
        mapping = json.loads(base64.b64decode(done.annotations["run.ai/mig-mapping"]))
        return int(mapping["0"][0]["gpu_instance_id"])

    assert {profile: number(profile) for profile in wanted} == wanted


@pytest.mark.contract("S1-8", "S1-60", "S1-61")
def test_pending_for_the_latency_then_success_with_the_mapping() -> None:
    wants = node(config("{0: 2g.20gb, 2: 2g.20gb, 4: 2g.20gb, 6: 1g.10gb}"))

    first = planned(POOL, wants, now=10.0)
    assert first.labels[STATE] == "pending"
    assert first.amounts is not None
    assert first.amounts.allocatable == {GPU: 2}
    assert first.memory.ready_at == 11.0
    done = planned(POOL, wants, memory=first.memory, now=11.0)

    assert done.labels[STATE] == "success"
    assert done.amounts is not None
    assert done.amounts.allocatable["nvidia.com/mig-2g.20gb"] == 6
    assert [note.reason for note in done.notes] == ["MigConfigApplied"]
    mapping = json.loads(base64.b64decode(done.annotations["run.ai/mig-mapping"]))
    assert [one["gpu_instance_id"] for one in mapping["0"]] == [14, 14, 14, 19]
    assert [one["position"] for one in mapping["1"]] == [0, 2, 4, 6]
    assert mapping["0"][0]["device_uuid"].startswith("MIG-")


@pytest.mark.contract("S1-B9")
def test_what_was_carried_out_is_not_repeated_and_survives_a_restart() -> None:
    wants = node(config("{7g.70gb: 1}"))
    first = planned(POOL, wants)
    done = planned(POOL, wants, memory=first.memory, now=1.0)

    again = planned(POOL, wants, memory=done.memory, now=2.0)
    # The watch has not shown yet what was written: an older record is not believed.
    stale = planned(POOL, wants, memory=done.memory, record=record(first), now=2.0)
    restarted = planned(POOL, wants, record=record(done), now=0.0)

    for plan in (again, stale, restarted):
        assert plan.labels[STATE] == "success"
        assert plan.memory.ready_at is None
        assert plan.notes == ()
        assert plan.config_map == done.config_map


def test_change_while_pending_restarts_the_repartition() -> None:
    first = planned(POOL, node(config("{7g.70gb: 1}")), now=0.0)
    other = planned(POOL, node(config("{1g.10gb: 1}")), memory=first.memory, now=0.9)
    assert other.memory.ready_at == 1.9
    done = planned(POOL, node(config("{1g.10gb: 1}")), memory=other.memory, now=1.9)

    cleared = planned(POOL, facts(), memory=done.memory, now=2.0)

    assert STATE not in cleared.labels
    assert cleared.annotations.keys() == {"gpu-scheduler.io/gpu-ids"}
    assert cleared.amounts is not None
    assert cleared.amounts.allocatable == {GPU: 2}


def test_slow_and_failing_by_annotation() -> None:
    wants = node(config("{7g.70gb: 1}"), **{"gpu-scheduler.io/fake-mig": "latency=5s,fail=0.4"})

    first = planned(POOL, wants, now=0.0)
    assert first.memory.ready_at == 5.0
    failed = planned(POOL, wants, memory=first.memory, now=5.0, draw=0.3)
    fine = planned(POOL, wants, memory=first.memory, now=5.0, draw=0.5)

    assert (failed.labels[STATE], fine.labels[STATE]) == ("failed", "success")
    assert failed.amounts is not None
    assert failed.amounts.allocatable == {GPU: 2}
    assert [note.reason for note in failed.notes] == ["MigConfigFailed"]
    assert planned(POOL, wants, memory=failed.memory, now=9.0).labels[STATE] == "failed"


def test_by_the_configuration_too() -> None:
    settings = Settings(namespace="n", map_prefix="t-", latency_s=0.0, failure_rate=1.0)

    assert planned(POOL, node(config("{7g.70gb: 1}")), settings=settings).labels[STATE] == "failed"


def test_illegal_geometry_is_refused_and_changes_nothing() -> None:
    first = planned(POOL, node(config("{7g.70gb: 1}")))
    done = planned(POOL, node(config("{7g.70gb: 1}")), memory=first.memory, now=1.0)

    refused = planned(POOL, node(config("{2g.20gb: 4}")), memory=done.memory, now=2.0)

    assert refused.labels[STATE] == "failed"
    assert refused.amounts == done.amounts
    (note,) = refused.notes
    assert "refused" in note.text
    assert "4 x 2g.20gb do not fit" in note.text


def test_a_gpu_in_use_is_not_cut_until_it_is_free() -> None:
    allocation = planned(POOL, facts(), pods=(use("p"),))
    wants = node(config("{7g.70gb: 1}"))

    refused = planned(POOL, wants, memory=allocation.memory, pods=(use("p"),), now=1.0)
    free = planned(POOL, wants, memory=refused.memory, now=2.0)
    after = planned(POOL, wants, memory=free.memory, now=2.1)

    assert refused.labels[STATE] == "failed"
    assert "GPU 0 is in use by team/p" in refused.notes[0].text
    assert "pending" in (free.labels[STATE], after.labels[STATE])


def test_what_the_new_layout_keeps_may_stay_in_use() -> None:
    one = node(config("{7g.70gb: 1}", "[0]"))
    first = planned(POOL, one)
    done = planned(POOL, one, memory=first.memory, now=1.0)
    pod = use("p", resource="nvidia.com/mig-7g.70gb")
    held = planned(POOL, one, memory=done.memory, pods=(pod,), now=2.0)

    both = planned(POOL, node(config("{7g.70gb: 1}")), memory=held.memory, pods=(pod,), now=3.0)

    assert both.labels[STATE] == "pending"


def test_annotation_precedes_the_label_which_may_choose_in_it() -> None:
    text = (
        "mig-configs: {big: [{devices: all, mig-devices: {7g.70gb: 1}}],"
        " selected: [{devices: all, mig-devices: {1g.10gb: 7}}]}"
    )

    def offers(label: str, annotation: str) -> set[str]:
        notes = {"run.ai/mig.config": annotation} if annotation else {}
        wants = facts(labels={"nvidia.com/mig.config": label}, annotations=notes)
        settings = Settings(namespace="n", map_prefix="t-", latency_s=0.0)
        amounts = planned(POOL, wants, settings=settings).amounts
        assert amounts is not None
        return {name for name, count in amounts.capacity.items() if count}

    assert offers("big", text) == {"nvidia.com/mig-7g.70gb"}
    assert offers("all-2g.20gb", text) == {"nvidia.com/mig-1g.10gb"}
    assert offers("all-2g.20gb", "") == {"nvidia.com/mig-2g.20gb"}
