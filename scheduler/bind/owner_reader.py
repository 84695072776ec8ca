"""An owner as the API server has it, and what it says about moving one of its pods.

Read only when a move is about to be made or is under way: moves are rare, and a watch on every
controller of the cluster would not be.
"""

from __future__ import annotations

from typing import Final

import msgspec

from scheduler.bind.owner_types import Budget, Controller, FailurePolicy, PodNow, Status
from scheduler.model.crd.migration_actions import ReadOwner
from scheduler.model.crd.migration_blockers import OwnerFacts
from scheduler.model.pod import Owner
from scheduler.model.pod_parts import owner_of
from scheduler.model.selector import matches_labels

PATHS: Final = {
    "ReplicaSet": "/apis/apps/v1/namespaces/{}/replicasets/{}",
    "Deployment": "/apis/apps/v1/namespaces/{}/deployments/{}",
    "StatefulSet": "/apis/apps/v1/namespaces/{}/statefulsets/{}",
    "Job": "/apis/batch/v1/namespaces/{}/jobs/{}",
}
REVISION: Final = "deployment.kubernetes.io/revision"
KUEUE: Final = "kueue.x-k8s.io/"
JOB_CONTROLLER: Final = "kubernetes.io/job-controller"
#: What a container that is told to end may end with: by SIGTERM, by SIGKILL.
ENDED_BY_SIGNAL: Final = frozenset((143, 137))


def facts(
    ask: ReadOwner,
    owner: Controller | None,
    above: Controller | None,
    pod: PodNow,
    budgets: tuple[Budget, ...],
) -> OwnerFacts:
    """What these objects say; ``above`` is the Deployment of a ReplicaSet that has one."""
    told = above_of(owner) if owner is not None else None
    found = OwnerFacts(
        told=told or ask.owner, grace_s=_grace_s(pod), version=pod.metadata.resource_version
    )
    if owner is None or not _is_there(owner, ask.owner):
        return msgspec.structs.replace(found, is_owner_gone=True)
    if told is not None and told.word != "Deployment":
        return msgspec.structs.replace(found, manager=f"{told.kind} {told.name}")
    if told is not None and (above is None or not _is_there(above, told)):
        return msgspec.structs.replace(found, is_owner_gone=True)
    found = _of_budgets(found, ask, budgets)
    found = msgspec.structs.replace(found, manager=_manager(owner) or _manager(above))
    if ask.owner.kind == "Job":
        return _of_job(found, owner)
    if ask.owner.kind == "StatefulSet":
        return _of_set(found, ask, owner, pod)
    return _of_replicas(found, owner, above, pod)


def above_of(owner: Controller) -> Owner | None:
    """The controller of a controller."""
    for one in owner.metadata.owner_references or ():
        if one.controller:
            return owner_of(one.api_version, one.kind, one.name, one.uid)
    return None


def _is_there(owner: Controller, expected: Owner) -> bool:
    meta = owner.metadata
    return meta.uid == expected.uid and meta.deletion_timestamp is None


def _of_budgets(found: OwnerFacts, ask: ReadOwner, budgets: tuple[Budget, ...]) -> OwnerFacts:
    covering = [
        one
        for one in budgets
        if one.spec.selector and matches_labels(one.spec.selector, ask.labels)
    ]
    allowed = min((one.status.disruptions_allowed for one in covering), default=1)
    # The API server evicts no pod that several budgets cover.
    return msgspec.structs.replace(
        found,
        has_budget=bool(covering),
        disruptions_allowed=0 if len(covering) > 1 else allowed,
    )


def _of_job(found: OwnerFacts, job: Controller) -> OwnerFacts:
    return msgspec.structs.replace(
        found,
        replicas=_or_one(job.spec.parallelism),
        is_suspended=bool(job.spec.suspend),
        is_owner_gone=job.status.completion_time is not None,
        ignores_disruptions=ignores_disruptions(job.spec.pod_failure_policy),
    )


def _of_set(found: OwnerFacts, ask: ReadOwner, owner: Controller, pod: PodNow) -> OwnerFacts:
    replicas, status = _or_one(owner.spec.replicas), owner.status
    first = owner.spec.ordinals.start if owner.spec.ordinals else 0
    return msgspec.structs.replace(
        found,
        replicas=replicas,
        is_over_count=ask.index is not None and ask.index >= first + replicas,
        is_outdated=bool(status.update_revision) and ask.revision != status.update_revision,
        is_rolling_out=_is_behind(owner) or status.current_revision != status.update_revision,
        others_down=_others_down(replicas, status, pod),
    )


def _of_replicas(
    found: OwnerFacts, owner: Controller, above: Controller | None, pod: PodNow
) -> OwnerFacts:
    replicas = _or_one(owner.spec.replicas)
    found = msgspec.structs.replace(
        found,
        replicas=replicas,
        is_over_count=owner.status.replicas > replicas,
        others_down=_others_down(replicas, owner.status, pod),
    )
    if above is None:
        return found
    wanted, status = _or_one(above.spec.replicas), above.status
    return msgspec.structs.replace(
        found,
        is_outdated=_revision(owner) != _revision(above),
        is_rolling_out=_is_behind(above)
        or not wanted == status.replicas == status.updated_replicas,
    )


def ignores_disruptions(policy: FailurePolicy | None) -> bool:
    """Whether an eviction does not count as a failure of the Job.

    The first rule that fits decides, and the exit code of a container that was told to end may
    fit an earlier one.
    """
    for rule in policy.rules if policy is not None else ():
        codes = rule.on_exit_codes
        conditions = rule.on_pod_conditions or ()
        if any(one.type == "DisruptionTarget" and one.status == "True" for one in conditions):
            return rule.action == "Ignore"
        if codes is not None and rule.action != "Ignore":
            listed = ENDED_BY_SIGNAL & set(codes.values)
            if listed if codes.operator == "In" else listed != ENDED_BY_SIGNAL:
                return False
    return False


def _others_down(replicas: int, status: Status, pod: PodNow) -> int:
    return max(0, replicas - status.ready_replicas - (0 if pod.is_ready else 1))


def _grace_s(pod: PodNow) -> float:
    grace_s = pod.spec.termination_grace_period_seconds
    return 30.0 if grace_s is None else grace_s


def _manager(owner: Controller | None) -> str:
    if owner is None:
        return ""
    if any(key.startswith(KUEUE) for key in owner.metadata.labels or ()):
        return "Kueue"
    by = owner.spec.managed_by
    return by if by and by != JOB_CONTROLLER else ""


def _is_behind(owner: Controller) -> bool:
    return owner.status.observed_generation < owner.metadata.generation


def _revision(owner: Controller) -> str:
    return (owner.metadata.annotations or {}).get(REVISION, "")


def _or_one(count: int | None) -> int:
    return 1 if count is None else count
