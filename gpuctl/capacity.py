"""The devices of the cluster, for ``top`` and ``free``: from the leader, else from the API server.

The leader's state has everything, also placements that are not written yet. Without the right to
reach it, the same sums are made here from the objects that the user may list; without the right to
list nodes, from the pods of one namespace.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Final, Generic, TypeVar

import msgspec

from gpuctl import cluster_access, targets
from gpuctl.api_lists import items_of
from gpuctl.cluster_access import Access
from gpuctl.input_error import NotReached
from gpuctl.our_scheduler import our_scheduler
from scheduler.model.pods.pod import Pod
from scheduler.model.quota import Quota
from scheduler.model.timestamps import epoch, micro_time
from scheduler.report.decisions.api_types import API_VERSION, Capacity
from scheduler.report.decisions.capacity import CapacityReport
from scheduler.state.cache.cluster import Cluster
from scheduler.state.capacity.node_devices import Holder, NodeDevices, requested_by
from scheduler.state.capacity.summary import CapacitySummary, WaitingPod
from scheduler.state.event import QuotasReplaced
from scheduler.state.fold import fold
from scheduler.state.parts import finish
from scheduler.state.queue.scheduling_queue import SchedulingQueue
from scheduler.watch import informers
from scheduler.watch.client import TIMEOUT_S, ApiError, Client

_NOT_COUNTED: Final = "you may not list {}; they are not counted"
FORBIDDEN: Final = 403
NOT_FOUND: Final = 404
LEADER, API, NAMESPACE = "leader", "api", "namespace"


class CapacityAnswer(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The devices and where they were read: ``leader``, ``api`` (objects that the user may list)
    or ``namespace`` (the pods of one namespace).

    ``namespace`` is the user's own. ``notes`` say what is missing, one line each.
    """

    source: str
    namespace: str
    notes: tuple[str, ...] = ()
    capacity: Capacity


async def read_capacity(
    access: Access, server: str | None, namespace: str | None, *, detail: str, forward: bool
) -> CapacityAnswer:
    """The devices; ``detail`` is ``nodes=1``, ``holders=1`` or empty."""

    async def of_api(client: Client) -> tuple[Capacity, list[str]]:
        return await _of_api(access, client, detail)

    async def of_namespace(client: Client, own: str) -> tuple[Capacity, list[str]]:
        return await _of_namespace(client, own, (await our_scheduler(client, access)).name)

    asks = Asks(lambda url: _of_leader(url, detail), of_api, of_namespace)
    found = await first_allowed(access, server, namespace, asks, forward=forward)
    return _answer(found.source, found.namespace, found.answer, *found.notes)


Answer = TypeVar("Answer")


class Asks(Generic[Answer]):
    """How the three sources are asked: the leader by its URL, then the API server for everything,
    then for one namespace, both with what is missing. ApiError: the user has not the rights.
    """

    def __init__(
        self,
        leader: Callable[[str], Awaitable[Answer]],
        api: Callable[[Client], Awaitable[tuple[Answer, list[str]]]],
        namespace: Callable[[Client, str], Awaitable[tuple[Answer, list[str]]]],
    ) -> None:
        self.leader = leader
        self.api = api
        self.namespace = namespace


class Found(Generic[Answer]):
    """An answer, its source, the user's namespace, and what is missing."""

    def __init__(self, source: str, namespace: str, answer: Answer, *notes: str) -> None:
        self.source = source
        self.namespace = namespace
        self.answer = answer
        self.notes = notes


async def first_allowed(
    access: Access, server: str | None, namespace: str | None, asks: Asks[Answer], *, forward: bool
) -> Found[Answer]:
    """The answer of the first source that the user's rights allow."""
    if server is not None and namespace is not None:
        return Found(LEADER, namespace, await asks.leader(server))
    try:
        async with cluster_access.cluster(access) as client:
            own = namespace or cluster_access.default_namespace(access)
            return await _first(access, client, server, own, asks, forward=forward)
    except NotReached:
        if server is None:
            raise
        return Found(LEADER, "default", await asks.leader(server))


async def _first(
    access: Access,
    client: Client,
    server: str | None,
    own: str,
    asks: Asks[Answer],
    *,
    forward: bool,
) -> Found[Answer]:
    notes: list[str] = []
    try:
        async with cluster_access.leader_url(access, client, server, forward=forward) as url:
            if url is not None:
                return Found(LEADER, own, await asks.leader(url))
    except NotReached as error:
        if server is not None:
            raise
        notes.append(str(error))
    try:
        answer, missing = await asks.api(client)
        note = "from the objects that you may list, without the leader (an admin can pass --server)"
        return Found(API, own, answer, *notes, note, *missing)
    except ApiError as error:
        if error.status != FORBIDDEN:
            raise
    try:
        answer, missing = await asks.namespace(client, own)
    except ApiError as error:
        raise targets.not_listed(error) from error
    note = f"only namespace {own}: you may not list nodes and all pods (a ClusterRole with both)"
    return Found(NAMESPACE, own, answer, *notes, note, *missing)


def _answer(source: str, own: str, capacity: Capacity, *notes: str) -> CapacityAnswer:
    more = () if capacity.leads else ("this replica is not the leader; it may lag behind",)
    return CapacityAnswer(source=source, namespace=own, notes=(*notes, *more), capacity=capacity)


async def _of_leader(url: str, detail: str) -> Capacity:
    params = dict([detail.split("=")]) if detail else {}
    return await of_leader(url, "/capacity", params, Capacity)


async def of_leader(url: str, path: str, params: Mapping[str, str], kind: type[Answer]) -> Answer:
    """An answer of the decisions API at this URL."""
    async with cluster_access.server(url) as client:
        content = await cluster_access.ask(client, path, params, TIMEOUT_S)
    try:
        return msgspec.json.decode(content, type=kind)
    except msgspec.MsgspecError as error:
        raise NotReached(f"{url} is no decisions API that gpuctl understands: {error}") from error


# --- from the API server ----------------------------------------------------------------------


class ListedState:
    """What the sums need of a scheduler's state."""

    def __init__(self, scheduler_name: str) -> None:
        self.cluster = Cluster(scheduler_name, maps_allow="all")
        self.queue = SchedulingQueue()


async def _of_api(access: Access, client: Client, detail: str) -> tuple[Capacity, list[str]]:
    """The sums of all objects that may be listed; ApiError if these are not nodes and pods."""
    state, missing = await list_state(access, client)
    now = time.time()
    report = CapacityReport(state, lambda: True, lambda: now, lambda: datetime.now(UTC))
    with_holders = detail == "holders=1"
    capacity = finish(report.take(with_nodes=bool(detail), with_holders=with_holders))
    return capacity, missing


async def list_state(access: Access, client: Client) -> tuple[ListedState, list[str]]:
    """The state of all objects that may be listed; ApiError if these are not nodes and pods."""
    state, missing = ListedState((await our_scheduler(client, access)).name), []
    needed = (informers.NODES, informers.PODS)
    others = (
        informers.QUOTAS,
        *informers.DRA,
        informers.partition_objects(access.lease_namespace),
    )
    listed = await asyncio.gather(
        *(items_of(client, one) for one in (*needed, *others)), return_exceptions=True
    )
    # Devices and claims first: pods and nodes are then counted once.
    for source, items in sorted(
        zip((*needed, *others), listed, strict=True), key=lambda pair: pair[0] in needed
    ):
        if isinstance(items, ApiError) and source not in needed:
            if items.status == FORBIDDEN:
                missing.append(_NOT_COUNTED.format(source.kind))
            continue
        if isinstance(items, BaseException):
            raise items
        fold(state.cluster, source.decode_list(items))
    now = time.time()
    for pod in state.cluster.pods.values():
        if pod.waits_for(state.cluster.scheduler_name):
            state.queue.add(pod, _since(pod, now))
    return state, missing


def _since(pod: Pod, now: float) -> float:
    since = epoch(pod.created)
    return now if since is None else min(since, now)


# --- from one namespace -----------------------------------------------------------------------


async def _of_namespace(
    client: Client, namespace: str, scheduler_name: str
) -> tuple[Capacity, list[str]]:
    """What the pods of a namespace request, and its quotas; ApiError without the right to list."""
    pods = await targets.read_pods(client, namespace)
    now = time.time()
    summary = CapacitySummary()
    waiting: list[WaitingPod] = []
    holders: dict[str, list[Holder]] = {}
    for pod in pods:
        amounts = requested_by(pod)
        if amounts and pod.node_name and not pod.is_terminal:
            summary.add_holder(namespace, amounts)
            one = Holder(namespace=namespace, pod=pod.name, devices=amounts)
            holders.setdefault(pod.node_name, []).append(one)
        elif amounts and pod.waits_for(scheduler_name):
            waits_s = round(now - _since(pod, now), 3)
            entry = WaitingPod(
                namespace=namespace,
                pod=pod.name,
                devices=amounts,
                waits_s=waits_s,
                priority=pod.priority,
            )
            summary.add_waiting(namespace, amounts, waits_s)
            waiting.append(entry)
    quotas, missing = await _quotas(client, namespace)
    capacity = Capacity(
        api_version=API_VERSION,
        leads=True,
        time=micro_time(datetime.now(UTC)),
        nodes_total=0,
        namespaces=summary.namespaces(quotas),
        nodes=tuple(
            NodeDevices(node=name, holders=tuple(found)) for name, found in sorted(holders.items())
        ),
        waiting=tuple(waiting),
    )
    return capacity, missing


async def _quotas(client: Client, namespace: str) -> tuple[Sequence[Quota], list[str]]:
    path = f"/api/v1/namespaces/{namespace}/resourcequotas"
    source = msgspec.structs.replace(informers.QUOTAS, path=path)
    try:
        listed = source.decode_list(await items_of(client, source))
    except ApiError as error:
        if error.status != FORBIDDEN:
            raise
        return (), [_NOT_COUNTED.format(source.kind)]
    return listed.quotas if isinstance(listed, QuotasReplaced) else (), []
