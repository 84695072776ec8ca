"""Other schedulers' preemptors wait for the room they made; it is not ours to take."""

from __future__ import annotations

import msgspec
import pytest

from scheduler.decide.admission.fallback_candidates import options
from scheduler.decide.admission.fallback_policy import FallbackPolicy
from scheduler.decide.admission.tier_selection import TierGranted, choose_tier
from scheduler.decide.schedule_one import schedule_one
from scheduler.framework.decision import Placement
from scheduler.model.crd.migration import holder
from scheduler.model.gpu.device import Devices
from scheduler.model.mig.fallback_ladder import parse_ladder
from scheduler.model.node import Node
from scheduler.model.pods.pod import Pod
from scheduler.plugins import default_pipeline
from scheduler.state.cache.cluster import Assumption, Cluster
from tests import builders
from tests.builders import node, restoring
from tests.builders import pod as built

GPU = "nvidia.com/gpu"
BIG, SMALL = "nvidia.com/mig-2g.20gb", "nvidia.com/mig-1g.10gb"


def world(**devices: int) -> Cluster:
    cluster = Cluster()
    allocatable = {"cpu": 8000, "pods": 10, **devices}
    cluster.upsert_node(Node(name="n1", allocatable=allocatable))
    return cluster


def pod(uid: str, resource: str = GPU, *, priority: int = 0, nominated: str = "") -> Pod:
    return Pod(
        uid=uid,
        name=uid,
        namespace="d",
        scheduler_name="default-scheduler" if nominated else "gpu-scheduler",
        priority=priority,
        nominated_node=nominated,
        requests={resource: 1},
    )


@pytest.mark.parametrize(
    ("priority", "is_placed"),
    [
        pytest.param(0, False, id="weaker"),
        pytest.param(5, False, id="equal"),
        pytest.param(6, True, id="stronger"),
    ],
)
def test_only_a_stronger_pod_takes_what_a_preemptor_waits_for(
    priority: int, is_placed: bool
) -> None:
    cluster = world(**{GPU: 1})
    cluster.upsert_pod(pod("preemptor", priority=5, nominated="n1"))

    decision = schedule_one(cluster, pod("ours", priority=priority), default_pipeline())

    assert isinstance(decision, Placement) is is_placed


def test_a_nomination_ends_when_the_pod_is_bound_cleared_or_gone() -> None:
    cluster = world(**{GPU: 2})
    waiting = pod("preemptor", priority=5, nominated="n1")
    for end in (
        msgspec.structs.replace(waiting, node_name="n1"),
        msgspec.structs.replace(waiting, nominated_node=""),
        msgspec.structs.replace(waiting, phase="Failed"),
    ):
        cluster.upsert_pod(waiting)
        assert list(cluster.nominated) == ["preemptor"]
        cluster.upsert_pod(end)

        assert cluster.nominated == {}


def test_nominated_pod_is_not_blocked_by_its_own_nomination() -> None:
    cluster = world(**{GPU: 1})
    mine = msgspec.structs.replace(
        pod("mine", priority=5, nominated="n1"), scheduler_name="gpu-scheduler"
    )
    cluster.upsert_pod(mine)

    assert isinstance(schedule_one(cluster, mine, default_pipeline()), Placement)

    cluster.assume(mine, Assumption("n1", Devices()))
    assert cluster.nominated == {}


def test_the_first_of_equals_waits_for_no_victim_of_the_next() -> None:
    """Each of them made room of its own; a stronger pod takes whatever is free."""
    cluster = world(**{GPU: 2})
    cluster.upsert_pod(msgspec.structs.replace(pod("victim", priority=1), node_name="n1"))
    first, second = (built(name, gpus=1, priority=5) for name in ("b", "a"))
    for one in (first, second):
        cluster.upsert_pod(one)
        cluster.nominate(one, "n1", Devices())

    assert isinstance(schedule_one(cluster, first, default_pipeline()), Placement)
    assert not isinstance(schedule_one(cluster, second, default_pipeline()), Placement)

    boss = built("boss", gpus=1, priority=6)
    cluster.upsert_pod(boss)
    cluster.nominate(boss, "n1", Devices())
    assert not isinstance(schedule_one(cluster, first, default_pipeline()), Placement)


def test_new_pod_degrades_beside_a_preemptor_of_the_higher_tier() -> None:
    cluster = world(**{BIG: 1, SMALL: 1})
    cluster.upsert_pod(pod("preemptor", BIG, priority=5, nominated="n1"))
    new, terms = pod("new", BIG), FallbackPolicy(ladders=[parse_ladder("2g.20gb->1g.10gb")])

    found = choose_tier(cluster, new, options(cluster, new, terms, []), [], [], default_pipeline())

    assert isinstance(found, TierGranted)
    assert found.candidate.changes == ((BIG, SMALL),)


def test_preemptor_with_a_failed_binding_keeps_its_nomination() -> None:
    cluster = world(**{GPU: 1})
    preemptor = pod("p", priority=5, nominated="n1")
    cluster.upsert_pod(preemptor)
    cluster.assume(preemptor, Assumption("n1", Devices()))

    cluster.forget("p")

    assert not isinstance(schedule_one(cluster, pod("new"), default_pipeline()), Placement)


def test_room_held_by_a_migration_counts_once_with_its_pod() -> None:
    cluster = world(**{GPU: 2})
    migration = restoring("restore-1-aa", node_name="n1", requests={GPU: 1})
    cluster.nominations.hold(holder(migration))
    moved = built(
        "web-1",
        owner="Deployment/web@r1",
        gpus=1,
        nominated="n1",
        annotations={"gpu-scheduler.io/migration": migration.id},
    )
    cluster.upsert_pod(moved)

    assert set(cluster.nominated) == {migration.id, moved.uid}
    assert isinstance(schedule_one(cluster, pod("ours"), default_pipeline()), Placement)
    assert cluster.nominations.awaited(moved) == "n1"
    assert cluster.nominations.awaited(pod("ours")) == ""


def test_room_is_kept_for_the_pod_of_a_migration_that_is_over() -> None:
    cluster = world(**{GPU: 1})
    moved = built(
        "web-1", gpus=1, nominated="n1", annotations={"gpu-scheduler.io/migration": "restore-1-aa"}
    )
    cluster.upsert_pod(moved)

    assert not isinstance(schedule_one(cluster, pod("ours"), default_pipeline()), Placement)


def test_what_is_held_follows_the_nominated_pod() -> None:
    cluster = world(**{GPU: 1})
    holder_of_gpu = pod("preemptor", priority=5, nominated="n1")
    cluster.upsert_pod(holder_of_gpu)
    ours = pod("ours", priority=1)
    assert not isinstance(schedule_one(cluster, ours, default_pipeline()), Placement)

    cluster.upsert_pod(msgspec.structs.replace(holder_of_gpu, requests={"cpu": 1}))

    assert isinstance(schedule_one(cluster, ours, default_pipeline()), Placement)


ZONE = {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "a"}}}
NEAR = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [ZONE]}}
EVEN = {**ZONE, "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}
MARKED = {"app": "a"}


@pytest.mark.parametrize(
    ("other", "is_placed"),
    [
        pytest.param(built("o", labels=MARKED, priority=5, nominated="n2"), False, id="nominated"),
        pytest.param(built("o", labels=MARKED, priority=5, node="n2"), True, id="there"),
    ],
)
def test_a_nominated_pod_satisfies_no_term(other: Pod, is_placed: bool) -> None:
    """It may never come: kube-scheduler asks its filters without nominated pods as well."""
    near = built("near", spec={"affinity": NEAR})
    there = built("there", labels=MARKED, node="n1")
    even = built("even", labels=MARKED, spec={"topologySpreadConstraints": [EVEN]})
    nodes = [node("n1", labels={"zone": "x"}), node("n2", labels={"zone": "y"})]
    first = node("n1", labels={"zone": "x"})
    second = node("n2", labels={"zone": "y"}, cordoned=True)

    by_affinity = schedule_one(builders.cluster(*nodes, other, near), near, default_pipeline())
    by_spread = schedule_one(
        builders.cluster(first, second, there, other, even), even, default_pipeline()
    )

    assert isinstance(by_affinity, Placement) is is_placed
    assert isinstance(by_spread, Placement) is is_placed
