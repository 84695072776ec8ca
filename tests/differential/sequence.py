"""One sequence: the first state of a cluster, and the steps that change it and create pods.

The form is made for JSON lines of a few kilobytes: steps are arrays, pods come from workloads, and
defaults are left out. ``manifests`` turns it into objects of the API.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import msgspec

#: The priority classes whose pods preempt others.
PREEMPTING: Final = frozenset({"p5", "p50", "p500"})
#: The version of the form; a recording of another version is not read.
FORM: Final = 1


class NodeForm(msgspec.Struct, frozen=True, array_like=True):
    """A node; a taint reads ``key=value:Effect``. ``offers`` is its allocatable."""

    name: str
    labels: dict[str, str]
    offers: dict[str, str]
    taints: tuple[str, ...] = ()
    cordoned: bool = False


class Workload(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """A pod template; ``spec`` are further fields of the pod's spec.

    In ``spec`` the fields of affinities are called ``required`` and ``preferred`` without
    ``DuringSchedulingIgnoredDuringExecution``. ``templates`` are the specs of ResourceClaims that
    are created with each pod, by the names in ``spec.resourceClaims``.
    """

    namespace: str
    labels: dict[str, str] = {}
    requests: dict[str, str] = {}
    ports: tuple[dict[str, Any], ...] = ()
    priority: str = ""
    spec: dict[str, Any] = {}
    templates: dict[str, dict[str, Any]] = {}


class CreatePod(msgspec.Struct, frozen=True, array_like=True, tag="pod"):
    """A pod of the workload with this number is created and scheduled."""

    name: str
    workload: int


class PlacePod(msgspec.Struct, frozen=True, array_like=True, tag="place"):
    """A pod is created on a node by another scheduler, which does not look at the node."""

    name: str
    workload: int
    node: str


class DeletePod(msgspec.Struct, frozen=True, array_like=True, tag="delete"):
    """A placed pod is deleted; ``graceful``: it stays and terminates."""

    name: str
    graceful: bool = False


class EndPod(msgspec.Struct, frozen=True, array_like=True, tag="end"):
    """A placed pod ends: its phase is Succeeded."""

    name: str


class LabelPod(msgspec.Struct, frozen=True, array_like=True, tag="label"):
    """A placed pod gets other labels."""

    name: str
    labels: dict[str, str]


class SetNode(msgspec.Struct, frozen=True, array_like=True, tag="node"):
    """A node is created or changed."""

    node: NodeForm


class DeleteNode(msgspec.Struct, frozen=True, array_like=True, tag="no-node"):
    """A node is deleted; its pods stay."""

    name: str


class SetObject(msgspec.Struct, frozen=True, array_like=True, tag="object"):
    """An object of another watched kind, such as ``persistentvolumes``, is created or changed."""

    kind: str
    manifest: dict[str, Any]


class DeleteObject(msgspec.Struct, frozen=True, array_like=True, tag="no-object"):
    """Such an object is deleted; ``key`` is its name, or ``namespace/name``."""

    kind: str
    key: str


class AllocateClaim(msgspec.Struct, frozen=True, array_like=True, tag="claim"):
    """What kube-scheduler wrote into the status of a ResourceClaim.

    ``users`` are the names of the pods in ``reservedFor``. It is the effect of a pod's decision,
    and no step of a sequence.
    """

    key: str
    allocation: dict[str, Any] | None = None
    users: tuple[str, ...] = ()


class SetNamespace(msgspec.Struct, frozen=True, array_like=True, tag="namespace"):
    """A namespace gets other labels."""

    name: str
    labels: dict[str, str]


PodChange = DeletePod | EndPod | LabelPod
ObjectChange = SetNode | DeleteNode | SetNamespace | SetObject | DeleteObject
Step = CreatePod | PlacePod | PodChange | ObjectChange


class Sequence(msgspec.Struct, frozen=True, kw_only=True):
    """A whole sequence; ``kind`` names the generator and with ``seed`` its origin."""

    kind: str
    seed: int
    namespaces: dict[str, dict[str, str]]
    nodes: tuple[NodeForm, ...]
    objects: tuple[SetObject, ...] = ()
    workloads: tuple[Workload, ...]
    steps: tuple[Step, ...]

    @property
    def name(self) -> str:
        """How people name it."""
        return f"{self.kind} {self.seed}"

    @property
    def preempts(self) -> bool:
        """Whether a pod may preempt others."""
        return any(one.priority in PREEMPTING for one in self.workloads)

    def every_step(self) -> Iterator[Step]:
        """The first state as steps, then the steps."""
        yield from self.first_steps()
        yield from self.objects
        yield from self.steps

    def first_steps(self) -> Iterator[SetNamespace | SetNode]:
        """The namespaces and nodes, in any order."""
        for name, labels in self.namespaces.items():
            yield SetNamespace(name, labels)
        for node in self.nodes:
            yield SetNode(node)

    def until(self, last: Step) -> Sequence:
        """The sequence that ends with this step."""
        return msgspec.structs.replace(self, steps=self.steps[: self.steps.index(last) + 1])

    def without_unused(self) -> Sequence:
        """The sequence without the workloads that no step uses."""
        creating = (CreatePod, PlacePod)
        used = sorted({step.workload for step in self.steps if isinstance(step, creating)})
        steps = tuple(
            msgspec.structs.replace(step, workload=used.index(step.workload))
            if isinstance(step, creating)
            else step
            for step in self.steps
        )
        workloads = tuple(self.workloads[number] for number in used)
        return msgspec.structs.replace(self, steps=steps, workloads=workloads)
