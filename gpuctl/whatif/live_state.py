"""Reads the state that ``gpuctl whatif`` decides on: the leader's, else the API server's objects.

The leader's state has placements that are not written yet, nodes in backoff and the configuration.
Without the right to reach it, the objects that the user may list make up the state.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import msgspec

from gpuctl import cluster_access, snapshots
from gpuctl.api_lists import items_of
from gpuctl.cluster_access import Access
from gpuctl.input_error import NotReached
from gpuctl.simulate import dra_objects
from gpuctl.simulate.manifests import Document, without_nulls
from gpuctl.simulate.workload_expansion import PlannedPod
from gpuctl.whatif.budgets import Health, read_budgets
from gpuctl.whatif.recreated_pods import PLACE, read_planned
from scheduler import config as configuration
from scheduler.config import Config, ConfigError
from scheduler.model.pods.pod import Pod
from scheduler.model.timestamps import epoch, micro_time
from scheduler.state.cache.cluster import Cluster
from scheduler.state.fold import fold
from scheduler.state.queue.scheduling_queue import SchedulingQueue
from scheduler.state.reservations import Reservations
from scheduler.state.snapshot import ClusterSnapshot, take
from scheduler.watch import informers
from scheduler.watch.client import ApiError, Client, Unreachable
from scheduler.watch.reflector import WatchSource

LEADER, API = "leader", "api"
FORBIDDEN: Final = 403
NOT_FOUND: Final = 404
#: Kinds that only admission reads, so that the leader's state does not have them.
DOCUMENTS: Final = {
    "LimitRange": ("v1", "/api/v1/limitranges"),
    "PriorityClass": ("scheduling.k8s.io/v1", "/apis/scheduling.k8s.io/v1/priorityclasses"),
    dra_objects.TEMPLATE: (
        "resource.k8s.io/v1",
        "/apis/resource.k8s.io/v1/resourceclaimtemplates",
    ),
}


class LiveState(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a cluster, and how pods are created on it.

    ``documents`` are LimitRanges, PriorityClasses and ResourceClaimTemplates. ``recreated`` has the
    pod that its controller creates in place of a pod, by uid; ``health`` counts the ready pods of
    PodDisruptionBudgets. ``namespace`` is the user's own. ``notes`` say what is missing, one line
    each.
    """

    source: str
    time: str
    namespace: str
    config: Config
    state: ClusterSnapshot
    documents: tuple[Document, ...] = ()
    recreated: dict[str, PlannedPod] = {}
    health: dict[str, Health] = {}
    notes: tuple[str, ...] = ()

    @property
    def waiting(self) -> set[str]:
        """The pods without a node; one that starts and is preempted in the answer still waits."""
        placed = {one.pod.uid for one in self.state.assumed}
        return {pod.uid for pod in self.state.pods if not pod.node_name} - placed

    @property
    def now(self) -> float:
        """The time as Unix time."""
        return epoch(self.time) or 0.0


async def read_live(
    access: Access,
    server: str | None,
    namespace: str | None,
    emptied: Iterable[str],
    *,
    config: Path | None,
    forward: bool,
) -> LiveState:
    """The state; pods on the ``emptied`` nodes are read with their owners."""
    async with cluster_access.cluster(access) as client:
        notes: list[str] = []
        live = await _of_leader(access, client, server, notes, forward=forward)
        if live is None:
            live = await _of_api(access, client, notes)
        if config is not None:
            live = msgspec.structs.replace(live, config=configuration.load(config))
        elif live.source == API:
            live = msgspec.structs.replace(live, config=await _configured(access, client, notes))
        own = namespace or cluster_access.default_namespace(access)
        documents = await _documents(client, notes)
        leaving = pods_on(live.state, emptied)
        recreated = await read_planned(client, leaving)
        if leaving and (found := await read_budgets(client)) is not None:
            state = msgspec.structs.replace(live.state, budgets=found[0])
            live = msgspec.structs.replace(live, state=state, health=found[1])
    return msgspec.structs.replace(
        live,
        namespace=own,
        documents=tuple(documents),
        recreated=recreated,
        notes=tuple(notes),
    )


async def with_recreated(access: Access, live: LiveState, pods: Iterable[Pod]) -> LiveState:
    """The same state, with the pods that the controllers of these pods would create."""
    async with cluster_access.cluster(access) as client:
        more = await read_planned(client, pods)
    return msgspec.structs.replace(live, recreated={**live.recreated, **more})


def pods_on(state: ClusterSnapshot, nodes: Iterable[str]) -> list[Pod]:
    """The pods on these nodes, placements that are not written yet included."""
    names = {*nodes}
    placed = {one.pod.uid: one.node_name for one in state.assumed}
    return [pod for pod in state.pods if (pod.node_name or placed.get(pod.uid)) in names]


# --- the leader --------------------------------------------------------------------------------


async def _of_leader(
    access: Access, client: Client, server: str | None, notes: list[str], *, forward: bool
) -> LiveState | None:
    try:
        async with cluster_access.leader_url(access, client, server, forward=forward) as url:
            if url is None:
                return None
            taken = snapshots.decode(await snapshots.fetch(access, url, "gpuctl whatif"), url)
    except NotReached as error:
        if server is not None:
            raise
        notes.append(str(error))
        return None
    return LiveState(
        source=LEADER,
        time=taken.time,
        namespace="",
        config=msgspec.json.decode(taken.configuration, type=Config),
        state=taken.state,
    )


# --- the API server ----------------------------------------------------------------------------


async def _of_api(access: Access, client: Client, notes: list[str]) -> LiveState:
    needed = (informers.NODES, informers.PODS)
    others = (
        informers.NAMESPACES,
        informers.QUOTAS,
        *informers.STORAGE,
        *informers.DRA,
        informers.BUDGETS,
        informers.partition_objects(access.lease_namespace),
    )
    moment = datetime.now(UTC)
    listed = await asyncio.gather(
        *(items_of(client, one) for one in (*others, *needed)), return_exceptions=True
    )
    cluster = Cluster(maps_allow="all")
    missing: list[str] = []
    for source, items in zip((*others, *needed), listed, strict=True):
        if isinstance(items, ApiError) and source not in needed:
            missing += [source.kind] if items.status == FORBIDDEN else []
            continue
        if isinstance(items, ApiError):
            raise NotReached(_no_right(source, items)) from items
        if isinstance(items, BaseException):
            raise items
        fold(cluster, source.decode_list(items))
    if missing:
        notes.append(f"you may not list {', '.join(missing)}; they are taken for absent")
    state = take(cluster, SchedulingQueue(), Reservations(), 0, moment.timestamp())
    return LiveState(
        source=API, time=micro_time(moment), namespace="", config=Config(), state=state
    )


def _no_right(source: WatchSource[Any], error: ApiError) -> str:
    if error.status != FORBIDDEN:
        return error.message or str(error)
    return (
        f"you may not list {source.kind} of the whole cluster; whatif needs a ClusterRole with list"
        " on nodes and pods, or the right to reach the leader"
    )


async def _configured(access: Access, client: Client, notes: list[str]) -> Config:
    """The configuration of the chart's ConfigMap; the defaults, and a note, without it."""
    name = f"{access.lease_name}-config"
    path = f"/api/v1/namespaces/{access.lease_namespace}/configmaps/{name}"
    try:
        data = msgspec.json.decode(await client.request("GET", path))["data"]
        return configuration.parse(data["config.yaml"].encode())
    except (ApiError, Unreachable, ConfigError, msgspec.MsgspecError, LookupError, TypeError):
        notes.append(
            f"ConfigMap {access.lease_namespace}/{name} was not read, so defaults are assumed;"
            " pass --config FILE"
        )
        return Config()


async def _documents(client: Client, notes: list[str]) -> list[Document]:
    sources = [
        WatchSource[list[msgspec.Raw]](
            kind=kind, path=path, decode=lambda _, __: [], decode_list=lambda items: items
        )
        for kind, (_, path) in DOCUMENTS.items()
    ]
    listed = await asyncio.gather(
        *(items_of(client, one) for one in sources), return_exceptions=True
    )
    found: list[Document] = []
    missing: list[str] = []
    for (kind, (version, _)), items in zip(DOCUMENTS.items(), listed, strict=True):
        if isinstance(items, ApiError):
            missing += [kind] if items.status == FORBIDDEN else []
            continue
        if isinstance(items, BaseException):
            raise items
        for item in items:
            raw = without_nulls(msgspec.json.decode(item))
            found.append(Document(place=PLACE, raw={**raw, "kind": kind, "apiVersion": version}))
    if missing:
        notes.append(f"you may not list {', '.join(missing)}; they are taken for absent")
    return found
