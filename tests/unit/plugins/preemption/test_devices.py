"""Victims are chosen by device: GPU indexes of maps, and MIG slices."""

from __future__ import annotations

from scheduler.decide.schedule_one import schedule_one
from scheduler.framework.decision import Placement, Preemption, Rejection
from scheduler.model import well_known
from scheduler.model.node import Node
from scheduler.model.reasons.reason import sentence
from scheduler.state.cache.cluster import Cluster
from tests.builders import PodFields, cluster, cut, dynamic, node, pod
from tests.unit.decide.admission.admission_world import World, wants_2g
from tests.unit.plugins.preemption.scene import (
    OWN,
    preemption,
    rejection,
    running,
    victims,
)

# --- by device -------------------------------------------------------------------------------

NUMBERED = node("n1", gpus=2, with_gpu_indexes=True)


def placed(state: Cluster, found: Preemption) -> Placement:
    """What the preemptor gets once its victims are gone."""
    for victim in found.victims:
        state.delete_pod(victim.uid)
    decision = schedule_one(state, found.pod, OWN)
    assert isinstance(decision, Placement), decision
    return decision


def test_the_holder_of_a_mapped_device_has_to_go() -> None:
    state = cluster(
        NUMBERED,
        running("one", 9, gpus=1, devices="gpu:1"),
        running("zero", 1, gpus=1, devices="gpu:0", priority=3),
    )

    found = preemption(state, pod("w-0", map="0=n1:0", gpus=1, priority=9))

    assert [one.name for one in found.victims] == ["zero"], "although it is more important"
    assert found.devices.numbers == (0,)
    assert placed(state, found).devices.numbers == (0,)


def test_other_gpus_of_the_node_stay_free_while_a_preemptor_waits() -> None:
    state = cluster(NUMBERED, running("zero", gpus=1, devices="gpu:0"))
    boss = pod("w-0", map="0=n1:0", gpus=1, priority=9)
    found = preemption(state, boss)
    state.nominations.nominate(boss, found.nominated_node, found.devices)

    decision = schedule_one(state, pod("weak", gpus=1), OWN)

    assert isinstance(decision, Rejection), "no GPU is left by their count"
    free = schedule_one(state, pod("w-1", map="1=n1:1"), OWN)
    assert isinstance(free, Placement)
    assert free.devices.numbers == (1,)


def test_a_mapped_pod_preempts_on_no_other_node() -> None:
    state = cluster(
        NUMBERED,
        node("n2", gpus=2, with_gpu_indexes=True),
        running("zero", gpus=1, devices="gpu:0", priority=9),
        running("b", on="n2", gpus=2, devices="gpu:0,1"),
    )

    refused = rejection(state, pod("w-0", map="0=n1:0", gpus=1, priority=9))

    assert "No preemption victims found" in sentence(refused.diagnosis)


def test_any_line_of_a_map_can_be_preempted_for() -> None:
    owner = "Deployment/web@r1"
    state = cluster(
        NUMBERED,
        node("n2", gpus=1, with_gpu_indexes=True),
        running("zero", gpus=1, devices="gpu:0", priority=9),
        running("b", on="n2", gpus=1, devices="gpu:0", priority=1),
    )

    found = preemption(state, pod("web-a", owner=owner, map="0=n1:0\n1=n2:0", gpus=1, priority=5))

    assert ([one.name for one in found.victims], found.nominated_node) == (["b"], "n2")
    assert placed(state, found).index == 1


A100 = dynamic("n1", gpus=1, mig={"3g.40gb": 1, "2g.20gb": 1, "1g.10gb": 1})


def test_a_pod_on_the_wrong_slices_is_no_victim() -> None:
    """A 4g.40gb fits only at slice 0: the pod behind it may stay, whatever its priority."""
    state = cluster(
        A100,
        cut("n1", "3g.40gb@0/0", "2g.20gb@0/4"),
        running("front", 1, mig={"3g.40gb": 1}, devices="3g.40gb@0/0", priority=3),
        running("back", 9, mig={"2g.20gb": 1}, devices="2g.20gb@0/4", priority=0),
    )

    found = preemption(state, pod("p", mig={"4g.40gb": 1}, priority=9))

    assert [one.name for one in found.victims] == ["front"]
    assert placed(state, found).devices.mig_placements[0].start == 0


def slices(node_name: str = "n1") -> Node:
    return node(node_name, mig={"2g.20gb": 1, "1g.10gb": 2})


def test_a_slice_of_another_profile_is_no_room_on_a_static_node() -> None:
    state = cluster(
        slices(),
        running("small", 9, mig={"1g.10gb": 2}),
        running("big", 1, mig={"2g.20gb": 1}, priority=5),
    )

    assert victims(state, pod("p", mig={"2g.20gb": 1}, priority=9)) == ["big"]


def test_a_pod_that_prefers_to_preempt_keeps_its_tier() -> None:
    """A free slice of a lower tier would spare the victim."""
    low = running("low", 1, mig={"2g.20gb": 1})
    world = World(node("n1", mig={"2g.20gb": 1, "1g.10gb": 1}), low)
    prefers: PodFields = {"priority": 9, "annotations": {well_known.PREFER: "preempt"}}

    assert world.ask(wants_2g(priority=9)).result == "degraded"

    admission = world.ask(wants_2g(**prefers))
    assert (admission.result, admission.answer.rewrites) == ("untouched", ())
    assert victims(world.cluster, wants_2g("high", uid="high", **prefers)) == ["low"]
