"""What follows from a decision to preempt, as values."""

from __future__ import annotations

import msgspec
import pytest

from scheduler.controllers.preemption import PreemptionController, Reject
from scheduler.decide.schedule_one import schedule_one
from scheduler.framework.decision import Preemption
from scheduler.framework.settings import Settings
from scheduler.model import well_known
from scheduler.model.actions import PreemptPods, RecordPreempted
from scheduler.model.gpu.device import Devices
from scheduler.model.pods.pod import Pod
from scheduler.model.reasons.reason import RequeueCause
from scheduler.plugins import default_pipeline
from scheduler.report.metrics import Metrics
from scheduler.state import event as ev
from scheduler.state.cache.cluster import Assumption, Cluster
from tests.builders import GPU, cluster, node, pod

OWN = default_pipeline(Settings(maps_allow="all", preemption="own"))
BOSS = pod("boss", gpus=2, priority=9)
#: Nothing is held on the node any more.
FREED = ev.ClusterEvent(RequeueCause.FREED, node_name="n1", what=frozenset((GPU, well_known.PODS)))
A, B = pod("a", gpus=1, node="n1"), pod("b", gpus=1, node="n1")


class Scene:
    """A controller, and a preemptor that needs the room of both pods."""

    def __init__(self, *others: Pod, victims: tuple[Pod, ...] = (A, B)) -> None:
        self.metrics = Metrics("gpu-scheduler")
        self.cluster: Cluster = cluster(node("n1", gpus=2), *victims, BOSS, *others)
        self.controller = PreemptionController(self.cluster, self.metrics)

    def begin(self, now: float = 0.0) -> tuple[object, ...]:
        decision = schedule_one(self.cluster, BOSS, OWN)
        assert isinstance(decision, Preemption)
        return self.controller.begin(decision, now)

    def end(self, *outcomes: ev.VictimOutcome) -> tuple[object, ...]:
        pairs = zip((A, B), outcomes, strict=True)
        results = tuple(ev.VictimResult(one, how, "no") for one, how in pairs)
        return self.controller.handle(ev.PreemptionEnded(BOSS, "n1", results), 1.0)


def test_weaker_pods_that_wait_for_the_node_are_decided_again() -> None:
    weaker = pod("weaker", gpus=1, priority=1, nominated="n1")
    equal = pod("equal", gpus=1, priority=9, nominated="n2")
    foreign = pod("foreign", gpus=1, priority=1, nominated="n1", scheduler="other")
    scene = Scene(weaker, equal, foreign)

    effects = scene.begin()

    assert effects[0] == ev.PodActivated(weaker)
    assert FREED in effects
    assert set(scene.cluster.nominated) == {equal.uid, foreign.uid, BOSS.uid}
    scene.cluster.upsert_pod(weaker)
    assert weaker.uid not in scene.cluster.nominated, "its status is older than the decision"


def test_a_pod_that_waits_on_clears_no_weaker_pods() -> None:
    """They were nominated beside it: it has its room already."""
    scene = Scene()
    decision = schedule_one(scene.cluster, BOSS, OWN)
    assert isinstance(decision, Preemption)
    scene.controller.begin(decision, 0.0)
    weaker = pod("weaker", gpus=1, priority=1, nominated="n1")
    scene.cluster.upsert_pod(weaker)

    scene.controller.begin(decision, 1.0)

    assert weaker.uid in scene.cluster.nominated


def test_a_victim_that_is_on_its_way_out_is_not_deleted_again() -> None:
    going = pod("a", gpus=1, node="n1", deleting=True)
    scene = Scene(victims=(going, B))

    assert scene.begin() == (PreemptPods(BOSS, "n1", (B,)),)


def test_a_place_without_victims_counts_as_no_round() -> None:
    """A pod that only waits for the end of others would be exhausted soon."""
    scene = Scene()
    decision = schedule_one(scene.cluster, BOSS, OWN)
    assert isinstance(decision, Preemption)
    waits = msgspec.structs.replace(decision, victims=(), is_reclaim=True)

    for now in range(9):
        scene.controller.begin(waits, now)

    assert not scene.cluster.preemptions.is_exhausted(BOSS.uid)
    assert scene.cluster.nominated[BOSS.uid].nominated_node == "n1"


def test_every_controller_takes_back_its_part_of_a_placement() -> None:
    """The volumes of a victim that is on its way to the node, and its claims."""
    volumes, claims = ev.PodActivated(A), ev.PodActivated(B)
    newcomer = pod("a", gpus=2)
    scene = Scene(newcomer, victims=())
    scene.cluster.assume(newcomer, Assumption("n1", Devices()))
    rejects: tuple[Reject, ...] = (lambda *_: None, lambda *_: (volumes,), lambda *_: (claims,))
    scene.controller = PreemptionController(scene.cluster, scene.metrics, rejects)

    assert scene.begin() == (volumes, claims, RecordPreempted(newcomer, BOSS, "n1"))


def test_deleted_victims_get_the_event_and_the_preemptor_waits() -> None:
    scene = Scene()
    scene.begin()
    assert scene.cluster.preemptions.running == {BOSS.uid: frozenset((A.uid, B.uid))}

    effects = scene.end(ev.VictimOutcome.DELETED, ev.VictimOutcome.GONE)

    assert effects == (RecordPreempted(A, BOSS, "n1"),)
    assert scene.cluster.preemptions.running == {}
    name = "gpu_scheduler_preemption_victims_total"
    for result in ("deleted", "gone"):
        assert scene.metrics.registry.get_sample_value(name, {"result": result}) == 1


def test_preemptor_is_tried_if_victims_ended_before_the_answers() -> None:
    scene = Scene()
    scene.begin()
    for one in (A, B):
        scene.cluster.delete_pod(one.uid)

    effects = scene.end(ev.VictimOutcome.DELETED, ev.VictimOutcome.DELETED)

    assert effects[-1] == ev.PodActivated(BOSS)


@pytest.mark.parametrize(
    "outcome",
    [ev.VictimOutcome.REFUSED, ev.VictimOutcome.UNREACHABLE],
    ids=lambda outcome: outcome.value,
)
def test_a_failed_deletion_gives_the_node_up(outcome: ev.VictimOutcome) -> None:
    scene = Scene()
    scene.begin()

    effects = scene.end(ev.VictimOutcome.DELETED, outcome)

    text = "deleting 1 of 2 victims: team/b: no"
    assert effects[1:3] == (
        ev.PodDone(BOSS.uid),
        ev.BindFailed(BOSS, text, "preemption failed"),
    )
    assert FREED in effects
    assert BOSS.uid not in scene.cluster.nominated


def test_what_a_former_leader_did_not_send_is_decided_again_later() -> None:
    scene = Scene()
    scene.begin()

    effects = scene.end(ev.VictimOutcome.UNSENT, ev.VictimOutcome.UNSENT)

    assert effects[0] == ev.PodActivated(BOSS)
    assert FREED in effects
    assert BOSS.uid not in scene.cluster.nominated


def test_a_bound_preemptor_is_forgotten() -> None:
    scene = Scene()
    for now in range(5):
        scene.begin(float(now))
        scene.cluster.preemptions.end(BOSS.uid)
    assert scene.cluster.preemptions.is_exhausted(BOSS.uid)

    scene.controller.handle(ev.PodUpdated(pod("boss", node="n1")), 9.0)

    assert not scene.cluster.preemptions.is_exhausted(BOSS.uid)
