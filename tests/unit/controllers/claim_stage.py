"""A cluster with one claim and one pod, and the controller of claims beside it."""

from __future__ import annotations

from typing import Any

from scheduler.controllers.claim_allocation import ClaimController
from scheduler.controllers.leadership.gate import LeaderGate
from scheduler.controllers.node_avoidance import NodeAvoidance
from scheduler.framework.decision import AllocateClaims, PendingPlacement
from scheduler.model.actions import (
    ClaimRef,
    CompleteStep,
    DropPlacement,
    ReleaseClaims,
)
from scheduler.model.dra.allocation import Allocation
from scheduler.model.dra.claim import ResourceClaim
from scheduler.model.dra.claim_plan import ClaimPlan, PlannedClaim
from scheduler.model.dra.objects import DraObject
from scheduler.model.pods.pod import Pod
from scheduler.model.timestamps import rfc3339
from scheduler.report.metrics import Metrics
from scheduler.state import event as ev
from scheduler.state.cache.cluster import Assumption
from scheduler.state.dra.ended_claims import ClaimUse
from scheduler.state.effects import Effects
from scheduler.state.fold import fold
from scheduler.watch.inbox import Inbox
from tests.builders import cluster, node, pod
from tests.dra import allocation_json, claiming, resource_claim, result_json
from tests.unit.loop.loop_world import Leader

WALL = 1_770_000_000.0
TIME = rfc3339(WALL)
USER = pod("p", spec=claiming("gpu"))
UID = "team-p"
REF = ClaimRef("team", "gpu", "uid-gpu")
DONE = (CompleteStep(UID, AllocateClaims.name),)
WAITS = result_json(bindingConditions=["Ready"], bindingFailureConditions=["Failed"])
RELEASE = ReleaseClaims(UID, (REF,))
DEALLOCATE = ReleaseClaims(UID, (REF,), deallocate=True)


def allocation(*results: Any, **more: Any) -> Allocation:
    found = resource_claim(
        allocation=allocation_json(*(results or [result_json()]), **more)
    ).allocation
    assert found is not None
    return found


def planned(given: Allocation | None) -> ClaimPlan:
    return ClaimPlan("n1", (PlannedClaim("team/gpu", "uid-gpu", given),))


def reserved(*results: Any, version: str = "3", users: Any = ("p",), **more: Any) -> ResourceClaim:
    """The claim as the API server has it after our write."""
    given = allocation_json(*(results or [result_json()]), allocationTimestamp=TIME)
    return resource_claim(allocation=given, users=users, version=version, **more)


class Stage:
    """A cluster, and what the controller returned for events."""

    def __init__(self, *items: DraObject) -> None:
        self.cluster = cluster(node("n1"))
        self.now, self.wall = 100.0, WALL
        self.metrics = Metrics("gpu-scheduler")
        avoidance = NodeAvoidance(self.cluster, self.metrics, LeaderGate(Leader(), [], Inbox()))
        ids = (f"share-{number}" for number in range(9))
        self.controller = ClaimController(
            self.cluster, self.metrics, avoidance, lambda: self.wall, lambda: next(ids)
        )
        self.see(*(items or (resource_claim(),)))

    def use(self) -> ClaimUse:
        """Who uses the claims."""
        return ClaimUse(self.cluster.dra, self.cluster.pods, self.cluster.assumed)

    def begin(self, given: Allocation | None = None, user: Pod = USER) -> Effects:
        """Assume a placement, as the loop does."""
        plan = planned(given)
        self.cluster.upsert_pod(user)
        placement = PendingPlacement(
            pod=user, node_name="n1", claims=plan, steps=(AllocateClaims(plan),)
        )
        self.cluster.assume(user, Assumption("n1", placement.devices, claims=plan))
        return self.controller.begin(placement, self.now)

    def see(self, *items: Any) -> Effects:
        """Events, or objects of DRA that change."""
        effects: Effects = ()
        for item in items:
            event = item if isinstance(item, ev.Event) else ev.DraUpdated(item)
            fold(self.cluster, event)
            effects += self.controller.handle(event, self.now)
        return effects

    def answer(
        self, *claims: ResourceClaim, problem: str = "", attempt: int = 1, is_seen: bool = True
    ) -> Effects:
        """The API server answers; the watch has shown all claims up to these versions."""
        for claim in claims if is_seen else ():
            self.cluster.dra.versions.show(claim)
        return self.see(ev.ClaimsReserved(UID, attempt, claims, problem))

    def tick(self, seconds: float = 1.0, *, leads: bool = True) -> Effects:
        self.now += seconds
        self.wall += seconds
        return self.controller.tick(self.now, leads=leads)

    def counted(self) -> dict[str, float]:
        [family] = self.metrics.claim_allocations.collect()
        found = [one for one in family.samples if one.name.endswith("_total")]
        return {one.labels["result"]: one.value for one in found}


def failure(effects: Effects) -> str:
    """Why a placement was taken back; it is tried again."""
    (failed,) = [one for one in effects if isinstance(one, ev.BindFailed)]
    assert DropPlacement(UID) in effects
    return failed.message
