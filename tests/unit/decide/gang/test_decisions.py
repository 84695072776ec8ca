"""The explanation of a member is that of its gang, live and from a snapshot."""

from __future__ import annotations

import msgspec
import pytest

from scheduler.decide.explain import explain
from scheduler.decide.gang.decisions import Decisions
from scheduler.decide.rejection_message import parts
from scheduler.decide.remedy.outlook import CanStart
from scheduler.framework.decision import Placement
from scheduler.model.pods.gang import PodGroup
from scheduler.state import event as ev
from scheduler.state.cache.cluster import Cluster
from scheduler.state.fold import fold
from scheduler.state.queue.gang_queue import GangQueue
from scheduler.state.reservations import Reservations
from scheduler.state.snapshot import ClusterSnapshot, restore, take
from tests.builders import ALLOW_ALL_MAPS, cluster, node, pod
from tests.gangs import COSCHEDULING, members
from tests.questions import explain_now, outlook


def two_gangs() -> Cluster:
    """One waits for a member, the other fits beside a single pod that waits too."""
    state = cluster(node("n1", gpus=2), node("n2", gpus=1))
    fold(state, ev.PodGroupUpdated(PodGroup("team", "fits", 2)))
    labelled = {COSCHEDULING: "fits"}
    fits = [pod(name, gpus=1, labels=labelled) for name in ("f-0", "f-1")]
    for one in (*members(2, 3, gpus=1), *fits, pod("single", gpus=2)):
        fold(state, ev.PodUpdated(one))
    return state


def told(state: Cluster) -> list[bytes]:
    decisions = Decisions(state, ALLOW_ALL_MAPS)
    pods = sorted(state.pods.values(), key=lambda one: one.name)
    return [msgspec.json.encode(explain(decisions.of(one))) for one in pods]


def test_a_member_is_explained_by_its_gang() -> None:
    state = two_gangs()
    decisions = Decisions(state, ALLOW_ALL_MAPS)

    first, second = (decisions.of(state.pods[f"team-f-{rank}"]) for rank in (0, 1))

    assert isinstance(first, Placement)
    assert isinstance(second, Placement)
    assert (first.pod.name, second.pod.name) == ("f-0", "f-1")
    waiting = explain_now(state, state.pods["team-train-1"], ALLOW_ALL_MAPS)
    assert waiting.message.endswith(
        "waiting for members 2/3 of group train; no pod has the index 2."
    )
    assert [one.code for one in waiting.refusals] == ["WAITING_FOR_MEMBERS"]


def test_a_snapshot_explains_gangs_as_the_cluster_does() -> None:
    state = two_gangs()
    taken = take(state, GangQueue(state.gangs), Reservations(), 1, 1.0)

    again = restore(msgspec.json.decode(msgspec.json.encode(taken), type=ClusterSnapshot))

    assert told(again) == told(state)


@pytest.mark.parametrize(
    ("gpus", "name", "codes"),
    [
        pytest.param(2, "team-train-0", ["WAITING_FOR_MEMBERS"], id="a member is missing"),
        pytest.param(0, "team-f-0", ["INSUFFICIENT"], id="no room"),
        pytest.param(2, "team-lost", ["GROUP_NOT_FOUND"], id="no PodGroup"),
    ],
)
def test_the_message_alone_names_its_codes(gpus: int, name: str, codes: list[str]) -> None:
    """So ``gpuctl why`` has advice without the leader."""
    state = cluster(node("n1", gpus=gpus))
    for one in (*two_gangs().pods.values(), pod("lost", labels={COSCHEDULING: "lost"})):
        fold(state, ev.PodUpdated(one))
    fold(state, ev.PodGroupUpdated(PodGroup("team", "fits", 2)))

    now = explain_now(state, state.pods[name], ALLOW_ALL_MAPS)
    expected = outlook(state, state.pods[name], ALLOW_ALL_MAPS, now)

    assert [part.code and part.code.name for part in parts(now.message)] == codes
    assert expected.can_start is not CanStart.NOW
    assert expected.text


def test_no_change_of_one_member_is_offered_to_the_gang() -> None:
    """Each of them would fit alone."""
    state = cluster(node("n1", gpus=2))
    for one in members(3, 3, gpus=1):
        fold(state, ev.PodUpdated(one))

    one = state.pods["team-train-0"]
    now = explain_now(state, one, ALLOW_ALL_MAPS)

    assert "2 of the 3 members" in now.message
    assert outlook(state, one, ALLOW_ALL_MAPS, now).remedies == ()
