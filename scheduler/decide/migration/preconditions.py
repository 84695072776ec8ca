"""The preconditions of a migration (design 5.17); each one is a reason with a text.

Some depend only on the pod. The others need the owner from the API server, which is read only if
all the first ones hold.
"""

from __future__ import annotations

import msgspec

from scheduler.decide.migration.restore import MigrationCandidate
from scheduler.model import well_known
from scheduler.model.crd.migration import Migration, MigrationKind
from scheduler.model.crd.migration_blockers import GRACE_MAX_S, BlockedBy, Blocker, OwnerFacts
from scheduler.model.crd.migration_consent import missing_consent
from scheduler.model.pods.pod import Pod
from scheduler.model.timestamps import epoch
from scheduler.state.gangs.index import GangIndex
from scheduler.state.gangs.victims import ends_alone
from scheduler.state.migration.history import Timings


def pod_blocker(pod: Pod, move: MigrationKind, now: float, timings: Timings) -> BlockedBy | None:
    """The precondition on the pod itself that does not hold."""
    return consent_blocker(pod) or _of_age(pod, move, now, timings)


def consent_blocker(pod: Pod) -> BlockedBy | None:
    """Why the pod must not be evicted at any age: its annotations, its controller, its state."""
    return missing_consent(pod) or _of_state(pod)


def _of_state(pod: Pod) -> BlockedBy | None:
    if pod.gates:
        return BlockedBy(Blocker.SCHEDULING_GATED, f"the pod waits for {pod.gates[0]}")
    if pod.is_deleting or pod.is_terminal:
        return BlockedBy(Blocker.TERMINATING, "the pod is terminating")
    return None


def _of_age(pod: Pod, move: MigrationKind, now: float, timings: Timings) -> BlockedBy | None:
    """The minimum age: since the placement of a running pod, since the creation of a pending
    one.
    """
    is_restore = move is MigrationKind.RESTORE
    placed = pod.condition.since if is_restore and pod.condition.status == "True" else ""
    since = epoch(placed) or epoch(pod.created)
    enough_s = timings.min_age_s if is_restore else timings.rescue_after_s
    if since is None or now - since < enough_s:
        return BlockedBy(Blocker.TOO_YOUNG, f"less than {enough_s:g} s have passed")
    return None


def group_blocker(gangs: GangIndex, pod: Pod) -> BlockedBy | None:
    """Why a running member of a gang stays: without it the others would be of no use."""
    gang = gangs.of(pod) if pod.group and pod.node_name else None
    if gang is None or ends_alone(gang, pod.uid):
        return None
    return BlockedBy(
        Blocker.GROUP_BELOW_MINIMUM,
        f"group {gang.key.name} runs with {len(gang.placed)} pods and needs {gang.minimum}",
    )


def claim_blocker(candidate: MigrationCandidate) -> BlockedBy | None:
    """Why another pod would not get other devices."""
    if not candidate.is_named:
        return None
    used = candidate.pod.resource_claims.claims
    degraded = {name.partition("/")[0] for name in candidate.source}
    names = sorted({one.claim_name for one in used if one.name in degraded})
    return BlockedBy(
        Blocker.NAMED_CLAIM,
        f"it names ResourceClaim {' and '.join(names)}, which its replacement would use as it is;"
        " only claims of a resourceClaimTemplateName are created again",
    )


def owner_blocker(pod: Pod, move: MigrationKind, facts: OwnerFacts) -> BlockedBy | None:
    """The precondition on the owner that does not hold."""
    return (
        recreation_blocker(facts)
        or _of_lifecycle(pod, facts)
        or (_of_service(pod, facts) if move is MigrationKind.RESTORE else None)
    )


def recreation_blocker(facts: OwnerFacts) -> BlockedBy | None:
    """Why the owner would not recreate the pod unchanged; also checked while the replacement is
    awaited.
    """
    owner_name = f"{facts.event_target.kind} {facts.event_target.name}"
    if facts.is_owner_gone:
        return BlockedBy(Blocker.OWNER_DELETED, f"{owner_name} is gone")
    if facts.is_outdated:
        return BlockedBy(Blocker.OLD_REVISION, f"the template of {owner_name} changed")
    if facts.is_over_count:
        return BlockedBy(Blocker.SCALED_DOWN, f"{owner_name} was scaled down to {facts.replicas}")
    return None


def replacement_blocker(migration: Migration, facts: OwnerFacts) -> BlockedBy | None:
    """Why the pod of an open migration is not recreated; after a scale-down any pod may be
    missing.
    """
    if migration.index is None and facts.replicas < migration.replicas:
        facts = msgspec.structs.replace(facts, is_over_count=True)
    return recreation_blocker(facts)


def _of_lifecycle(pod: Pod, facts: OwnerFacts) -> BlockedBy | None:
    owner_name = f"{facts.event_target.kind} {facts.event_target.name}"
    if facts.is_suspended:
        return BlockedBy(Blocker.OWNER_SUSPENDED, f"{owner_name} is suspended")
    if facts.manager:
        return BlockedBy(
            Blocker.MANAGED_BY_ANOTHER_QUEUE, f"{owner_name} is managed by {facts.manager}"
        )
    if facts.is_rolling_out:
        return BlockedBy(
            Blocker.ROLLOUT_IN_PROGRESS, f"the rollout of {owner_name} is not finished"
        )
    if facts.grace_s > GRACE_MAX_S:
        return BlockedBy(
            Blocker.GRACE_PERIOD_TOO_LONG,
            f"its termination grace of {facts.grace_s:g} s is above {GRACE_MAX_S:g} s",
        )
    if not facts.ignores_disruptions:
        return BlockedBy(
            Blocker.COUNTS_AS_JOB_FAILURE,
            f"{owner_name} would count it as a failure: add a podFailurePolicy whose first rule for"
            " DisruptionTarget is Ignore",
        )
    return None


def _of_service(pod: Pod, facts: OwnerFacts) -> BlockedBy | None:
    """The availability rules; they hold for running pods only."""
    owner_name = f"{facts.event_target.kind} {facts.event_target.name}"
    assert pod.owner is not None, "only owned pods come this far"
    if facts.has_budget and facts.disruptions_allowed < 1:
        return BlockedBy(
            Blocker.DISRUPTION_BUDGET, "its PodDisruptionBudget allows no disruption now"
        )
    # pods of a Job serve no requests, and the pod's author enabled the migration
    if pod.owner.kind == "Job":
        return None
    if facts.others_down:
        return BlockedBy(
            Blocker.REPLICAS_NOT_READY,
            f"{facts.others_down} other pods of {owner_name} are not ready",
        )
    is_asked = pod.annotations.get(well_known.RESTORE) == "auto"
    if facts.replicas <= 1 and not facts.has_budget and not is_asked:
        return BlockedBy(
            Blocker.SINGLE_REPLICA,
            f"it is the only replica of {owner_name}; annotation {well_known.RESTORE}: auto on the"
            " pods allows the interruption",
        )
    return None
