"""Controllers, pods and budgets as the API server sends them, as far as a move asks about them."""

from __future__ import annotations

import msgspec

from scheduler.model.selector import LabelSelector


class Camel(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """Any part of an object."""


class Reference(Camel, frozen=True):
    """One owner of an owner."""

    kind: str
    name: str
    uid: str
    controller: bool | None = None
    api_version: str = ""


class Meta(Camel, frozen=True):
    """ObjectMeta as far as it is read."""

    name: str = ""
    uid: str = ""
    generation: int = 0
    resource_version: str = ""
    deletion_timestamp: str | None = None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    owner_references: tuple[Reference, ...] | None = None


class OnExitCodes(Camel, frozen=True):
    """The exit codes that a rule is about."""

    operator: str = ""
    values: tuple[int, ...] = ()


class OnCondition(Camel, frozen=True):
    """A condition of the pod that a rule is about."""

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
    """Where a StatefulSet begins to count."""

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

    metadata: Meta
    spec: Spec = Spec()
    status: Status = Status()


class PodSpec(Camel, frozen=True):
    """How long the pod may take to end."""

    termination_grace_period_seconds: float | None = None


class PodCondition(Camel, frozen=True):
    """One condition."""

    type: str
    status: str = ""


class PodStatus(Camel, frozen=True):
    """Whether it is ready."""

    conditions: tuple[PodCondition, ...] | None = None


class PodNow(Camel, frozen=True):
    """The pod to be moved."""

    metadata: Meta = Meta()
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()

    @property
    def is_ready(self) -> bool:
        """Whether it counts among the ready pods of its owner."""
        conditions = self.status.conditions or ()
        return any(one.type == "Ready" and one.status == "True" for one in conditions)


class BudgetSpec(Camel, frozen=True):
    """Whom a PodDisruptionBudget covers; without a selector nobody."""

    selector: LabelSelector | None = None


class BudgetStatus(Camel, frozen=True):
    """How many of them may be evicted now."""

    disruptions_allowed: int = 0


class Budget(Camel, frozen=True):
    """A PodDisruptionBudget."""

    spec: BudgetSpec = BudgetSpec()
    status: BudgetStatus = BudgetStatus()
