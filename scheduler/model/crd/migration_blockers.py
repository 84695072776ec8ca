"""The reasons that block a migration although a better tier is free.

``docs/reasons.md`` is generated from this table. A blocker that clears within minutes emits no
event; every other blocker emits one event on the pod.
"""

from __future__ import annotations

import enum
from typing import Final

import msgspec

from scheduler.model.pods.pod import Owner

GRACE_MAX_S: Final = 300.0


class Blocker(enum.Enum):
    """Every blocker of a migration: code -> (meaning, whether the pod gets an event)."""

    NO_CONTROLLER = ("the pod has no controller that would create it again", True)
    UNKNOWN_CONTROLLER = (
        "it is not known that controllers of this kind create deleted pods again",
        True,
    )
    OPTED_OUT = ("the pod has the annotation restore: never", False)
    JOB_NOT_OPTED_IN = ("pods of Jobs are migrated only with the annotation restore: auto", True)
    MANAGED_BY_ANOTHER_QUEUE = ("Kueue or another queue manager starts the pod", True)
    SCHEDULING_GATED = ("the pod has scheduling gates", False)
    NAMED_CLAIM = (
        "the pod names the degraded ResourceClaim, so its replacement would have the same devices",
        True,
    )
    TERMINATING = ("the pod is terminating or finished", False)
    TOO_YOUNG = ("the pod has not run, or been pending, for the minimum time", False)
    MIGRATION_IN_PROGRESS = ("a migration of another pod of the workload is in progress", False)
    COOLDOWN = ("the cooldown after the workload's last migration is not over", False)
    HOURLY_LIMIT = ("the workload reached its limit of migrations per hour", True)
    MIGRATION_SUSPENDED = ("three migrations of the workload in a row did not get their tier", True)
    GRACE_PERIOD_TOO_LONG = (
        "the termination grace period is longer than a reservation lasts",
        True,
    )
    OWNER_DELETED = ("the owner is deleted or terminating", False)
    SCALED_DOWN = ("the owner is scaled below its number of pods", False)
    ROLLOUT_IN_PROGRESS = ("a rollout of the owner is in progress", True)
    OLD_REVISION = ("the pod is of an older revision of its owner's template", False)
    OWNER_SUSPENDED = ("the owner is suspended", True)
    COUNTS_AS_JOB_FAILURE = ("the Job would count the eviction as a failure", True)
    SINGLE_REPLICA = ("the pod is the only replica and no PodDisruptionBudget covers it", True)
    REPLICAS_NOT_READY = ("other pods of the owner are not ready", True)
    DISRUPTION_BUDGET = ("a PodDisruptionBudget allows no disruption now", True)
    GROUP_BELOW_MINIMUM = ("its group would run with fewer pods than its minimum", True)
    OWNER_UNKNOWN = ("the owner could not be read completely", False)

    @property
    def meaning(self) -> str:
        """The meaning of the code, one clause."""
        meaning: str = self.value[0]
        return meaning

    @property
    def has_event(self) -> bool:
        """Whether the pod gets an event."""
        has_event: bool = self.value[1]
        return has_event


class BlockedBy(msgspec.Struct, frozen=True):
    """One blocker with its message."""

    blocker: Blocker
    text: str


class OwnerFacts(msgspec.Struct, frozen=True, kw_only=True):
    """A pod and its owner as read from the API server at one moment.

    ``event_target`` is the object that gets the event about the result; ``replicas`` the number of
    pods that the controlling owner wants; ``others_down`` the number of other pods that are not
    ready; ``version`` the resource version of the pod.
    """

    event_target: Owner
    grace_s: float = 30.0
    version: str = ""
    replicas: int = 1
    is_owner_gone: bool = False
    is_suspended: bool = False
    is_rolling_out: bool = False
    is_outdated: bool = False
    is_over_count: bool = False
    manager: str = ""
    others_down: int = 0
    ignores_disruptions: bool = True
    has_budget: bool = False
    disruptions_allowed: int = 1
