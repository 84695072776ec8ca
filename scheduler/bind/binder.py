"""Sends Bindings and determines their results.

The Binding carries the pod's uid as a precondition, so a new pod of the same name is never bound.
It also carries our annotations, which the API server merges into the pod in the same write as the
node name: the only race-free way to publish the devices. Responses are read raw: the API returns a
Status, which typed clients cannot decode.
"""

from __future__ import annotations

import asyncio

import msgspec

from scheduler.framework.decision import Placement
from scheduler.model import well_known
from scheduler.model.gpu.device import format_devices
from scheduler.model.json_bounds import UNREADABLE
from scheduler.model.lease import LeaderTerm
from scheduler.state.event import BindEnded, BindOutcome
from scheduler.watch.client import ApiError, Client, Unreachable
from scheduler.watch.inbox import Inbox

IN_FLIGHT_MAX = 64
TRIES = 4
PAUSE_FIRST_S = 0.05
PAUSE_FACTOR = 5
PAUSE_MAX_S = 5.0


class _Spec(msgspec.Struct, rename="camel"):
    node_name: str = ""


class _PodMetadata(msgspec.Struct, rename="camel"):
    uid: str = ""
    deletion_timestamp: str | None = None


class _BoundPod(msgspec.Struct):
    metadata: _PodMetadata
    spec: _Spec


class Binder:
    """Binds placements, at most ``IN_FLIGHT_MAX`` at a time; results go to the inbox.

    ``idle`` is set while no Binding is in flight: less urgent requests wait for it.
    """

    def __init__(
        self,
        client: Client,
        inbox: Inbox,
        term: LeaderTerm,
        idle: asyncio.Event,
        pause_first_s: float = PAUSE_FIRST_S,
    ) -> None:
        self._client = client
        self._inbox = inbox
        self._term = term
        self._pause_first_s = pause_first_s
        self._slots = asyncio.Semaphore(IN_FLIGHT_MAX)
        self._tasks: set[asyncio.Task[None]] = set()
        self._idle = idle
        idle.set()

    def start(self, placement: Placement, decision_id: str) -> None:
        """Send the Binding in the background; its result arrives as an event."""
        body = encode_binding(placement, decision_id, self._term.epoch)
        task = asyncio.create_task(self._bind(placement, body), name=f"bind {placement.pod.key}")
        self._tasks.add(task)
        self._idle.clear()
        task.add_done_callback(self._done)

    async def drain(self, timeout_s: float) -> None:
        """Wait for the Bindings in flight, as long as the timeout allows."""
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=timeout_s)

    @property
    def in_flight(self) -> int:
        """Number of Bindings without a response yet."""
        return len(self._tasks)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not self._tasks:
            self._idle.set()

    async def _bind(self, placement: Placement, body: bytes) -> None:
        async with self._slots:
            outcome, message = await self._try(placement, body)
        self._inbox.enqueue(BindEnded(placement.pod.uid, outcome, message))

    async def _try(self, placement: Placement, body: bytes) -> tuple[BindOutcome, str]:
        pod = placement.pod
        path = f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}/binding"
        problem = ""
        attempt = refusals = 0
        while refusals < TRIES:
            if attempt:
                await self._pause(attempt)
            if not self._term.leads():
                break
            attempt += 1
            try:
                await self._client.request("POST", path, body)
            except ApiError as error:
                problem = error.message
                refusals += 1
                if not error.is_busy:
                    return await self._refused(placement, error)
            except Unreachable as error:
                # The request may still arrive: until a response says otherwise the pod keeps its
                # devices, and the same Binding is sent again.
                problem = str(error)
            else:
                return BindOutcome.BOUND, ""
        if not problem:
            return BindOutcome.UNSENT, "this process is not the leader any more"
        outcome = await self._read_back(placement)
        return outcome or BindOutcome.UNREACHABLE, problem

    async def _pause(self, attempt: int) -> None:
        pause_s = self._pause_first_s * PAUSE_FACTOR ** min(attempt - 1, TRIES)
        await asyncio.sleep(min(PAUSE_MAX_S, pause_s))

    async def _refused(self, placement: Placement, error: ApiError) -> tuple[BindOutcome, str]:
        if error.status == 404:
            return BindOutcome.GONE, error.message
        if error.status == 409:
            outcome = await self._read_back(placement)
            return outcome or BindOutcome.REFUSED, error.message
        return BindOutcome.REFUSED, error.message

    async def _read_back(self, placement: Placement) -> BindOutcome | None:
        """Read a pod whose Binding has no clear result; None if it is not bound.

        Until then the pod keeps its devices: a failed read never frees a device. So the read is
        repeated until there is a response.
        """
        pod = placement.pod
        path = f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}"
        attempt = 0
        while True:
            try:
                return _judge(placement, await self._client.request("GET", path))
            except ApiError as error:
                if not error.is_busy:
                    return BindOutcome.GONE if error.status == 404 else None
            except (Unreachable, *UNREADABLE):
                pass
            attempt += 1
            await self._pause(attempt)


def _judge(placement: Placement, content: bytes) -> BindOutcome | None:
    """The result of the Binding, from the pod that the API server has."""
    pod = msgspec.json.decode(content, type=_BoundPod)
    if pod.metadata.uid != placement.pod.uid:
        return BindOutcome.GONE
    if not pod.spec.node_name:
        return BindOutcome.TAKEN if pod.metadata.deletion_timestamp else None
    is_ours = pod.spec.node_name == placement.node_name
    return BindOutcome.BOUND if is_ours else BindOutcome.TAKEN


def binding_annotations(
    placement: Placement, decision_id: str, epoch: int | None
) -> dict[str, str]:
    """The annotations that the Binding writes on the pod."""
    written = {well_known.DECISION: decision_id}
    if epoch is not None:
        written[well_known.EPOCH] = str(epoch)
    if placement.devices:
        written[well_known.DEVICES] = format_devices(placement.devices)
    if placement.index is not None:
        written[well_known.POD_INDEX] = str(placement.index)
    if placement.cuda_visible_devices is not None:
        written[well_known.CUDA_VISIBLE_DEVICES] = placement.cuda_visible_devices
    for position, share in enumerate(placement.shares):
        written[f"{well_known.CUDA_VISIBLE_DEVICES}.{position}"] = share
    return written


def encode_binding(placement: Placement, decision_id: str, epoch: int | None) -> bytes:
    """The Binding's body."""
    pod = placement.pod
    return msgspec.json.encode(
        {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {
                "name": pod.name,
                "namespace": pod.namespace,
                "uid": pod.uid,
                "annotations": binding_annotations(placement, decision_id, epoch),
            },
            "target": {"apiVersion": "v1", "kind": "Node", "name": placement.node_name},
        }
    )
