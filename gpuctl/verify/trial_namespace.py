"""The namespace of one run and its PriorityClass: created together, and removed whatever happened.

What was perhaps created counts as created: an answer can be lost on its way.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Mapping
from typing import Final

import msgspec

from scheduler.model import well_known
from scheduler.watch.client import ApiError, Client, Unreachable

#: The label of the namespace; it permits gpu-scheduling-map.
LABELS: Final = {
    well_known.MAPS_ALLOWED: "allowed",
    "app.kubernetes.io/managed-by": "gpuctl-verify",
}
PRIORITY_CLASSES: Final = "/apis/scheduling.k8s.io/v1/priorityclasses"
NAMESPACES: Final = "/api/v1/namespaces"
#: Lower than any workload's, and Never: a test pod preempts no pod, and is the first to go.
LOWEST: Final = -1_000_000_000
NOT_FOUND: Final = 404
#: Between two attempts to delete an object.
RETRY_S: Final = 0.5


class TrialNamespace:
    """The two objects of a run, both with the name of the run."""

    def __init__(self, client: Client, name: str) -> None:
        self._client = client
        self.name = name
        self._made: list[str] = []

    async def create(self) -> None:
        """Create both; the caller removes them, also after an error."""
        lowest = {
            "value": LOWEST,
            "preemptionPolicy": "Never",
            "description": "test pods of gpuctl verify",
        }
        await self._post(PRIORITY_CLASSES, {"name": self.name}, lowest)
        await self._post(NAMESPACES, {"name": self.name, "labels": LABELS}, {})

    async def _post(
        self, path: str, meta: Mapping[str, object], fields: Mapping[str, object]
    ) -> None:
        made = f"{path}/{self.name}"
        self._made.append(made)
        body = msgspec.json.encode({"metadata": meta, **fields})
        request = asyncio.create_task(self._client.request("POST", path, body))
        try:
            await _to_its_end(request)
        except ApiError:
            self._made.remove(made)  # refused, so an object of this name is not of this run
            raise

    async def delete(self, timeout_s: float) -> None:
        """Delete what was created, each object for itself.

        Raises the first error: ApiError, or Unreachable if the API server does not come back in
        time.
        """
        ends = time.monotonic() + timeout_s
        errors: list[ApiError | Unreachable] = []
        for path in tuple(reversed(self._made)):
            try:
                await self._delete(path, ends)
                self._made.remove(path)
            except (ApiError, Unreachable) as error:
                errors.append(error)
        if errors:
            raise errors[0]

    async def _delete(self, path: str, ends: float) -> None:
        while True:
            try:
                await self._client.request("DELETE", path)
                return
            except ApiError as error:
                if error.status == NOT_FOUND:
                    return
                raise
            except Unreachable:
                if time.monotonic() > ends:
                    raise
            await asyncio.sleep(RETRY_S)

    async def is_gone(self) -> bool:
        """Whether the namespace has ended."""
        try:
            await self._client.request("GET", f"{NAMESPACES}/{self.name}")
        except ApiError as error:
            return error.status == NOT_FOUND
        return False

    @property
    def left(self) -> tuple[str, ...]:
        """What was not deleted, as ``kubectl delete`` names it."""
        kinds = {PRIORITY_CLASSES: "priorityclass", NAMESPACES: "namespace"}
        return tuple(f"{kinds[path.rpartition('/')[0]]}/{self.name}" for path in self._made)


async def _to_its_end(request: asyncio.Task[bytes]) -> None:
    """Wait for the answer even if the run is stopped: a deletion must not overtake the creation."""
    try:
        await asyncio.shield(request)
    except asyncio.CancelledError:
        with contextlib.suppress(ApiError, Unreachable):
            await request
        raise
