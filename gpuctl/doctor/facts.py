"""The facts about a cluster, the input of the checks. Pure.

A fact that could not be read is an ``Unread`` with the reason, for example a missing right. The
other facts are not affected.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TypeAlias, TypeVar

import msgspec

T = TypeVar("T")


class Unread(msgspec.Struct, frozen=True):
    """A fact that could not be read, and the reason; ``lacks`` is the missing right of the user."""

    why: str
    lacks: str = ""


Known: TypeAlias = T | Unread


class Taint(msgspec.Struct, frozen=True):
    key: str
    effect: str
    value: str = ""

    def __str__(self) -> str:
        return f"{self.key}{'=' if self.value else ''}{self.value}:{self.effect}"


class Node(msgspec.Struct, frozen=True, kw_only=True):
    """``gpus`` is the count in its labels, ``offers`` its allocatable GPU resources.

    ``failed`` are the indexes of its annotation of failed GPUs, ``flaw`` why that is invalid.
    ``cloud_label`` is the label by which cluster-autoscaler expects GPUs, if the node has one.
    """

    name: str
    gpus: int = 0
    offers: dict[str, int] = {}
    capacity: dict[str, int] = {}
    taints: tuple[Taint, ...] = ()
    is_ready: bool = True
    is_cordoned: bool = False
    failed: tuple[int, ...] = ()
    flaw: str = ""
    cloud_label: str = ""


class Slice(msgspec.Struct, frozen=True):
    """The driver and the node of a ResourceSlice."""

    driver: str
    node: str


class Misnumbered(msgspec.Struct, frozen=True):
    """A node labelled index-assigned whose device plugin assigned other GPUs than were chosen."""

    node: str
    why: str


class Plugin(msgspec.Struct, frozen=True):
    """A device plugin's DaemonSet, and the nodes on which it has a pod."""

    name: str
    nodes: tuple[str, ...]


class Dra(msgspec.Struct, frozen=True):
    """Dynamic Resource Allocation; older API servers do not serve it."""

    is_served: bool
    slices: tuple[Slice, ...] = ()
    classes: tuple[str, ...] = ()


class Excess(msgspec.Struct, frozen=True):
    """A device, capacity or counter of which these ResourceClaims have more than there is.

    Of a capacity and a counter all claims on the pool are named that the sum may include.
    """

    what: str
    claims: tuple[str, ...]


class TaintRules(msgspec.Struct, frozen=True):
    """The version of the API in which DeviceTaintRules are served; empty where none is.

    ``unread`` are the rules that the scheduler does not read.
    """

    version: str
    unread: tuple[str, ...] = ()


class Leader(msgspec.Struct, frozen=True):
    """The Lease; without a holder no pod is scheduled.

    It was read ``read_after`` the instant of the facts; the holder renews it meanwhile.
    """

    holder: str
    renewed_at: datetime | None
    duration_s: int
    read_after: timedelta = timedelta()


class Clocks(msgspec.Struct, frozen=True):
    """The same instant on two clocks; the server's has a resolution of one second."""

    here: datetime
    server: datetime


class Certificate(msgspec.Struct, frozen=True, kw_only=True):
    """The webhook's serving certificate; ``is_trusted``: the registered authority issued it."""

    names: tuple[str, ...]
    begins: datetime
    ends: datetime
    is_trusted: bool


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """One webhook of the registration: ``target`` is a name that its certificate must have."""

    name: str
    target: str
    has_bundle: bool
    failure_policy: str = "Ignore"
    service: str = ""


class Webhook(msgspec.Struct, frozen=True, kw_only=True):
    """The registration; ``ready`` counts the Service's ready addresses, where it has a Service."""

    entries: tuple[Entry, ...] = ()
    ready: Known[int] = 0
    certificate: Known[Certificate] = Unread("not asked")


class Aggregated(msgspec.Struct, frozen=True, kw_only=True):
    """The APIService of the aggregated decisions API; ``target`` is its Service as a host name.

    ``reason`` and ``message`` are those of its condition ``Available``.
    """

    service: str
    target: str
    has_bundle: bool
    is_available: bool
    reason: str = ""
    message: str = ""
    certificate: Known[Certificate] = Unread("not asked")


class Mutation(msgspec.Struct, frozen=True):
    """The result of a dry-run creation; ``tolerates`` are the tolerations of the created pod."""

    is_mutated: bool
    took_s: float
    tolerates: tuple[str, ...] = ()
    error: str = ""


class Right(msgspec.Struct, frozen=True, kw_only=True):
    """One permission of an account."""

    verb: str
    resource: str
    group: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""

    def __str__(self) -> str:
        kind = f"{self.resource}/{self.subresource}" if self.subresource else self.resource
        where = f" in {self.namespace}" if self.namespace else ""
        return f"{self.verb} {kind}{'.' if self.group else ''}{self.group}{where}"


class Guard(msgspec.Struct, frozen=True):
    """A ValidatingAdmissionPolicy; it has no effect without a binding that denies."""

    name: str
    denies: bool


class Quota(msgspec.Struct, frozen=True):
    """The entry of a ResourceQuota for a GPU resource."""

    namespace: str
    name: str
    resource: str
    used: int
    hard: int


class Neighbour(msgspec.Struct, frozen=True):
    """Another scheduler, the number of its running pods with GPUs, and their nodes."""

    scheduler: str
    pods: int
    nodes: tuple[str, ...]


class Waiting(msgspec.Struct, frozen=True):
    """The pods of the scheduler without a node: their number by the code of the main reason, the
    most frequent first.
    """

    pods: int = 0
    oldest_s: float = 0.0
    codes: tuple[tuple[str, int], ...] = ()


class PodsSeen(msgspec.Struct, frozen=True, kw_only=True):
    """The pods of all namespaces; ``strangers`` are the scheduler's pods that another one bound."""

    count: int = 0
    strangers: tuple[str, ...] = ()
    neighbours: tuple[Neighbour, ...] = ()
    waiting: Waiting = Waiting()


class MemoryLimit(msgspec.Struct, frozen=True):
    """The memory limit of the scheduler's container; ``owner`` is its Deployment."""

    owner: str
    limit_bytes: int


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    """All facts; ``now`` is the server's clock if it is known."""

    now: datetime
    scheduler: str
    account: str
    namespace: str
    version: Known[tuple[int, int]]
    clocks: Known[Clocks]
    leader: Known[Leader | None]
    kinds: Known[tuple[str, ...]]
    #: The resources of admissionregistration.k8s.io/v1 and v1beta1.
    served: Known[frozenset[str]]
    policies: Known[tuple[Guard, ...]]
    refuses_forgery: Known[bool]
    nodes: Known[tuple[Node, ...]]
    plugins: Known[tuple[Plugin, ...]]
    dra: Known[Dra]
    taint_rules: Known[TaintRules]
    webhook: Known[Webhook | None]
    aggregated: Known[Aggregated | None] = None
    mutation: Known[Mutation]
    missing_rights: Known[tuple[Right, ...]]
    missing_for_moves: Known[tuple[Right, ...]]
    missing_for_preemption: Known[tuple[Right, ...]]
    schedulers: Known[tuple[str, ...]]
    quotas: Known[tuple[Quota, ...]]
    excesses: Known[tuple[Excess, ...]] = ()
    misnumbered: Known[tuple[Misnumbered, ...]] = ()
    pods: Known[PodsSeen] = PodsSeen()
    memory_limit: Known[MemoryLimit | None] = None
