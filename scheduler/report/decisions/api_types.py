"""The response types of the decisions API and of the journal's file.

``gpuctl``, the dashboard and scripts read these, so they are a contract (docs/explanations.md):
fields are added, never renamed.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from scheduler.decide.explain import Meaning, Outcome
from scheduler.decide.remedy.outlook import Outlook
from scheduler.decide.score_breakdown import Ranking
from scheduler.framework.settings import Settings
from scheduler.state.capacity.node_devices import NodeDevices
from scheduler.state.capacity.summary import ModelCapacity, NamespaceCapacity, WaitingPod
from scheduler.state.snapshot import ClusterSnapshot

API_VERSION = "gpu-scheduler.io/v1"
#: The version of the snapshot: it changes when the meaning of a field changes.
SNAPSHOT_VERSION = 1


class _Shape(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """Encoded without empty fields."""


class _Answer(_Shape, frozen=True, kw_only=True, tag_field="kind"):
    """A whole response: it has its version, and its name as ``kind``."""

    api_version: str


class Decided(_Shape, frozen=True, kw_only=True):
    """One decision of the journal.

    ``generation`` counts the folded changes; ``end`` is the result of the Binding and ``problem``
    the API server's message. ``detail_dropped``: the decision is old, and only its message is left.
    """

    id: str
    time: str
    namespace: str
    pod: str
    uid: str
    attempt: int
    generation: int
    outcome: Outcome
    ranking: Ranking | None = None
    fallback: str = ""
    end: str = ""
    problem: str = ""
    detail_dropped: bool = False


class Tier(_Shape, frozen=True, kw_only=True):
    """A tier that was tried at admission and was not free."""

    tier: str
    message: str


class Admitted(_Shape, frozen=True, kw_only=True):
    """The result of a pod's admission: ``kept``, ``degraded``, ``pending``, ``denied`` or
    ``quota_exceeded``.
    """

    time: str
    result: str
    asked: str
    granted: str = ""
    tried: tuple[Tier, ...] = ()


class Ahead(_Shape, frozen=True, kw_only=True):
    """A pod that is before another one in the queue; ``asks`` are its GPU requests."""

    namespace: str
    pod: str
    priority: int = 0
    asks: Mapping[str, int] = {}


class Waiting(_Shape, frozen=True, kw_only=True):
    """A pod's place in the queue: ``active``, ``backoff`` or ``unschedulable``.

    ``position`` is from 1 to ``of``, by priority and age; ``before`` are the pods just before it,
    the nearest first.
    """

    place: str
    attempts: int
    waits_s: float
    next_try_s: float | None = None
    woken_by: tuple[str, ...] = ()
    position: int = 0
    of: int = 0
    before: tuple[Ahead, ...] = ()


class PodAnswer(_Answer, frozen=True, kw_only=True, tag="PodDecisions"):
    """``GET /decisions/NAMESPACE/POD``.

    ``now`` is a decision on the current state, made for this response only, and ``outlook`` what a
    rejected pod can expect by it; ``decisions`` are the journal's, newest first. ``codes`` has the
    meaning of the codes.
    """

    namespace: str
    pod: str
    leads: bool
    waiting: Waiting | None = None
    now: Outcome | None = None
    outlook: Outlook | None = None
    decisions: tuple[Decided, ...] = ()
    admission: Admitted | None = None
    codes: Mapping[str, Meaning] = {}


class Latest(_Answer, frozen=True, kw_only=True, tag="Decisions"):
    """``GET /decisions``: the newest ones, newest first.

    ``kept`` is the number of stored decisions, ``awaited`` the number of snapshots that wait for a
    next one.
    """

    leads: bool
    kept: int
    awaited: int = 0
    decisions: tuple[Decided, ...] = ()


class Leader(_Answer, frozen=True, kw_only=True, tag="Leader"):
    """``GET /leader``: whether this process is the leader, its identity, and its term.

    ``scheduler`` is the schedulerName of its pods.
    """

    identity: str
    leads: bool
    epoch: int | None = None
    scheduler: str = ""


class Capacity(_Answer, frozen=True, kw_only=True, tag="Capacity"):
    """``GET /capacity``: the devices of the cluster, by model and by namespace.

    ``nodes`` is empty unless ``?nodes=1`` asks for it; their holders need ``?holders=1``.
    ``waiting`` has the waiting pods in the order of priority and age. ``nodes_left_out`` and
    ``waiting_left_out`` count what was too much for the answer; the sums have it.
    """

    leads: bool
    time: str
    nodes_total: int
    models: tuple[ModelCapacity, ...] = ()
    namespaces: tuple[NamespaceCapacity, ...] = ()
    nodes: tuple[NodeDevices, ...] = ()
    nodes_left_out: int = 0
    waiting: tuple[WaitingPod, ...] = ()
    waiting_left_out: int = 0


class GpuBill(_Shape, frozen=True, kw_only=True):
    """The GPUs of one model and price, of the cluster or of a node: ``gpus`` are billed.

    ``held`` and the idle parts add up to ``gpus``. These and ``price``, of one GPU per hour, are
    exact: a whole number, or a fraction such as ``4/7``. Without a price it is empty.
    """

    model: str
    price: str = ""
    node: str = ""
    gpus: int = 0
    held: str = "0"
    free: str = "0"
    stranded: str = "0"
    failed: str = "0"
    unavailable: str = "0"


class GpuShare(_Shape, frozen=True, kw_only=True):
    """What the pods of a namespace, or one pod, hold of the GPUs of one model and price.

    ``degraded`` is the part of ``gpus`` at a smaller tier than requested, and ``saved`` what these
    pods would hold more with the requested one. The seconds are GPU seconds since the pods started.
    ``label`` is the value of the label that the question names.
    """

    namespace: str
    model: str
    price: str = ""
    pod: str = ""
    node: str = ""
    label: str = ""
    pods: int = 0
    gpus: str = "0"
    degraded: str = "0"
    saved: str = "0"
    gpu_seconds: str = "0"
    degraded_seconds: str = "0"
    saved_seconds: str = "0"


class Cost(_Answer, frozen=True, kw_only=True, tag="Cost"):
    """``GET /cost``: who holds which part of the GPUs now, and the prices.

    ``nodes`` and ``pods`` are empty unless ``?nodes=1`` and ``?pods=1`` ask for them. A claim with
    devices that no pod uses is an entry without a pod. ``problem`` is that of the price table.
    """

    leads: bool
    time: str
    currency: str = ""
    problem: str = ""
    nodes_total: int = 0
    models: tuple[GpuBill, ...] = ()
    namespaces: tuple[GpuShare, ...] = ()
    nodes: tuple[GpuBill, ...] = ()
    pods: tuple[GpuShare, ...] = ()


class Pending(_Shape, frozen=True, kw_only=True):
    """A pending pod and a decision about it on exactly the snapshot's state."""

    namespace: str
    pod: str
    uid: str
    outcome: Outcome


class Snapshot(_Answer, frozen=True, kw_only=True, tag="Snapshot"):
    """``GET /snapshot``: the whole state at one instant.

    ``pending`` are decisions on this state, which replay must reproduce. ``caught`` is the id of
    the awaited decision, if there was one. ``left_out`` counts waiting pods that were not decided
    for lack of time.
    """

    version: int
    program: str
    time: str
    settings: Settings = msgspec.field(name="profile")
    configuration: msgspec.Raw
    state: ClusterSnapshot
    pending: tuple[Pending, ...] = ()
    left_out: int = 0
    caught: str = ""
    decisions: tuple[Decided, ...] = ()
