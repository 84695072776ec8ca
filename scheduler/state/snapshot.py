"""The whole state as one value: everything that decisions read, in a serializable form.

Taking it copies references only (pods and nodes are frozen), so it is consistent however long the
writing takes. ``restore`` returns a cluster on which every decision has the same result, byte for
byte; a property test checks this.

Must never: contain fields of a pod or node beyond the model. The model has no environment but
CUDA_VISIBLE_DEVICES and no annotations but ours, so it contains no secrets.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from scheduler.model.admission import ResourceRewrite
from scheduler.model.crd.mig_partition import NodePartitions
from scheduler.model.disruption_budget import DisruptionBudget
from scheduler.model.dra.claim_plan import ClaimPlan
from scheduler.model.dra.objects import DraObject
from scheduler.model.gpu.device import Devices
from scheduler.model.node import Namespace, Node
from scheduler.model.pods.gang import GangSource, PodGroup
from scheduler.model.pods.pod import Pod
from scheduler.model.quota import Quota
from scheduler.model.teams.team import TeamTable
from scheduler.model.volumes.storage import StorageObject
from scheduler.model.volumes.volume_plan import VolumePlan
from scheduler.state.cache.cluster import Assumption, Cluster
from scheduler.state.cache.nominator import Reserved
from scheduler.state.queue.scheduling_queue import QueuedPodInfo, SchedulingQueue
from scheduler.state.reservations import Reservations

_EVERY_PRIORITY = -(2**63)


class Assumed(msgspec.Struct, frozen=True, kw_only=True):
    """A placement that the API server has not confirmed; ``pod`` as it was when placed."""

    pod: Pod
    node_name: str
    devices: Devices
    index: int | None = None
    volumes: VolumePlan | None = None
    claims: ClaimPlan | None = None


class Queued(msgspec.Struct, frozen=True, kw_only=True):
    """A pending pod. ``pod`` is the version that decisions read.

    Times are seconds on the clock of ``ClusterSnapshot.now``.
    """

    pod: Pod
    place: str
    since: float
    attempts: int = 0
    ready_at: float = 0.0
    unschedulable_since: float | None = msgspec.field(default=None, name="parked_at")
    causes: tuple[str, ...] = ()
    lacking: tuple[str, ...] = ()


class Avoided(msgspec.Struct, frozen=True, kw_only=True):
    """A node in backoff, with its scopes (``state/breakers/node_circuit_breaker``)."""

    node_name: str
    scopes: tuple[str, ...]


class GpusInBackoff(msgspec.Struct, frozen=True, kw_only=True):
    """GPUs of a node in backoff after a failed MIG partition request."""

    node_name: str
    gpus: tuple[int, ...]


class ReservedTier(msgspec.Struct, frozen=True, kw_only=True):
    """A reserved tier of a pod without a node."""

    id: str
    pod: Pod
    node_name: str
    made_at: float
    is_annotated: bool
    is_matched: bool = msgspec.field(name="is_met")
    rewrites: tuple[ResourceRewrite, ...] = ()


class ClusterSnapshot(msgspec.Struct, frozen=True, kw_only=True):
    """The state at one instant. ``generation`` counts the folded changes; ``held`` is the capacity
    that open migrations hold for their replacements, as nominated pods. ``nominated`` is the order
    in which all of them began to hold.

    ``settled`` are new nodes that do not wait for their MIG layout any more. ``preempting`` are
    preemptors whose victims are being deleted, ``deleting`` these victims by preemptor.
    ``exhausted`` are those that may not preempt more for now. ``withdrawn`` are pods that do not
    wait any more for the node in their status. ``reserved`` is the gang that reserves room.
    ``expected`` are the GPUs that nominated pods wait for, ``planned`` those of their claims.
    ``released`` are the claims that each preempted pod gives back. ``wall`` is the Unix time for
    the age of pods that teams may take back. ``groups`` are the objects that define gangs, by
    source, of the sources that the API server serves; ``pod_groups`` are those of scheduler-plugins
    in former recordings.
    """

    scheduler_name: str
    generation: int
    now: float
    maps_allow: str = "labelled"
    nodes: tuple[Node, ...] = ()
    namespaces: tuple[Namespace, ...] = ()
    pods: tuple[Pod, ...] = ()
    assumed: tuple[Assumed, ...] = ()
    label_keys: tuple[str, ...] = ()
    wide_keys: tuple[str, ...] = ()
    queue: tuple[Queued, ...] = ()
    reservations: tuple[ReservedTier, ...] = msgspec.field(default=(), name="promises")
    avoided: tuple[Avoided, ...] = ()
    held: tuple[Pod, ...] = ()
    nominated: tuple[str, ...] = ()
    partitions: tuple[NodePartitions, ...] = msgspec.field(default=(), name="cuts")
    gpus_in_backoff: tuple[GpusInBackoff, ...] = msgspec.field(default=(), name="resting")
    quotas: tuple[Quota, ...] = ()
    settled: tuple[str, ...] = ()
    budgets: tuple[DisruptionBudget, ...] = ()
    preempting: tuple[str, ...] = ()
    deleting: dict[str, tuple[str, ...]] = {}
    exhausted: tuple[str, ...] = ()
    withdrawn: tuple[str, ...] = ()
    reserved: Reserved | None = None
    expected: dict[str, Devices] = {}
    planned: dict[str, ClaimPlan] = {}
    storage: tuple[StorageObject, ...] = ()
    dra: tuple[DraObject, ...] = ()
    index_attributes: dict[str, str] = {}
    released: dict[str, tuple[str, ...]] = {}
    pod_groups: tuple[PodGroup, ...] | None = None
    groups: dict[str, tuple[PodGroup, ...]] = {}
    teams: TeamTable | None = None
    wall: float = 0.0


def take(
    cluster: Cluster,
    queue: SchedulingQueue,
    reservations: Reservations,
    generation: int,
    now: float,
) -> ClusterSnapshot:
    """The current state."""
    return ClusterSnapshot(
        scheduler_name=cluster.scheduler_name,
        generation=generation,
        now=now,
        maps_allow=cluster.namespaces.maps_allow,
        nodes=tuple(
            node_info.node for node_info in cluster.candidates() if node_info.node is not None
        ),
        namespaces=tuple(cluster.namespaces.known.values()),
        pods=tuple(cluster.pods.values()),
        assumed=tuple(_assumed(cluster, uid, held) for uid, held in cluster.assumed.items()),
        label_keys=cluster.index.keys,
        wide_keys=tuple(cluster.index.high_cardinality),
        queue=tuple(_queued(entry) for entry in queue.entries()),
        reservations=tuple(
            ReservedTier(
                id=one.id,
                pod=one.pod,
                node_name=one.node_name,
                made_at=one.made_at,
                is_annotated=one.is_annotated,
                is_matched=one.is_matched,
                rewrites=one.rewrites,
            )
            for one in reservations.holders(_EVERY_PRIORITY)
        ),
        avoided=tuple(_avoided(cluster)),
        partitions=tuple(cluster.nodes.partitions.known.values()),
        gpus_in_backoff=tuple(
            GpusInBackoff(node_name=name, gpus=tuple(sorted(gpus)))
            for name, gpus in cluster.nodes.partitions.gpus_in_backoff.items()
        ),
        quotas=tuple(cluster.quotas.every()),
        settled=tuple(
            node_info.node.name
            for node_info in cluster.candidates()
            if node_info.node and node_info.is_settled
        ),
        storage=tuple(cluster.volumes.every()),
        dra=tuple(cluster.dra.every()),
        index_attributes=dict(cluster.dra.index_attributes),
        released=dict(cluster.dra.releases.keys),
        held=tuple(pod for pod in cluster.nominated.values() if not _is_shown(cluster, pod)),
        nominated=tuple(cluster.nominated),
        budgets=tuple(cluster.preemptions.budgets.values()),
        preempting=tuple(cluster.preemptions.running),
        deleting={uid: tuple(sorted(of)) for uid, of in cluster.preemptions.running.items()},
        exhausted=tuple(sorted(cluster.preemptions.exhausted())),
        withdrawn=cluster.nominations.withdrawn(),
        reserved=cluster.nominations.reserved,
        expected=dict(cluster.nominations.expected),
        planned=dict(cluster.nominations.plans),
        groups=cluster.gangs.groups(),
        teams=cluster.teams.table,
        wall=cluster.teams.now if cluster.teams.table is not None else 0.0,
    )


def _avoided(cluster: Cluster) -> Iterator[Avoided]:
    for one in cluster.candidates():
        if one.avoided and one.node is not None:
            yield Avoided(node_name=one.node.name, scopes=tuple(sorted(one.avoided)))


def _restore_groups(cluster: Cluster, state: ClusterSnapshot) -> None:
    served = dict(state.groups)
    if state.pod_groups is not None:
        served[GangSource.COSCHEDULING.value] = state.pod_groups
    for source, groups in served.items():
        cluster.gangs.replace_groups(groups, is_served=True, source=source)


def restore(state: ClusterSnapshot) -> Cluster:
    """A cluster with the same decisions as the one of the snapshot."""
    cluster = Cluster(
        state.scheduler_name, state.maps_allow, index_attributes=state.index_attributes
    )
    cluster.replace_namespaces(state.namespaces)
    # In this order, which is the order of a rejection's reasons.
    for node in state.nodes:
        cluster.upsert_node(node)
    _restore_groups(cluster, state)
    for pod in state.pods:
        cluster.upsert_pod(pod)
    # The steps of a decision depend on the keys of the index.
    cluster.index.rebuild(state.label_keys, state.wide_keys, cluster.nodes.node_info)
    for item in state.storage:
        cluster.volumes.upsert(item)
    for dra_object in state.dra:
        cluster.dra.upsert(dra_object)
    cluster.dra.releases.keys.update(state.released)
    cluster.update_devices()
    for one in state.assumed:
        assumption = Assumption(one.node_name, one.devices, one.index, one.volumes, one.claims)
        cluster.assume(one.pod, assumption)
    for avoided_node in state.avoided:
        cluster.avoid(avoided_node.node_name, frozenset(avoided_node.scopes))
    for partitions in state.partitions:
        cluster.nodes.upsert_partitions(partitions)
    for in_backoff in state.gpus_in_backoff:
        cluster.nodes.set_gpu_backoff(in_backoff.node_name, frozenset(in_backoff.gpus))
    for name in state.settled:
        cluster.nodes.settle(name)
    cluster.quotas.replace(state.quotas)
    cluster.set_teams(state.teams)
    cluster.teams.now = state.wall
    _restore_preemption(cluster, state)
    return cluster


def _restore_preemption(cluster: Cluster, state: ClusterSnapshot) -> None:
    for uid in state.withdrawn:
        cluster.nominations.withdraw(uid)
    cluster.nominations.restore(state.held, state.nominated, state.expected, state.planned)
    cluster.nominations.reserved = state.reserved
    cluster.preemptions.replace_budgets(state.budgets)
    for uid in state.preempting:
        victims = state.deleting.get(uid, (uid,))  # former recordings have none
        cluster.preemptions.begin(uid, frozenset(victims), state.now)
    cluster.preemptions.exhaust(state.exhausted, state.now)


def _assumed(cluster: Cluster, uid: str, assumption: Assumption) -> Assumed:
    # Not the newest pod: its allocation was computed once, from the pod at that time.
    pod, _ = cluster.nodes.node_info[assumption.node_name].pods[uid]
    return Assumed(
        pod=pod,
        node_name=assumption.node_name,
        devices=assumption.devices,
        index=assumption.index,
        volumes=assumption.volumes,
        claims=_not_shown(cluster, uid, assumption.claims),
    )


def _not_shown(cluster: Cluster, uid: str, plan: ClaimPlan | None) -> ClaimPlan | None:
    """The plan without the new claim if that is among the objects already."""
    if plan is None or plan.extended is None or cluster.dra.is_creating_claim(uid):
        return plan
    return msgspec.structs.replace(plan, extended=None)


def _is_shown(cluster: Cluster, nominated: Pod) -> bool:
    """Whether the pod itself says which node it is nominated for."""
    pod = cluster.pods.get(nominated.uid)
    return pod is not None and pod.nominated_node == nominated.nominated_node


def _queued(entry: QueuedPodInfo) -> Queued:
    return Queued(
        pod=entry.pod,
        place=entry.place,
        since=entry.since,
        attempts=entry.attempts,
        ready_at=entry.ready_at,
        unschedulable_since=entry.unschedulable_since,
        causes=tuple(sorted(cause.name for cause in entry.causes)),
        lacking=tuple(sorted(entry.lacking)),
    )
