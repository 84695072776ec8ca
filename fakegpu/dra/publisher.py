"""Writes a pool's slices if they differ from the desired ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from fakegpu.dra.api_types import SLICES, resource_slice
from fakegpu.dra.pool import Pool, changes
from fakegpu.dra.store import Slices
from scheduler.watch.client import ApiError, Client

APPLY: Final = "application/apply-patch+yaml"


class Publisher:
    """Server-side apply by one manager; stores its own writes without waiting for the watch."""

    def __init__(self, client: Client, slices: Slices, manager: str) -> None:
        self._client = client
        self._slices = slices
        self._params = {"fieldManager": manager, "force": "true"}

    async def publish(self, pool: Pool, contents: Sequence[dict[str, Any]]) -> None:
        """Write the pool's slices; no contents delete them."""
        made = changes(pool, contents, self._slices.of(pool.node))
        for name, body in made.write:
            answer = await self._client.request(
                "PATCH",
                f"{SLICES}/{name}",
                msgspec.json.encode(body),
                params=self._params,
                content_type=APPLY,
            )
            _, written = resource_slice(answer)
            if written is not None:
                self._slices.saw(written)
        for name in made.remove:
            await self._remove(name)

    async def _remove(self, name: str) -> None:
        try:
            await self._client.request("DELETE", f"{SLICES}/{name}")
        except ApiError as error:
            if error.status != 404:
                raise
        self._slices.forget(name)
