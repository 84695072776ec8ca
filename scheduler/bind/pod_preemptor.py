"""Preempts pods: the condition DisruptionTarget, then the deletion (kube-scheduler: executor.go).

The message of the condition ends with the leader election term of the decision. The admission
policy ``preemptions`` refuses the deletion of a bound pod without that condition, or with a lower
term than the Lease's, so a former leader deletes no pod. The uid is a precondition: a new pod of
the same name is never deleted. The pod ends with its own grace period.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import datetime
from typing import Final

import msgspec

from scheduler.model import well_known
from scheduler.model.actions import PreemptPods
from scheduler.model.lease import LeaderTerm
from scheduler.model.pods.pod import Pod
from scheduler.model.timestamps import second_time
from scheduler.state.event import PreemptionEnded, VictimOutcome, VictimResult
from scheduler.watch.client import STRATEGIC_PATCH, ApiError, Client, Unreachable
from scheduler.watch.inbox import Inbox

#: Victims whose requests are in flight at once, of all preemptors.
IN_FLIGHT_MAX = 16
TRIES = 4
PAUSE_FIRST_S = 0.05
PAUSE_FACTOR = 5

#: What the condition of a victim says.
PRIORITY: Final = "preempting to accommodate a higher priority pod"
RECLAIM: Final = "taking back for a pod inside the guarantee of its team"

#: The pod does not exist any more, or another one has its name.
GONE = (404, 409)


class PodPreemptor:
    """Preempts the victims of one preemptor after the other; the results go to the inbox."""

    def __init__(
        self,
        client: Client,
        scheduler_name: str,
        inbox: Inbox,
        term: LeaderTerm,
        wall: Callable[[], datetime],
        pause_first_s: float = PAUSE_FIRST_S,
    ) -> None:
        self._client = client
        self._name = scheduler_name
        self._inbox = inbox
        self._term = term
        self._wall = wall
        self._pause_first_s = pause_first_s
        self._queue: asyncio.Queue[PreemptPods] = asyncio.Queue()
        self._slots = asyncio.Semaphore(IN_FLIGHT_MAX)

    def send(self, action: PreemptPods) -> None:
        """Preempt these pods soon."""
        self._queue.put_nowait(action)

    async def run(self) -> None:
        """Work for ever; ends by cancellation."""
        async with asyncio.TaskGroup() as group:
            while True:
                action = await self._queue.get()
                group.create_task(self._preempt(action), name=f"preempt for {action.preemptor.key}")

    async def _preempt(self, action: PreemptPods) -> None:
        epoch = self._term.epoch
        why = RECLAIM if action.is_reclaim else PRIORITY
        results = await asyncio.gather(*(self._one(pod, epoch, why) for pod in action.victims))
        self._inbox.enqueue(PreemptionEnded(action.preemptor, action.node_name, tuple(results)))

    async def _one(self, pod: Pod, epoch: int | None, why: str) -> VictimResult:
        async with self._slots:
            outcome, message = await self._try(pod, epoch, why)
        return VictimResult(pod, outcome, message)

    async def _try(self, pod: Pod, epoch: int | None, why: str) -> tuple[VictimOutcome, str]:
        problem = ""
        for attempt in range(TRIES):
            if attempt:
                await asyncio.sleep(self._pause_first_s * PAUSE_FACTOR ** (attempt - 1))
            if not self._term.leads() or self._term.epoch != epoch:
                return VictimOutcome.UNSENT, "this process is not the leader any more"
            try:
                await self._mark(pod, epoch, why)
                await self._delete(pod)
            except ApiError as error:
                problem = error.message
                if error.status in GONE:
                    return VictimOutcome.GONE, problem
                if not error.is_busy:
                    return VictimOutcome.REFUSED, problem
            except Unreachable as error:
                problem = str(error)
            else:
                return VictimOutcome.DELETED, ""
        return VictimOutcome.UNREACHABLE, problem

    async def _mark(self, pod: Pod, epoch: int | None, why: str) -> None:
        """Write the condition; always, because one of a former leader has a lower term."""
        body = encode_condition(pod, self._name, epoch, self._wall(), why)
        path = f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}/status"
        await self._client.request("PATCH", path, body, content_type=STRATEGIC_PATCH)

    async def _delete(self, pod: Pod) -> None:
        body = {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "preconditions": {"uid": pod.uid},
        }
        path = f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}"
        await self._client.request("DELETE", path, msgspec.json.encode(body))


def encode_condition(
    pod: Pod, scheduler_name: str, epoch: int | None, now: datetime, why: str = PRIORITY
) -> bytes:
    """The patch of a victim's status; the uid is a precondition.

    The disruption controller takes a condition back that is older than two minutes, or has no time.
    """
    term = "" if epoch is None else f" (term {epoch})"
    entry = {
        "type": well_known.DISRUPTION_TARGET,
        "status": "True",
        "reason": well_known.PREEMPTION_BY_SCHEDULER,
        "message": f"{scheduler_name}: {why}{term}",
        "lastTransitionTime": second_time(now),
    }
    return msgspec.json.encode({"metadata": {"uid": pod.uid}, "status": {"conditions": [entry]}})
