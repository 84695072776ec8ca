"""Why a pod is not moved, although it could have a better tier: the table of every reason.

``docs/reasons.md`` is generated from it. Obstacles that pass by themselves within minutes are not
told to anybody; every other one is an event on the pod, once.
"""

from __future__ import annotations

import enum
from typing import Final

import msgspec

from scheduler.model.pod import Owner

GRACE_MAX_S: Final = 300.0


class Blocker(enum.Enum):
    """Every reason not to move a pod: code -> (meaning, whether its author is told)."""

    BARE = ("nobody would create the pod again: it has no controller", True)
    CONTROLLER = (
        "its controller is of a kind of which it is not known whether it makes pods again",
        True,
    )
    OPTED_OUT = ("the pod, or its author, said restore: never", False)
    JOB_NOT_ASKED = ("pods of Jobs are moved only with restore: auto", True)
    QUEUED_ELSEWHERE = ("Kueue or another manager decides when the pod runs", True)
    GATED = ("the pod has scheduling gates", False)
    LEAVING = ("the pod is being deleted or has ended", False)
    TOO_YOUNG = ("the pod has not run, or waited, for long enough", False)
    ANOTHER_MOVE = ("another pod of the same workload is being moved", False)
    COOLDOWN = ("the workload's last move was a short while ago", False)
    BUDGET = ("the workload used up its moves of this hour", True)
    LEFT_ALONE = ("three moves of the workload came back without their tier", True)
    GRACE = ("the pod may take longer to end than a slice is held for it", True)
    OWNER_GONE = ("the owner is gone or is being deleted", False)
    SCALED_DOWN = ("the owner wants fewer pods than it has", False)
    ROLLOUT = ("a rollout of the owner is not finished", True)
    OUTDATED = ("the pod is of an older revision of its owner's template", False)
    SUSPENDED = ("the owner is suspended", True)
    JOB_WOULD_COUNT = ("the Job would count the pod's end as a failure", True)
    ONE_REPLICA = ("it is the only replica and no PodDisruptionBudget covers it", True)
    SIBLINGS_DOWN = ("other pods of the owner are not ready", True)
    BUDGET_OF_DISRUPTIONS = ("a PodDisruptionBudget allows no disruption now", True)
    UNKNOWN = ("the API server did not say enough about the owner", False)

    @property
    def meaning(self) -> str:
        """One clause for people who read the table."""
        meaning: str = self.value[0]
        return meaning

    @property
    def is_told(self) -> bool:
        """Whether it is an event on the pod."""
        told: bool = self.value[1]
        return told


class BlockedBy(msgspec.Struct, frozen=True):
    """One obstacle with its sentence."""

    obstacle: Blocker
    text: str


class OwnerFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What the API server says about a pod and its owner at one moment.

    ``told`` is who hears of a move's end; ``replicas`` how many pods the controlling owner wants;
    ``others_down`` how many of the other pods are not ready; ``version`` the pod's own.
    """

    told: Owner
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
