"""Deletes pods, so that their controllers create them again.

The uid is a precondition: a new pod of the same name is never deleted.
"""

from __future__ import annotations

import asyncio

import msgspec

from scheduler.model.actions import RecreatePod
from scheduler.model.lease import LeaderTerm
from scheduler.model.pods.pod import Pod
from scheduler.state.event import PodRecreated
from scheduler.watch.client import ApiError, Client, Unreachable
from scheduler.watch.inbox import Inbox


class PodRecreator:
    """Deletes pods one after the other; the results go to the inbox."""

    def __init__(self, client: Client, inbox: Inbox, term: LeaderTerm) -> None:
        self._client = client
        self._inbox = inbox
        self._term = term
        self._queue: asyncio.Queue[RecreatePod] = asyncio.Queue()

    def send(self, action: RecreatePod) -> None:
        """Enqueue the deletion of the pod."""
        self._queue.put_nowait(action)

    async def run(self) -> None:
        """Run until cancelled."""
        while True:
            action = await self._queue.get()
            if self._term.leads():
                result = await self._delete(action.pod)
                self._inbox.enqueue(PodRecreated(action.pod, action.attempt, result))

    async def _delete(self, pod: Pod) -> str:
        """The label of the metric: replaced, gone, refused or unreachable."""
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
