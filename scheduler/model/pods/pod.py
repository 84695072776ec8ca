"""A pod as the scheduler reads it: only the fields of decisions, in base units.

``watch/decode/pods.py`` decodes them from API objects, the simulator from files. A Pod is
immutable; a changed pod is a new value.
"""

from __future__ import annotations

import hashlib

import msgspec

from scheduler.model import well_known
from scheduler.model.cached import cached
from scheduler.model.gpu import gpu_memory as model_gpu_memory
from scheduler.model.gpu.allocated_devices import AllocatedDevice
from scheduler.model.limits import POD_DEVICES_MAX
from scheduler.model.pods.pod_affinity import NO_AFFINITY, PodAffinity, SpreadConstraint
from scheduler.model.pods.pod_index import IndexRule, index_of
from scheduler.model.pods.pod_parts import Condition, Container, HostPort, Owner, Role, Unread
from scheduler.model.pods.workload import workload_of
from scheduler.model.resources import NO_SCORE_EXTRA
from scheduler.model.selector import PreferredTerm, Term, Toleration
from scheduler.model.volumes.pod_volumes import NO_VOLUMES, PodVolumes

__all__ = [
    "Condition",
    "Container",
    "EquivalenceClass",
    "HostPort",
    "Owner",
    "Pod",
    "Role",
    "Unread",
]

#: Empty sets are not singletons, and there are many pods.
_NONE: frozenset[str] = frozenset()


class EquivalenceClass(msgspec.Struct, frozen=True, gc=False, cache_hash=True):
    """Everything that a pod without a map requires of a node; see ``Pod.equivalence_class``."""

    parts: tuple[object, ...]


class Pod(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """Identity, spec and state of one pod.

    ``requests`` are the effective requests in base units; ``score_extra`` is what scores add to
    those of cpu and memory. ``unsupported`` are field paths
    (see ``model/pods/pod_fields``). ``created`` is the API's timestamp text, which sorts as
    time. ``crashes`` counts restarts of containers whose last run failed. ``is_admitted`` is true
    once the kubelet has admitted the pod. ``has_claims`` is true if it gets devices by a
    ResourceClaim, its own or one that kube-scheduler created for an extended resource. ``group`` is
    the gang that it belongs to, for any scheduler. ``priority_class`` and ``has_deadline`` are read
    by scopes of ResourceQuotas. ``images`` are those of a pod without a node. ``unread`` describes
    undecodable fields. ``allocated`` are the GPUs in its status, empty if the status has none.
    ``started`` is ``status.startTime``, empty before it starts. ``is_preempted`` is true if its
    condition DisruptionTarget names preemption by a scheduler. ``never_preempts`` follows its
    preemptionPolicy.
    """

    uid: str
    name: str
    namespace: str
    created: str = ""
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    owner: Owner | None = None
    scheduler_name: str = "default-scheduler"
    node_name: str = ""
    nominated_node: str = ""
    phase: str = "Pending"
    is_deleting: bool = False
    gates: tuple[str, ...] = ()
    priority: int = 0
    priority_class: str = ""
    has_deadline: bool = False
    group: str = ""
    requests: dict[str, int] = {}
    score_extra: tuple[int, int] = NO_SCORE_EXTRA
    containers: tuple[Container, ...] = ()
    node_selector: dict[str, str] = {}
    required_terms: tuple[Term, ...] | None = None
    preferred_terms: tuple[PreferredTerm, ...] = ()
    affinity: PodAffinity = NO_AFFINITY
    spread: tuple[SpreadConstraint, ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    host_ports: tuple[HostPort, ...] = ()
    images: tuple[str, ...] = ()
    volumes: PodVolumes = NO_VOLUMES
    unsupported: tuple[str, ...] = ()
    required_features: tuple[str, ...] = ()
    condition: Condition = Condition()
    crashes: int = 0
    unread: Unread = Unread()
    is_admitted: bool = False
    has_claims: bool = False
    allocated: tuple[AllocatedDevice, ...] = ()
    started: str = ""
    is_preempted: bool = False
    never_preempts: bool = False

    @property
    def key(self) -> str:
        """``namespace/name``, for messages."""
        return f"{self.namespace}/{self.name}"

    @property
    def is_terminal(self) -> bool:
        """Whether the pod ended and holds nothing."""
        return self.phase in ("Succeeded", "Failed")

    @property
    def map_text(self) -> str | None:
        """The map's text, or None for a pod without a map."""
        return self.annotations.get(well_known.MAP)

    @cached
    def labels_key(self) -> tuple[tuple[str, str], ...]:
        """The labels as a value that can be a key."""
        return tuple(sorted(self.labels.items()))

    @cached
    def claims(self) -> tuple[str, ...]:
        """The keys of its PersistentVolumeClaims, those of ephemeral volumes too."""
        return tuple(f"{self.namespace}/{one.name}" for one in self.volumes.claims)

    @property
    def has_terms(self) -> bool:
        """Whether it says something about other pods near it."""
        return bool(self.spread) or self.affinity is not NO_AFFINITY

    @cached
    def is_plain(self) -> bool:
        """Whether it has none of the fields that whole plugins are about (Plugin.skips_plain)."""
        return (
            self.volumes is NO_VOLUMES
            and not self.host_ports
            and not self.required_features
            and not self.reads_devices
            and well_known.MAP not in self.annotations
            and well_known.WANTED_MEMORY not in self.annotations
            and well_known.GPU_MEMORY not in self.label_keys
        )

    @cached
    def gpu_requests(self) -> dict[str, int]:
        """The effective requests for GPUs and MIG instances that are above zero."""
        return {
            resource: count
            for resource, count in self.requests.items()
            if count > 0 and well_known.is_gpu_device(resource)
        }

    @property
    def problem(self) -> str:
        """The undecodable part of the pod, or the value beyond its limit (docs/limits.md); else
        empty.
        """
        if self.unread:
            return self.unread.text
        for resource, count in self.gpu_requests.items():
            if count > POD_DEVICES_MAX:
                return f"it requests {count} of {resource}; at most {POD_DEVICES_MAX} are read"
        return ""

    @cached
    def largest(self) -> dict[str, int]:
        """The largest request of one container, for GPU resources that several containers
        request.
        """
        if len(self.containers) < 2:
            return {}
        found: dict[str, int] = {}
        for one in self.containers:
            for resource, count in one.devices.items():
                found[resource] = max(count, found.get(resource, 0))
        return {one: count for one, count in found.items() if count != self.requests.get(one)}

    @property
    def lacks_request(self) -> bool:
        """Whether it has a GPU memory annotation that was not converted to a request."""
        return well_known.WANTED_MEMORY in self.annotations and not self.gpu_requests

    @property
    def is_degraded(self) -> bool:
        """Whether it carries a record of another tier than it has (``original_request``)."""
        return well_known.ORIGINAL in self.annotations and well_known.FALLBACK in self.annotations

    @cached
    def gpu_memory(self) -> dict[str, int]:
        """Minimum bytes of one device of each requested GPU resource, by its annotation."""
        if well_known.WANTED_MEMORY not in self.annotations:
            return {}
        devices = ((one.name, one.devices) for one in self.containers)
        return model_gpu_memory.by_resource(self.annotations, devices)

    @cached
    def reads_devices(self) -> frozenset[str]:
        """The annotations from which containers read their devices (downward API)."""
        keys = [one.cuda_key for one in self.containers if one.cuda_key is not None]
        return frozenset(keys) if keys else _NONE

    @cached
    def workload(self) -> str:
        """The workload of the pod: replicas of one workload are siblings.

        It is the object that the user created, as far as the pod shows it
        (``model/pods/workload``); a bare pod is its own workload. Always within a namespace, so
        that no pod can be a sibling in another namespace.
        """
        if self.owner is None:
            return f"{self.namespace}/Pod/{self.uid or self.name}"
        return f"{self.namespace}/{workload_of(self.owner, self.labels)}"

    def index(self, lines: int = 0) -> int | IndexRule:
        """Its index in a map with this number of lines, or the rule that replaces it."""
        return index_of(
            name=self.name,
            owner=self.owner,
            labels=self.labels,
            annotations=self.annotations,
            lines=lines,
        )

    @property
    def sharing(self) -> str:
        """Pods with the same value may share a device if their own map lines say so.

        The workload; for bare pods the namespace and the map's text (design 5.2).
        """
        if self.owner is None:
            return f"{self.namespace}/map/{self.map_text}"
        return self.workload

    @property
    def revision(self) -> str:
        """The template's revision as its controller labels it, or an empty text."""
        labels = self.labels
        return (
            labels.get(well_known.POD_TEMPLATE_HASH) or labels.get("controller-revision-hash") or ""
        )

    @cached
    def constraints(self) -> tuple[object, ...]:
        """The pod's constraints on a node's labels and taints; equal ones match the same nodes."""
        return (
            tuple(sorted(self.node_selector.items())),
            self.required_terms,
            self.preferred_terms,
            self.tolerations,
        )

    @cached
    def equivalence_class(self) -> EquivalenceClass:
        """Pods without a map and with an equal class get the same result from every filter.

        A decision about such a pod must not read anything else.
        """
        parts: tuple[object, ...] = (
            tuple(sorted(self.requests.items())),
            self.constraints,
            self.host_ports,
            self.unsupported,
            self.required_features,
            self.lacks_request,
        )
        # Most pods have none of these.
        if self.reads_devices:
            requesting = sum(1 for one in self.containers if one.devices.get(well_known.GPU))
            mode = self.annotations.get(well_known.CUDA_MODE)
            parts += (("reads", tuple(sorted(self.reads_devices)), mode, requesting),)
        if self.score_extra != NO_SCORE_EXTRA:
            parts += (("score_extra", *self.score_extra),)
        if self.unread:
            parts += (self.unread,)
        if len(self.containers) > 1 and self.largest:
            parts += (("largest", *sorted(self.largest.items())),)
        if not self.is_plain and self.gpu_memory:
            parts += (("memory", *sorted(self.gpu_memory.items())),)
        return EquivalenceClass(parts)

    @cached
    def replica_class(self) -> EquivalenceClass:
        """Interchangeable mapped pods with an equal replica class get the same result for a map.

        A decision about a mapped pod reads only this and the equivalence class.
        """
        environment = tuple((one.name, one.cuda_literal, one.cuda_key) for one in self.containers)
        gpus = tuple(one.devices.get(well_known.GPU, 0) for one in self.containers)
        mode = self.annotations.get(well_known.CUDA_MODE)
        return EquivalenceClass(
            (
                self.workload,
                self.map_text,
                self.revision,
                self.equivalence_class,
                environment,
                gpus,
                mode,
            )
        )

    @cached
    def class_id(self) -> str:
        """The equivalence class as a short text, for serialization."""
        content = msgspec.json.encode(self.equivalence_class)
        return "kind/" + hashlib.blake2b(content, digest_size=8).hexdigest()

    @property
    def node_terms(self) -> tuple[Term, ...]:
        """The terms of its node affinity, required and preferred; most pods have none."""
        if not self.required_terms and not self.preferred_terms:
            return ()
        return (*(self.required_terms or ()), *(one.preference for one in self.preferred_terms))

    @cached
    def label_keys(self) -> frozenset[str]:
        """The node labels that the pod's selector and affinity name."""
        terms = self.node_terms
        keys = {requirement.key for term in terms for requirement in term.match_expressions}
        return frozenset(keys | self.node_selector.keys()) or _NONE

    @cached
    def label_steps(self) -> int:
        """The steps of a comparison of the pod with a node's labels and taints.

        One for each requirement and each term; values and tolerations are compared faster.
        """
        terms = self.node_terms
        steps = 1 + len(self.node_selector) + len(self.tolerations) // 4 + len(terms)
        for term in terms:
            for requirement in (*term.match_expressions, *term.match_fields):
                steps += 1 + len(requirement.values) // 16
        return steps

    @property
    def node_steps(self) -> int:
        """The steps of a comparison of the pod with the free resources and volumes of a node, and
        with the pods in its domains.
        """
        steps = 1 + len(self.host_ports)
        if self.volumes is not NO_VOLUMES:
            steps += len(self.volumes)
        if self.spread or self.affinity is not NO_AFFINITY:
            steps += self.term_count
        return steps

    @property
    def term_count(self) -> int:
        """The number of terms about other pods, and of spread constraints."""
        return len(self.affinity.terms()) + len(self.spread)

    @property
    def names_nodes(self) -> bool:
        """Whether a term selects nodes by name instead of by labels."""
        terms = self.node_terms
        return bool(terms) and any(term.match_fields for term in terms)

    def waits_for(self, scheduler_name: str) -> bool:
        """Whether this scheduler has to schedule the pod now
        (``pkg/scheduler/eventhandlers.go``).
        """
        return (
            self.scheduler_name == scheduler_name
            and not self.node_name
            and not self.is_terminal
            and not self.is_deleting
            and not self.gates
        )

    def decision_inputs(self) -> tuple[object, ...]:
        """Everything that a decision reads; with equal values a retry has the same result.

        Own status patches do not change it; otherwise they would requeue the pod forever.
        """
        return (
            self.owner,
            self.labels,
            self.annotations,
            self.gates,
            self.priority,
            self.requests,
            self.score_extra,
            self.containers,
            self.node_selector,
            self.required_terms,
            self.preferred_terms,
            self.affinity,
            self.spread,
            self.tolerations,
            self.volumes,
            self.unsupported,
            self.required_features,
            self.images,
            self.unread,
        )
