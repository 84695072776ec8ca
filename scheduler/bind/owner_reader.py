"""The owner of a pod from the API server, and the facts on which a migration depends.

Owners are read only for a planned or open migration: migrations are rare, and a watch on every
controller of the cluster would be expensive.
"""

from __future__ import annotations

from typing import Final

import msgspec

from scheduler.model.crd.migration_actions import ReadOwner
from scheduler.model.crd.migration_blockers import OwnerFacts
from scheduler.model.pods.pod import Owner
from scheduler.model.pods.pod_parts import owner_of
from scheduler.model.selector import LabelSelector, matches_labels

PATHS: Final = {
    "ReplicaSet": "/apis/apps/v1/namespaces/{}/replicasets/{}",
    "Deployment": "/apis/apps/v1/namespaces/{}/deployments/{}",
    "StatefulSet": "/apis/apps/v1/namespaces/{}/statefulsets/{}",
    "Job": "/apis/batch/v1/namespaces/{}/jobs/{}",
}
REVISION: Final = "deployment.kubernetes.io/revision"
KUEUE: Final = "kueue.x-k8s.io/"
JOB_CONTROLLER: Final = "kubernetes.io/job-controller"
#: Exit codes of a container that was terminated: by SIGTERM, by SIGKILL.
ENDED_BY_SIGNAL: Final = frozenset((143, 137))


# --- the fields of API objects that are read -----------------------------------------------------


class Camel(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """Any part of an object."""


class Reference(Camel, frozen=True):
    """One owner of an owner."""

    kind: str
    name: str
    uid: str
    controller: bool | None = None
    api_version: str = ""


class ObjectMeta(Camel, frozen=True):
    """The fields of ObjectMeta that are read."""

    name: str = ""
    uid: str = ""
    generation: int = 0
    resource_version: str = ""
    deletion_timestamp: str | None = None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    owner_references: tuple[Reference, ...] | None = None


class OnExitCodes(Camel, frozen=True):
    """The exit codes of a rule."""

    operator: str = ""
    values: tuple[int, ...] = ()


class OnCondition(Camel, frozen=True):
    """The pod condition of a rule."""

    type: str = ""
    status: str = "True"


class FailureRule(Camel, frozen=True):
    """One rule of a Job's podFailurePolicy."""

    action: str = ""
    on_exit_codes: OnExitCodes | None = None
    on_pod_conditions: tuple[OnCondition, ...] | None = None


class FailurePolicy(Camel, frozen=True):
    """A Job's podFailurePolicy."""

    rules: tuple[FailureRule, ...] = ()


class Ordinals(Camel, frozen=True):
    """The first ordinal of a StatefulSet."""

    start: int = 0


class Spec(Camel, frozen=True):
    """The spec of any of the four kinds."""

    replicas: int | None = None
    parallelism: int | None = None
    suspend: bool | None = None
    managed_by: str | None = None
    ordinals: Ordinals | None = None
    pod_failure_policy: FailurePolicy | None = None


class Status(Camel, frozen=True):
    """The status of any of the four kinds."""

    observed_generation: int = 0
    replicas: int = 0
    updated_replicas: int = 0
    ready_replicas: int = 0
    current_revision: str = ""
    update_revision: str = ""
    completion_time: str | None = None


class Controller(Camel, frozen=True):
    """A ReplicaSet, Deployment, StatefulSet or Job."""

    metadata: ObjectMeta
    spec: Spec = Spec()
    status: Status = Status()


class PodSpec(Camel, frozen=True):
    """The termination grace period of the pod."""

    termination_grace_period_seconds: float | None = None


class PodCondition(Camel, frozen=True):
    """One condition."""

    type: str
    status: str = ""


class PodStatus(Camel, frozen=True):
    """The conditions of the pod."""

    conditions: tuple[PodCondition, ...] | None = None


class PodNow(Camel, frozen=True):
    """The pod to be migrated."""

    metadata: ObjectMeta = ObjectMeta()
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()

    @property
    def is_ready(self) -> bool:
        """Whether the pod counts as ready for its owner."""
        conditions = self.status.conditions or ()
        return any(one.type == "Ready" and one.status == "True" for one in conditions)


class BudgetSpec(Camel, frozen=True):
    """The pods that a PodDisruptionBudget covers; without a selector none."""

    selector: LabelSelector | None = None


class BudgetStatus(Camel, frozen=True):
    """The number of pods that may be evicted now."""

    disruptions_allowed: int = 0


class Budget(Camel, frozen=True):
    """A PodDisruptionBudget."""

    spec: BudgetSpec = BudgetSpec()
    status: BudgetStatus = BudgetStatus()


# --- facts ---------------------------------------------------------------------------------------


def facts(
    ask: ReadOwner,
    owner: Controller | None,
    above: Controller | None,
    pod: PodNow,
    budgets: tuple[Budget, ...],
) -> OwnerFacts:
    """The facts in these objects; ``above`` is the Deployment of a ReplicaSet, if there is one."""
    top = above_of(owner) if owner is not None else None
    found = OwnerFacts(
        event_target=top or ask.owner, grace_s=_grace_s(pod), version=pod.metadata.resource_version
    )
    if owner is None or not _exists(owner, ask.owner):
        return msgspec.structs.replace(found, is_owner_gone=True)
    if top is not None and top.word != "Deployment":
        return msgspec.structs.replace(found, manager=f"{top.kind} {top.name}")
    if top is not None and (above is None or not _exists(above, top)):
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


def _exists(owner: Controller, expected: Owner) -> bool:
    meta = owner.metadata
    return meta.uid == expected.uid and meta.deletion_timestamp is None


def _of_budgets(found: OwnerFacts, ask: ReadOwner, budgets: tuple[Budget, ...]) -> OwnerFacts:
    covering = [
        one
        for one in budgets
        if one.spec.selector and matches_labels(one.spec.selector, ask.labels)
    ]
    allowed = min((one.status.disruptions_allowed for one in covering), default=1)
    # The API server evicts no pod that several budgets select.
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

    The first matching rule decides, and the exit code of a terminated container may match an
    earlier one.
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
