"""The journal keeps what explains a decision, in bounds, and computes details only on request."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from scheduler.decide.admission.admit import Admission
from scheduler.decide.schedule_one import schedule_one
from scheduler.decide.score_breakdown import node_before
from scheduler.framework.decision import Decision, Placement, Rejection
from scheduler.model.admission import AdmissionDecision
from scheduler.model.pods.pod import Pod
from scheduler.model.reasons.reason import Diagnosis
from scheduler.report.decisions import journal as journal_module
from scheduler.report.decisions.journal import Journal, Record
from scheduler.report.decisions.waiters import WAITING_MAX, TooManyWait
from scheduler.state.cache.cluster import Cluster
from scheduler.state.queue.scheduling_queue import QueuedPodInfo, SchedulingQueue
from scheduler.state.reservations import Reservations
from scheduler.state.snapshot import ClusterSnapshot, take
from tests.builders import ALLOW_ALL_MAPS, cluster, node, pod, refused
from tests.unit.decide.admission.admission_world import World as Admissions
from tests.unit.decide.admission.admission_world import seed_nodes, wants_2g
from tests.unit.loop.loop_world import Clock


class World:
    """A cluster, and how often a full snapshot of it was taken."""

    def __init__(self, state: Cluster) -> None:
        self.cluster = state
        self.queue = SchedulingQueue()
        self.pipeline = ALLOW_ALL_MAPS
        self.generation = 5
        self.taken = 0

    def state(self) -> ClusterSnapshot:
        self.taken += 1
        return take(self.cluster, self.queue, Reservations(), self.generation, 1000.0)


class JournalWorld:
    """A journal with every decision about the pods of one small cluster."""

    def __init__(self, *nodes: Any, entries: int = 10) -> None:
        self.world = World(cluster(*(nodes or (node(gpus=4),))))
        self.clock = Clock()
        self.journal = Journal(self.clock, "run", entries)

    def decide(self, one: Pod, attempts: int = 0) -> Record:
        decision = schedule_one(self.world.cluster, one, ALLOW_ALL_MAPS)
        return self.keep(one, decision, attempts)

    def keep(self, one: Pod, decision: Decision, attempts: int = 0) -> Record:
        entry = QueuedPodInfo(one, 990.0, (one.created, 1, one.uid), attempts)
        record = self.journal.record(entry, decision, self.world, self.clock.now)
        if isinstance(decision, Placement) and self.journal.may_rank():
            won = node_before(self.world.cluster, decision)
            assert won is not None
            self.journal.add_ranking(record, self.world, decision, won)
        return record


def rejection(one: Pod, diagnosis: Diagnosis) -> Rejection:
    return Rejection(pod=one, diagnosis=diagnosis)


def wide(rows: int) -> Diagnosis:
    """A rejection by so many nodes."""
    [reasons] = refused(cluster(node()), pod(gpus=1)).diagnosis.nodes.values()
    return Diagnosis(total=rows, nodes={f"n{number}": reasons for number in range(rows)})


def test_record_has_pod_time_and_state_version() -> None:
    scene = JournalWorld()

    record = scene.decide(pod("a", gpus=1, annotations={"gpu-scheduler.io/reservation": "r-1"}), 2)

    assert (record.namespace, record.name, record.uid) == ("team", "a", "team-a")
    assert (record.id, record.at, record.attempt, record.generation) == ("run-1", 1000.0, 3, 5)
    assert record.reservation == "r-1"
    assert record.message == ""
    assert record.placement is not None
    assert record.placement.node_name == "n1"


def test_refusal_record_has_sentence_and_node_reasons() -> None:
    record = JournalWorld().decide(pod("a", gpus=9))

    assert record.placement is None
    assert record.message.startswith("0/1 nodes are available: 1 Insufficient nvidia.com/gpu")
    assert record.diagnosis is not None
    assert list(record.diagnosis.nodes) == ["n1"]


def test_no_pod_is_kept_alive() -> None:
    """Its annotations may be a quarter of a megabyte, and the ring holds thousands."""
    record = JournalWorld().decide(pod("a", gpus=1, annotations={"gpu-scheduler.io/x": "y" * 1000}))

    assert record.placement is not None
    assert record.placement.pod.annotations == {}


def test_ids_are_never_used_twice_and_the_oldest_are_forgotten() -> None:
    scene = JournalWorld(entries=3)
    ids = [scene.decide(pod(f"p{number}", gpus=number % 2 * 9)).id for number in range(7)]

    assert len(set(ids)) == 7
    assert [record.id for record in scene.journal.newest()] == ids[:3:-1]
    assert len(scene.journal) == 3
    assert scene.journal.written == 7


def test_one_pods_decisions_are_found_newest_first() -> None:
    scene = JournalWorld()
    for name, space in (("a", "team"), ("b", "team"), ("a", "other"), ("a", "team")):
        scene.decide(pod(name, namespace=space))

    assert [record.number for record in scene.journal.about("team", "a")] == [4, 1]
    assert scene.journal.about("team", "c") == []


@pytest.mark.parametrize(
    ("after", "expected"),
    [
        pytest.param(0, [4, 5, 6], id="the-first-ones-are-gone"),
        pytest.param(4, [5, 6], id="some-are-known"),
        pytest.param(6, [], id="all-are-known"),
    ],
)
def test_reader_continues_at_its_position(after: int, expected: list[int]) -> None:
    scene = JournalWorld(entries=3)
    for number in range(6):
        scene.decide(pod(f"p{number}"))

    assert [record.number for record in scene.journal.after(after)] == expected


def test_node_refusals_are_bounded_and_the_newest_stay() -> None:
    scene = JournalWorld()
    third = journal_module.ROWS_MAX // 3
    for number in range(4):
        one = pod(f"p{number}")
        scene.keep(one, rejection(one, wide(third)))
    huge = pod("huge")
    scene.keep(huge, rejection(huge, wide(journal_module.ROWS_MAX + 1)))

    newest, *others = scene.journal.newest()
    assert newest.diagnosis is not None
    assert [record.diagnosis for record in others] == [None] * 4
    assert all(record.message for record in others)


def test_a_rejection_that_speaks_for_many_pods_counts_once() -> None:
    scene = JournalWorld(entries=100)
    shared = wide(journal_module.ROWS_MAX)
    for number in range(50):
        one = pod(f"p{number}")
        scene.keep(one, rejection(one, shared))
    assert all(record.diagnosis is shared for record in scene.journal.newest())

    last = pod("last")
    scene.keep(last, rejection(last, wide(1)))

    newest, *others = scene.journal.newest()
    assert newest.diagnosis is not None
    assert [record.diagnosis for record in others] == [None] * 50


def test_details_go_with_the_records_that_had_them() -> None:
    """Or a busy journal would hold the refusals of thousands of forgotten decisions."""
    scene = JournalWorld(entries=2)
    for number in range(20):
        one = pod(f"p{number}")
        scene.keep(one, rejection(one, wide(10)))
        scene.decide(pod(f"q{number}"))

    assert scene.journal.rows == 10


def test_runner_up_search_is_limited_to_one_percent_of_the_time() -> None:
    """The clock of this test takes a second for each look, so the next one waits for 99."""
    scene = JournalWorld(node("a", gpus=4), node("b", gpus=4))

    def ticking() -> float:
        scene.clock.now += 1.0
        return scene.clock.now

    scene.journal = Journal(ticking, "run")
    ranked = [scene.decide(pod("a", gpus=1)).ranking is not None for _ in range(250)]

    assert ranked[0]
    assert ranked.count(True) == 3


async def test_the_next_decision_about_a_pod_comes_with_the_state_before_it() -> None:
    scene = JournalWorld()
    waiting = asyncio.create_task(scene.journal.awaited.next("team/a", 10.0))
    await asyncio.sleep(0)
    scene.decide(pod("b", gpus=1))
    assert scene.world.taken == 0

    record = scene.decide(pod("a", gpus=1))
    caught = await waiting

    assert caught.id == record.id
    assert isinstance(caught.decision, Placement)
    assert caught.state.generation == 5
    assert scene.world.taken == 1
    scene.decide(pod("a", gpus=1))
    assert scene.world.taken == 1


async def test_waiter_without_a_decision_times_out_and_is_removed() -> None:
    scene = JournalWorld()
    with pytest.raises(TimeoutError):
        await scene.journal.awaited.next("team/a", 0.0)

    assert not scene.journal.awaited


async def test_waiters_are_limited() -> None:
    scene = JournalWorld()
    tasks = [
        asyncio.create_task(scene.journal.awaited.next(f"team/{number}", 10.0))
        for number in range(WAITING_MAX)
    ]
    await asyncio.sleep(0)
    with pytest.raises(TooManyWait):
        await scene.journal.awaited.next("team/a", 10.0)

    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert not scene.journal.awaited


class TestAdmissions:
    """How a decision finds the admission that its pod went through."""

    def kept(
        self, scene: JournalWorld, one: Pod, admission: Admission, reservation: str = ""
    ) -> None:
        scene.journal.admitted(one, admission, reservation, 1.0)

    def test_full_tiers_are_recorded_with_the_reason(self) -> None:
        world, scene = Admissions(*seed_nodes()), JournalWorld()
        for _ in range(12):
            assert world.admit(wants_2g("web-")) == "2g.20gb"

        self.kept(scene, wants_2g(), world.ask(wants_2g()), "r-13")

        found = scene.journal.admission_of(
            pod(annotations={"gpu-scheduler.io/reservation": "r-13"})
        )
        assert found is not None
        assert found.result == "degraded"
        assert found.granted == ("nvidia.com/mig-1g.10gb",)
        assert [tier for tier, _ in found.tried] == ["2g.20gb", "1g.20gb"]
        assert "2 Insufficient nvidia.com/mig-2g.20gb" in found.tried[0][1]

    @pytest.mark.parametrize(
        ("shown", "result"),
        [
            pytest.param({"annotations": {"gpu-scheduler.io/reservation": "r-2"}}, "second",
                         id="by-its-reservation"),
            pytest.param({"annotations": {"gpu-scheduler.io/reservation": "r-9"}}, None,
                         id="a-reservation-of-another-process"),
            pytest.param({}, "first", id="by-its-name"),
            pytest.param({"name": "web-xyz", "owner": "Deployment/web"}, "third",
                         id="by-its-owner"),
            pytest.param({"name": "web-xyz"}, None, id="another-pod"),
            pytest.param({"name": "a", "namespace": "other"}, None, id="of-another-namespace"),
        ],
    )  # fmt: skip
    def test_pod_is_joined_with_its_admission_record(
        self, shown: dict[str, Any], result: str | None
    ) -> None:
        scene = JournalWorld()
        owner = "Deployment/web"
        for name, one, tag in (
            ("first", pod("a", uid=""), ""),
            ("second", pod("web-", uid="", owner=owner), "r-2"),
            ("third", pod("web-", uid="", owner=owner), "r-3"),
        ):
            self.kept(scene, one, Admission(answer=AdmissionDecision(), result=name), tag)
        name = shown.pop("name", "a" if not shown else "web-xyz")

        found = scene.journal.admission_of(pod(name, **shown))

        assert (found.result if found else None) == result
