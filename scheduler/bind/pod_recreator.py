"""Replaces pods that came past the webhook: deletes them, and their controller makes them again.

Who and when is ``state/breakers/recreate_budget``'s to say; here it is done and told. Must never
delete a pod by its name alone: the uid is a precondition, so that a pod made meanwhile under the
same name lives."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Protocol

import msgspec
import structlog

from scheduler.model.pod import Pod
from scheduler.state.breakers.recreate_budget import TRIES_MAX, RecreateBudget
from scheduler.watch.client import ApiError, Client, Unreachable

LOOK_S = 1.0
REASON = "NotMutated"

log = structlog.get_logger("repair")


class PodEventSink(Protocol):
    """Who tells the pods' authors."""

    def note(self, pod: Pod, reason: str, text: str) -> None:
        """Something the pod's author should know."""


class PodRecreator:
    """Replaces what is due, of the pods that ``waiting`` names, while ``may_act``."""

    def __init__(
        self,
        client: Client,
        repairs: RecreateBudget,
        waiting: Callable[[], Iterable[Pod]],
        may_act: Callable[[], bool],
        teller: PodEventSink,
        count: Callable[[str], None],
        clock: Callable[[], float],
    ) -> None:
        self._client = client
        self._repairs = repairs
        self._waiting = waiting
        self._may_act = may_act
        self._teller = teller
        self._count = count
        self._clock = clock

    async def run(self) -> None:
        """Look once a second; ends by cancellation."""
        while True:
            await asyncio.sleep(LOOK_S)
            await self.replace_due()

    async def replace_due(self) -> None:
        """Replace the pods whose turn it is."""
        if not self._may_act():
            return
        for pod in self._repairs.due(list(self._waiting()), self._clock()):
            result = await self._delete(pod)
            self._count(result)
            number = self._repairs.count(pod)
            log.warning("pod replaced", pod=pod.key, result=result, tries=number)
            if result == "replaced":
                assert pod.owner is not None, "only a controller makes a pod again"
                self._teller.note(
                    pod,
                    REASON,
                    f"deleted so that {pod.owner.kind} {pod.owner.name} creates it again, with the"
                    f" webhook this time (try {number} of at most {TRIES_MAX} for its owner)",
                )

    async def _delete(self, pod: Pod) -> str:
        """The word for the metric: replaced, gone, refused or unreachable."""
        body = {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "preconditions": {"uid": pod.uid},
        }
        path = f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}"
        try:
            await self._client.request("DELETE", path, msgspec.json.encode(body))
        except ApiError as error:
            return "gone" if error.status in (404, 409) else "refused"
        except Unreachable:
            return "unreachable"
        return "replaced"
