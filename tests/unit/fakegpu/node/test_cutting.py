"""Dynamic MIG instances: the status, its time, and instances that are never destroyed."""

from __future__ import annotations

from typing import Any

from fakegpu.controller.plan_types import Plan, Settings
from scheduler.model.crd.mig_partition import (
    MigInstance,
    NodePartitions,
    PartitionRequest,
    PartitionState,
)
from scheduler.model.gpu.device import Devices, MigPlacement
from scheduler.model.timestamps import rfc3339
from tests.unit.fakegpu.nodes import H200, facts, planned, use

POOL = f"{H200}, gpuCount: 2"
SOON = rfc3339(1_000_060)
PAST = rfc3339(999_999)
WALL = 1_000_000.0
TWO = MigPlacement(0, 0, "2g.20gb")
MIG_2G = "nvidia.com/mig-2g.20gb"


def order(mig_placement: MigPlacement = TWO, deadline: str = SOON) -> PartitionRequest:
    return PartitionRequest(mig_placement, "uid-p", deadline)


def asked(*orders: PartitionRequest, told: tuple[MigInstance, ...] = (), **more: Any) -> Plan:
    mig_partitions = NodePartitions("n", orders=orders, instances=told)
    return planned(POOL, mig_partitions=mig_partitions, wall=WALL, **more)


def states(plan: Plan) -> dict[str, str]:
    return {str(one.mig_placement): one.state.value for one in plan.partition_status or ()}


def done(*orders: PartitionRequest, before: Plan | None = None, **more: Any) -> Plan:
    """The plan after the latency."""
    memory = before.memory if before else None
    first = asked(*orders, memory=memory, **more)
    return asked(*orders, memory=first.memory, now=1.0, **more)


def test_a_node_without_orders_offers_no_gpu_and_no_instance() -> None:
    plan = asked()

    assert plan.amounts is not None
    assert plan.amounts.allocatable == {}
    assert plan.labels["nvidia.com/gpu.count"] == "2"
    assert plan.partition_status is None


def test_request_is_pending_for_the_latency_then_ready_and_advertised() -> None:
    first = asked(order())
    assert states(first) == {"2g.20gb@0/0": "Pending"}
    assert first.memory.ready_at == 1.0

    ready = asked(order(), memory=first.memory, now=1.0)

    (answer,) = ready.partition_status or ()
    assert (answer.state, answer.deadline) == (PartitionState.READY, SOON)
    assert answer.uuid.startswith("MIG-")
    assert answer.uuid in ready.config_map.decode()
    assert ready.amounts is not None
    assert ready.amounts.allocatable == {MIG_2G: 1}


def test_answers_are_written_once_also_after_a_restart() -> None:
    ready = done(order())
    told = ready.partition_status or ()

    again = asked(order(), told=told, memory=ready.memory, now=2.0)

    assert told
    assert again.partition_status is None


def test_what_is_past_its_deadline_is_not_begun() -> None:
    plan = asked(order(deadline=PAST))

    assert plan.partition_status is None
    assert plan.memory.ready_at is None


def test_what_must_exist_already_is_made_at_once() -> None:
    plan = asked(order(deadline=""))

    assert states(plan) == {"2g.20gb@0/0": "Ready"}


def test_impossible_request_fails_at_its_deadline_and_stays_answered() -> None:
    impossible = [
        order(MigPlacement(0, 1, "2g.20gb")),
        order(MigPlacement(5, 0, "1g.10gb")),
        order(MigPlacement(1, 0, "9g.90gb")),
    ]

    plan = asked(*impossible)

    answers = plan.partition_status or ()
    assert [one.state for one in answers] == [PartitionState.FAILED] * 3
    assert {one.deadline for one in answers} == {SOON}
    assert "cannot begin at slice 1" in answers[0].message
    assert asked(*impossible, told=answers, memory=plan.memory).partition_status is None


def test_failed_gpu_is_not_partitioned() -> None:
    broken = facts(annotations={"gpu-scheduler.io/fake-failures": "0:xid-79"})

    plan = asked(order(), order(MigPlacement(1, 0, "2g.20gb")), node=broken)

    assert states(plan) == {"2g.20gb@0/0": "Failed", "2g.20gb@1/0": "Pending"}


def test_a_failure_by_configuration_is_an_answer_to_that_request_only() -> None:
    settings = Settings(namespace="n", map_prefix="t-", latency_s=0.0, failure_rate=1.0)
    failed = asked(order(), settings=settings)
    assert states(failed) == {"2g.20gb@0/0": "Failed"}

    later = order(deadline=rfc3339(1_000_090))
    told = failed.partition_status or ()
    again = done(later, told=told, before=failed)

    assert states(again) == {"2g.20gb@0/0": "Ready"}


def test_idle_instances_stay_until_their_slices_are_needed() -> None:
    idle = done(order())
    beside = done(order(MigPlacement(0, 4, "2g.20gb")), before=idle)
    assert states(beside) == {"2g.20gb@0/0": "Ready", "2g.20gb@0/4": "Ready"}

    over = done(order(MigPlacement(0, 0, "3g.40gb")), before=beside)

    assert states(over) == {"3g.40gb@0/0": "Ready", "2g.20gb@0/4": "Ready"}


def test_what_is_in_use_or_must_stay_is_never_destroyed() -> None:
    idle = done(order())
    holder = use("p", resource=MIG_2G, chosen=Devices(mig_placements=(TWO,)))
    held = asked(memory=idle.memory, pods=(holder,), now=2.0)

    used = asked(order(MigPlacement(0, 0, "3g.40gb")), memory=held.memory, pods=(holder,), now=3.0)
    kept = asked(order(), order(MigPlacement(0, 0, "3g.40gb")), memory=idle.memory, now=3.0)

    assert states(used) == {"2g.20gb@0/0": "Ready", "3g.40gb@0/0": "Failed"}
    assert "in use" in next(a.message for a in used.partition_status or () if a.message)
    assert states(kept) == {"2g.20gb@0/0": "Ready", "3g.40gb@0/0": "Failed"}


def test_a_pod_gets_the_instance_that_was_cut_for_it() -> None:
    both = done(order(), order(MigPlacement(1, 4, "2g.20gb")))
    pod = use("p", resource=MIG_2G, chosen=Devices(mig_placements=(MigPlacement(1, 4, "2g.20gb"),)))

    plan = asked(memory=both.memory, pods=(pod,), now=2.0)

    topology = plan.memory.topology
    assert topology is not None
    assert [one.status.allocated_by.pod for one in topology.gpus[0].instances] == [""]
    assert [one.status.allocated_by.pod for one in topology.gpus[1].instances] == ["p"]


def test_a_configuration_of_the_node_does_not_interfere() -> None:
    node = facts(labels={"nvidia.com/mig.config": "all-7g.70gb"})

    plan = asked(node=node)

    assert plan.amounts is not None
    assert plan.amounts.allocatable == {}
    assert "nvidia.com/mig.config.state" not in plan.labels
