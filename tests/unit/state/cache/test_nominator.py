"""Room that is held on a node comes back with the pod that it was held for, and ends with it.

The end frees the node for the pods that wait.
"""

from __future__ import annotations

import msgspec
import pytest

from scheduler.model import well_known
from scheduler.model.crd.migration import holder
from scheduler.model.gpu.device import Devices
from scheduler.model.pods.pod import Pod
from scheduler.model.reasons.reason import RequeueCause
from scheduler.state import event as ev
from scheduler.state.cache.cluster import Assumption, Cluster
from scheduler.state.event import BindOutcome, Change
from scheduler.state.fold import fold
from tests.builders import node, pod, restoring

TICKET = restoring("restore-1-x", requests={"nvidia.com/mig-2g.20gb": 1})
TAKER = pod(
    "web-y",
    mig={"2g.20gb": 1},
    owner="Deployment/web@r1",
    annotations={well_known.MIGRATION: TICKET.id},
)


def assumed() -> Cluster:
    """A replacement that is on its way to the node where room was held for it."""
    cluster = Cluster()
    cluster.upsert_node(node("cut", mig={"2g.20gb": 1}))
    cluster.nominations.hold(holder(TICKET))
    cluster.upsert_pod(TAKER)
    assert list(cluster.nominated) == [TICKET.id]
    cluster.assume(TAKER, Assumption("cut", Devices()))
    assert cluster.nominated == {}
    return cluster


@pytest.mark.parametrize(
    ("outcome", "expected"),
    [
        pytest.param(BindOutcome.REFUSED, [TICKET.id], id="refused"),
        pytest.param(BindOutcome.UNSENT, [TICKET.id], id="unsent"),
        pytest.param(BindOutcome.GONE, [TICKET.id], id="gone-so-another-one-comes"),
        pytest.param(BindOutcome.BOUND, [], id="bound"),
    ],
)
def test_failed_binding_restores_the_held_room(outcome: BindOutcome, expected: list[str]) -> None:
    cluster = assumed()

    fold(cluster, ev.BindEnded(TAKER.uid, outcome))

    held = [name for name in cluster.nominated if name != TAKER.uid]
    assert held == expected


def test_ended_migration_holds_no_room_again() -> None:
    cluster = assumed()
    assert not cluster.nominations.release(TICKET.id)

    cluster.forget(TAKER.uid)

    assert cluster.nominated == {}


def test_bound_replacement_ends_the_hold() -> None:
    cluster = assumed()
    bound: Pod = msgspec.structs.replace(TAKER, node_name="cut")

    cluster.upsert_pod(bound)
    cluster.forget(TAKER.uid)

    assert cluster.nominated == {}


PREEMPTOR = pod("boss", gpus=1, priority=5, nominated="n1")


def ends(how: str) -> tuple[Cluster, list[Change]]:
    """What follows when the preemptor's nomination ends."""
    cluster = Cluster()
    for name in ("n1", "n2"):
        cluster.upsert_node(node(name, gpus=1))
    cluster.upsert_pod(PREEMPTOR)
    match how:
        case "deleted":
            return cluster, cluster.delete_pod(PREEMPTOR.uid)
        case "withdrawn":
            return cluster, cluster.withdraw_nomination(PREEMPTOR.uid)
        case "nominated-elsewhere":
            return cluster, cluster.nominate(PREEMPTOR, "n2", Devices())
        case "assumed-there":
            return cluster, cluster.assume(PREEMPTOR, Assumption("n1", Devices()))
        case "assumed-elsewhere":
            return cluster, cluster.assume(PREEMPTOR, Assumption("n2", Devices()))
    newest = {
        "bound-there": pod("boss", gpus=1, priority=5, nominated="n1", node="n1"),
        "bound-elsewhere": pod("boss", gpus=1, priority=5, nominated="n1", node="n2"),
        "cleared": pod("boss", gpus=1, priority=5),
        "moved": pod("boss", gpus=1, priority=5, nominated="n2"),
        "smaller": pod("boss", priority=5, nominated="n1"),
        "terminating": pod("boss", gpus=1, priority=5, nominated="n1", deleting=True),
    }
    return cluster, cluster.upsert_pod(newest[how])


@pytest.mark.parametrize(
    ("how", "is_freed"),
    [
        ("deleted", True),
        ("withdrawn", True),
        ("nominated-elsewhere", True),
        ("assumed-there", False),
        ("assumed-elsewhere", True),
        ("bound-there", False),
        ("bound-elsewhere", True),
        ("cleared", True),
        ("moved", True),
        ("smaller", True),
        ("terminating", True),
    ],
)
def test_the_end_of_a_nomination_frees_the_node(how: str, is_freed: bool) -> None:
    cluster, changes = ends(how)

    what = frozenset((*PREEMPTOR.requests, well_known.PODS))
    freed = ev.ClusterEvent(RequeueCause.FREED, node_name="n1", what=what)
    assert changes.count(freed) == int(is_freed)
    assert [one.uid for one in cluster.nominations.at("n1")] == ["team-boss"] * (how == "smaller")
    assert [one.uid for one in cluster.nominations.at("n2")] == ["team-boss"] * (
        how in {"moved", "nominated-elsewhere"}
    )


def test_the_end_of_a_nomination_changes_its_domains() -> None:
    _, changes = ends("deleted")

    assert ev.ClusterEvent(RequeueCause.PODS_IN_DOMAIN, pod=PREEMPTOR) in changes


def test_an_ended_migration_frees_its_node() -> None:
    cluster = Cluster()
    cluster.upsert_node(node("cut", mig={"2g.20gb": 1}))
    cluster.nominations.hold(holder(TICKET))

    changes = cluster.release_migration(TICKET.id)

    what = frozenset((*TICKET.requests, well_known.PODS))
    assert changes[0] == ev.ClusterEvent(RequeueCause.FREED, node_name="cut", what=what)
    assert cluster.release_migration(TICKET.id) == []


@pytest.mark.parametrize("claim", [TICKET.id, "preemptor"], ids=["a-ticket", "a-pod"])
def test_claimed_room_stays_held_for_others(claim: str) -> None:
    cluster = Cluster()
    cluster.upsert_node(node("cut", mig={"2g.20gb": 2}))
    cluster.nominations.hold(holder(TICKET))
    cluster.upsert_pod(pod("a", uid="preemptor", nominated="cut"))
    before = dict(cluster.nominated)
    forger = pod("f", owner="Deployment/evil@r1", annotations={well_known.MIGRATION: claim})
    cluster.upsert_pod(forger)

    cluster.assume(forger, Assumption("cut", Devices()))

    assert cluster.nominated == before
