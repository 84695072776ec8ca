"""No requeue is lost: a sleeping pod would still be refused, after any history."""

from __future__ import annotations

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.decide.schedule_one import schedule_one
from scheduler.framework.decision import Placement, Preemption, Rejection
from scheduler.framework.settings import Settings
from scheduler.model import well_known
from scheduler.model.node import Node
from scheduler.model.pods.pod import Pod
from scheduler.plugins import default_pipeline
from scheduler.state import event as ev
from scheduler.state.queue.scheduling_queue import BACKOFF_MAX_S
from tests.builders import dynamic, namespace, node, pod
from tests.property.strategies import MIG_LABELS, nodes, wanted
from tests.property.term_strategies import labels, machine, names, spec
from tests.scheduler_world import SchedulerWorld

NODES = ("n0", "n1")
ALIASES = ({"gpu-node": "alias"}, {"gpu-node": "n1"})
PROFILES = ("1g.10gb", "3g.40gb", "4g.40gb")


@st.composite
def small_nodes(draw: st.DrawFn) -> Node:
    """Nodes that are soon full, of one thing or another."""
    return node(
        draw(st.sampled_from(NODES)),
        gpus=draw(st.sampled_from([None, 0, 1, 2])),
        mig=draw(st.sampled_from([{}, {"1g.10gb": 1}])),
        with_gpu_indexes=draw(st.booleans()),
        labels=draw(st.sampled_from([{}, {}, {"zone": "a"}, *ALIASES, *MIG_LABELS])),
        taints=draw(st.sampled_from([[], [], [], ["gpu=x:NoSchedule"]])),
        cpu=draw(st.sampled_from(["2", "8"])),
        pods=draw(st.sampled_from([110, 2])),
        cordoned=draw(st.sampled_from([False, False, False, True])),
    )


@st.composite
def small_pods(draw: st.DrawFn) -> Pod:
    """Pods that get in each other's way; those of strangers are on a node already."""
    number = draw(st.integers(0, 9))
    at = draw(st.sampled_from(NODES)) if number < 3 else ""
    mapped = "" if at else draw(st.sampled_from(["", "", "", *MAPS]))
    return pod(
        f"p-{number}",
        uid=f"u{number}",
        node=at,
        scheduler="default-scheduler" if at else "gpu-scheduler",
        gpus=draw(st.sampled_from([0, 1, 1, 2])),
        mig=draw(st.sampled_from([{}, {}, *({profile: 1} for profile in PROFILES)])),
        requests=draw(st.sampled_from([{}, {}, {"cpu": "2"}])),
        ports=draw(st.sampled_from([[], [], [{"containerPort": 80, "hostPort": 80}]])),
        annotations={well_known.MAP: mapped} if mapped else {},
        owner=draw(st.sampled_from(["", "", "Deployment/web@r1"])),
        selector=draw(st.sampled_from([{}, {}, {}, {"zone": "a"}])),
    )


MAPS = (
    "".join(f"{index}=n0:0\n" for index in range(10)),
    "".join(f"{index}=alias:1\n" for index in range(10)),
    "0=n0:0\n1=n1:1\n",
)
EVENTS = st.lists(
    st.one_of(
        small_nodes().map(ev.NodeUpdated),
        st.sampled_from(NODES).map(dynamic).map(ev.NodeUpdated),
        st.sampled_from(NODES).map(ev.NodeDeleted),
        small_pods().map(ev.PodUpdated),
        small_pods().map(ev.PodUpdated),
        small_pods().map(ev.PodUpdated),
        st.integers(0, 9).map(lambda number: ev.PodDeleted(f"u{number}")),
        st.integers(0, 9).map(lambda number: ev.PodDeleted(f"u{number}")),
    ),
    min_size=5,
    max_size=40,
)


class World(SchedulerWorld):
    """Pods that are placed are not seen again; a history of watch events is."""

    def happens(self, event: ev.Event) -> None:
        if isinstance(event, ev.PodUpdated) and self._is_placed(event.pod):
            return
        self.deliver(event)

    def _is_placed(self, pod: Pod) -> bool:
        known = self.cluster.pods.get(pod.uid)
        return known is not None and bool(known.node_name)

    def rejected(self, rejection: Rejection) -> None:
        """Victims end at once; a pod that preempts none waits for no node."""
        pod = rejection.pod
        if isinstance(rejection, Preemption):
            self.cluster.nominations.nominate(pod, rejection.nominated_node, rejection.devices)
            self.deliver(*(ev.PodDeleted(victim.uid) for victim in rejection.victims))
        elif not rejection.nominated_node:
            self.apply(tuple(self.cluster.withdraw_nomination(pod.uid)))

    def let_pauses_end(self) -> None:
        self.decide_due()
        while self.queue.next_due() is not None:
            self.now += BACKOFF_MAX_S
            self.decide_due()


@st.composite
def pods_with_terms(draw: st.DrawFn) -> Pod:
    """Pods that need or exclude each other; those of other schedulers are on a node already."""
    number = draw(st.integers(0, 9))
    at = draw(names) if number < 4 else ""
    return pod(
        f"p-{number}",
        uid=f"u{number}",
        namespace=draw(st.sampled_from(("team", "other"))),
        node=at,
        scheduler="default-scheduler" if at else "gpu-scheduler",
        labels=draw(labels),
        deleting=draw(st.integers(0, 4)) == 0 if at else False,
        spec=draw(spec()),
    )


EVENTS_OF_TERMS = st.lists(
    st.one_of(
        st.integers(0, 4).flatmap(machine).map(ev.NodeUpdated),
        names.map(ev.NodeDeleted),
        pods_with_terms().map(ev.PodUpdated),
        pods_with_terms().map(ev.PodUpdated),
        st.integers(0, 9).map(lambda number: ev.PodDeleted(f"u{number}")),
        st.builds(namespace, st.sampled_from(("team", "other")), labels=labels).map(
            ev.NamespaceUpdated
        ),
    ),
    min_size=5,
    max_size=40,
)


@st.composite
def pods_with_priorities(draw: st.DrawFn) -> Pod:
    """Pods that hold room for themselves; those of the other scheduler are placed, or will be."""
    number = draw(st.integers(0, 9))
    is_other = number < 4
    return pod(
        f"p-{number}",
        uid=f"u{number}",
        node=draw(st.sampled_from(("", "", *NODES))) if is_other else "",
        scheduler="other" if is_other else "gpu-scheduler",
        nominated=draw(st.sampled_from(("", *NODES))),
        priority=number % 3,
        gpus=draw(st.sampled_from((1, 1, 2))),
        ports=draw(st.sampled_from(([], [], [], [{"containerPort": 80, "hostPort": 80}]))),
        map=draw(st.sampled_from(("", "", "", "".join(f"{at}=n0:0\n" for at in range(10))))),
        labels=draw(labels),
        spec=draw(st.one_of(st.just({}), st.just({}), spec())),
    )


PODS_AND_DELETIONS = st.lists(
    st.one_of(
        pods_with_priorities().map(ev.PodUpdated),
        pods_with_priorities().map(ev.PodUpdated),
        st.integers(0, 9).map(lambda number: ev.PodDeleted(f"u{number}")),
    ),
    min_size=10,
    max_size=40,
)
EVENTS_OF_NOMINATIONS = PODS_AND_DELETIONS.map(
    lambda events: [ev.NodeUpdated(node(name, gpus=2)) for name in NODES] + events
)
PREEMPTING = default_pipeline(Settings(maps_allow="all", preemption="all"))
PAUSES = st.lists(st.integers(0, 3), min_size=1, max_size=10)


@given(st.one_of(EVENTS, EVENTS_OF_TERMS, EVENTS_OF_NOMINATIONS), PAUSES)
def test_sleeping_pods_would_still_be_refused(events: list[ev.Event], pauses: list[int]) -> None:
    _run(World(), events, pauses)


@given(EVENTS_OF_NOMINATIONS, PAUSES)
def test_sleeping_pods_would_preempt_no_pod(events: list[ev.Event], pauses: list[int]) -> None:
    _run(World(pipeline=PREEMPTING), events, pauses)


def _run(world: World, events: list[ev.Event], pauses: list[int]) -> None:
    for number, event in enumerate(events):
        world.happens(event)
        if pauses[number % len(pauses)]:
            world.now += pauses[number % len(pauses)]
            world.decide_due()
    world.decide_due()
    world.let_pauses_end()

    for entry in world.queue.entries():
        decision = schedule_one(world.cluster, entry.pod, world.pipeline)
        assert not isinstance(decision, Placement | Preemption), entry.pod.key


@settings(max_examples=settings().max_examples // 2)
@given(wanted(0), st.integers(2, 40), nodes("n0"), nodes("n1"))
def test_equal_pods_cost_one_decision_without_a_helpful_change(
    first: Pod, count: int, one: Node, other: Node
) -> None:
    """Ten thousand equal pods that were refused must not be tried ten thousand times."""
    if first.map_text is not None:
        return
    world = World()
    world.happens(ev.NodeUpdated(one))
    for number in range(count):
        world.happens(ev.PodUpdated(msgspec.structs.replace(first, uid=f"u{number}")))
    world.decide_due()
    waiting = len(world.queue)
    before = world.decisions
    world.happens(ev.NodeUpdated(other))
    world.let_pauses_end()

    placed = waiting - len(world.queue)
    assert world.decisions - before <= placed + 1


def test_placement_requeues_the_next_pod() -> None:
    """Not every one of a hundred for one freed GPU, and not only one for a whole new node."""
    world = World()
    world.happens(ev.NodeUpdated(node(gpus=0, with_gpu_indexes=True)))
    for number in range(100):
        world.happens(ev.PodUpdated(pod(f"p{number}", gpus=1)))
    world.decide_due()
    assert world.decisions == 100

    world.happens(ev.NodeUpdated(node(gpus=3, with_gpu_indexes=True)))
    world.let_pauses_end()
    assert len(world.queue) == 97
    assert world.decisions == 104


def test_replicas_waiting_for_any_line_cost_one_decision_per_line() -> None:
    """A hundred replicas without a line: a node that comes back is no turn for each of them."""
    world = World()
    lines = "".join(f"{number}=n{number}:0\n" for number in range(4))
    for number in range(4):
        world.happens(ev.NodeUpdated(node(f"n{number}", cordoned=number > 0)))
    for number in range(100):
        world.happens(ev.PodUpdated(pod(f"p{number}", owner="Deployment/web@r1", map=lines)))
    world.decide_due()
    assert (world.decisions, len(world.queue)) == (100, 99)

    for number in (3, 1):
        world.happens(ev.NodeUpdated(node(f"n{number}")))
        world.let_pauses_end()

    assert len(world.queue) == 97
    assert world.decisions == 104
    given = [one.annotations.get(well_known.POD_INDEX) for one in world.cluster.pods.values()]
    assert sorted(filter(None, given)) == ["0", "1", "3"]


def test_each_freed_line_is_offered_to_the_waiting_replicas() -> None:
    world = World()
    world.happens(ev.NodeUpdated(node("n0")))
    for number in range(5):
        one = pod(f"p{number}", owner="Deployment/web@r1", map="0=n0:0\n1=gone:0", created=number)
        world.happens(ev.PodUpdated(one))
    world.decide_due()

    ran: list[str] = []
    while running := [one for one in world.cluster.pods.values() if one.node_name]:
        ran += [one.name for one in running]
        world.happens(ev.PodDeleted(running[0].uid))
        world.let_pauses_end()

    assert sorted(ran) == [f"p{number}" for number in range(5)]
    assert not len(world.queue)


def test_a_freed_slice_of_one_profile_wakes_pods_of_other_profiles() -> None:
    """No pod lacks the freed profile, and yet there is capacity now."""
    world = World()
    world.happens(ev.NodeUpdated(dynamic("n0")))
    holder = pod("holder", mig={"3g.40gb": 1}, node="n0", devices="3g.40gb@0/0")
    world.happens(ev.PodUpdated(holder))
    world.happens(ev.PodUpdated(pod("waits", mig={"4g.40gb": 1})))
    world.decide_due()
    assert len(world.queue) == 1

    world.happens(ev.PodDeleted(holder.uid))
    world.let_pauses_end()

    assert len(world.queue) == 0
