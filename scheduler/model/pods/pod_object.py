"""The fields of a pod that the scheduler reads, in base units, and what follows from them.

``watch/decode/pods.py`` decodes them from API objects, the simulator from files. A pod is
immutable; a changed pod is a new value. ``pod.py`` adds what decisions compare of it.
"""

from __future__ import annotations

import msgspec

from scheduler.model import well_known
from scheduler.model.cached import cached
from scheduler.model.dra.pod_claims import NO_CLAIMS, PodClaims
from scheduler.model.gpu import gpu_memory as model_gpu_memory
from scheduler.model.gpu.allocated_devices import AllocatedDevice
from scheduler.model.limits import POD_DEVICES_MAX
from scheduler.model.pods.gang import GangMark, gang_mark, gang_problem
from scheduler.model.pods.pod_affinity import NO_AFFINITY, PodAffinity, SpreadConstraint
from scheduler.model.pods.pod_index import IndexRule, index_of
from scheduler.model.pods.pod_parts import Condition, Container, HostPort, Owner, Unread
from scheduler.model.pods.workload import workload_of
from scheduler.model.resources import NO_SCORE_EXTRA
from scheduler.model.selector import PreferredTerm, Term, Toleration
from scheduler.model.topology.request import TopologyRequest, topology_request
from scheduler.model.volumes.pod_volumes import NO_VOLUMES, PodVolumes

#: Empty sets are not singletons, and there are many pods.
_NONE: frozenset[str] = frozenset()


class PodObject(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """Identity, spec and state of one pod.

    ``requests`` are the effective requests in base units; ``score_extra`` is what scores add to
    those of cpu and memory. ``unsupported`` are field paths (``model/pods/pod_fields``).
    ``created`` is the API's timestamp text, which sorts as time. ``crashes`` counts restarts of
    containers whose last run failed. ``is_admitted`` is true once the kubelet has admitted the pod.
    ``group`` is the group that it belongs to, for any scheduler; ``scheduling_group`` the PodGroup
    that its spec names. Scopes of ResourceQuotas read
    ``priority_class`` and ``has_deadline``. ``images`` are those of a pod without a node.
    ``unread`` describes undecodable fields. ``allocated`` are the GPUs in its status, empty if the
    status has none. ``started`` is ``status.startTime``, empty before it starts. ``is_preempted``
    is true if its condition DisruptionTarget names preemption by a scheduler. ``never_preempts``
    follows its preemptionPolicy. ``active_deadline_s`` is the longest time that it may run.
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
    active_deadline_s: int | None = None
    group: str = ""
    scheduling_group: str = ""
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
    resource_claims: PodClaims = NO_CLAIMS
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

    @cached
    def gang(self) -> GangMark | None:
        """What it says about its gang; pods without a ``group`` are not asked."""
        return gang_mark(self.namespace, self.labels, self.annotations, self.scheduling_group)

    @property
    def has_deadline(self) -> bool:
        """Whether its run time is limited."""
        return self.active_deadline_s is not None

    @cached
    def topology(self) -> TopologyRequest | None:
        """The level of the topology within which its group stays; most pods have none."""
        return topology_request(self.annotations)

    @property
    def family(self) -> str:
        """The pods that stay near each other: its group, else the pods of its workload."""
        return f"{self.namespace}/group/{self.group}" if self.group else self.workload

    @property
    def has_terms(self) -> bool:
        """Whether it says something about other pods near it."""
        return bool(self.spread) or self.affinity is not NO_AFFINITY

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
        if self.group and (problem := gang_problem(self.labels, self.annotations)):
            return problem
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

    @property
    def memory_floor(self) -> int:
        """Minimum bytes of every tier, by its annotation; an invalid one is ignored."""
        if well_known.MEMORY_FLOOR not in self.annotations:
            return 0
        try:
            return model_gpu_memory.floor_of(self.annotations)
        except model_gpu_memory.GpuMemoryError:
            return 0

    @cached
    def reads_devices(self) -> frozenset[str]:
        """The annotations from which containers read their devices (downward API)."""
        keys = _NONE
        for one in self.containers:
            if one.cuda_key is not None:
                keys |= {one.cuda_key}
        return keys

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
        get = self.labels.get
        return next(filter(None, map(get, well_known.REVISIONS)), "")

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
