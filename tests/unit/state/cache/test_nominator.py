"""Room that is held on a node comes back with the pod that it was held for, and ends with it."""

from __future__ import annotations

import msgspec
import pytest

from scheduler.model import well_known
from scheduler.model.crd.migration import holder
from scheduler.model.gpu.device import Devices
from scheduler.model.pods.pod import Pod
from scheduler.state import event as ev
from scheduler.state.cache.cluster import Assumption, Cluster
from scheduler.state.event import BindOutcome
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
