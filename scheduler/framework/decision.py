"""The results of a decision. They are values: a rejection is never an exception."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import msgspec

from scheduler.model.actions import ClaimRef
from scheduler.model.dra.claim_plan import ClaimPlan
from scheduler.model.gpu.device import Devices, MigPlacement
from scheduler.model.pods.pod import Pod
from scheduler.model.reasons.reason import Diagnosis, Reason
from scheduler.model.volumes.volume_plan import VolumePlan


class Placement(msgspec.Struct, frozen=True, kw_only=True):
    """Bind ``pod`` to ``node_name``.

    ``devices`` are its devices there, ``volumes`` the plan for its unbound claims, and ``claims``
    that for its ResourceClaims. ``index`` is its map index, if mapped. ``cuda_visible_devices`` is
    the value for the environment (None: no value), and ``shares`` the value per position of a
    requesting container if they differ. ``notes`` are messages for the pod's author.
    """

    pod: Pod
    node_name: str
    devices: Devices = Devices()
    volumes: VolumePlan | None = None
    claims: ClaimPlan | None = None
    index: int | None = None
    cuda_visible_devices: str | None = None
    shares: tuple[str, ...] = ()
    notes: tuple[tuple[str, str], ...] = ()


class CreateInstances(msgspec.Struct, frozen=True):
    """The operator of the node has to create MIG instances, or the kubelet to advertise them."""

    instances: tuple[MigPlacement, ...] = ()

    name: ClassVar[str] = "MIG instances"

    def __str__(self) -> str:
        return "MIG instances that are being created"


class BindVolumes(msgspec.Struct, frozen=True):
    """The PV controller, or a provisioner, has to bind claims."""

    plan: VolumePlan

    name: ClassVar[str] = "volumes"

    def __str__(self) -> str:
        return f"PersistentVolumeClaims to be bound: {self.plan}"


class AllocateClaims(msgspec.Struct, frozen=True):
    """The allocation of ResourceClaims has to be written, and their drivers may prepare devices."""

    plan: ClaimPlan

    name: ClassVar[str] = "claims"

    def __str__(self) -> str:
        return f"ResourceClaims to be allocated: {self.plan}"


#: What a plugin's PreBind waits for; ``controllers/table`` has the controller of each.
PreBindStep = CreateInstances | BindVolumes | AllocateClaims


class PendingPlacement(Placement, frozen=True, kw_only=True):
    """A placement whose Binding waits until every step is complete.

    Meanwhile the pod is assumed: it holds what a placement holds. A step that fails takes the
    placement back.
    """

    steps: tuple[PreBindStep, ...] = ()

    @property
    def new_instances(self) -> tuple[MigPlacement, ...]:
        """The MIG instances that do not exist yet."""
        found = (one.instances for one in self.steps if isinstance(one, CreateInstances))
        return next(found, ())


class Rejection(msgspec.Struct, frozen=True, kw_only=True):
    """No node fits, with the reasons.

    ``node_name`` is the only possible node if a map names one. ``candidates`` are nodes where the
    end of pods can help although the pod was rejected as a whole. ``nominated_node`` is the node
    on which the pod waits for the end of others, ``claims`` what its claims are to get there, as
    far as it is known. ``deallocates`` is a ResourceClaim of the pod
    whose allocation is given up. ``unhelpful`` has the reasons per node why preemption does not
    help there, if it was tried.
    """

    pod: Pod
    diagnosis: Diagnosis
    node_name: str = ""
    candidates: tuple[str, ...] = ()
    nominated_node: str = ""
    claims: ClaimPlan | None = None
    deallocates: ClaimRef | None = None
    unhelpful: Mapping[str, tuple[Reason, ...]] = {}


class Preemption(Rejection, frozen=True, kw_only=True):
    """No node will do, and one would without its ``victims``, the most important first.

    ``violations`` of them are covered by a disruption budget that allows no more disruptions.
    ``devices`` is what the pod would get. ``is_reclaim`` where the victims use what the pod's team
    is guaranteed.
    """

    victims: tuple[Pod, ...]
    violations: int = 0
    devices: Devices = Devices()
    is_reclaim: bool = False


Decision = Placement | PendingPlacement | Rejection | Preemption
