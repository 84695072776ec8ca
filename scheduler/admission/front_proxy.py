"""Reads which clients may proxy for users: the API servers' front proxy.

Every API server publishes the authority of its proxy's certificate in the ConfigMap
``extension-apiserver-authentication``. The webhook has no token, so the scheduler reads it and
answers the webhook over the socket. A changed authority counts after one read; while the ConfigMap
cannot be read, the last one stays in use.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

import msgspec
import structlog

from scheduler.model.decisions.messages import FrontProxy
from scheduler.watch.client import ApiError, Client, Unreachable

PATH: Final = "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication"
REFRESH_S: Final = 30.0
RETRY_S: Final = 5.0

log = structlog.get_logger("admission")


class _ConfigMap(msgspec.Struct, frozen=True):
    data: dict[str, str] = {}


class FrontProxyReader:
    """Follows the ConfigMap; ``current`` is None until it was read."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._problem = ""
        self.current: FrontProxy | None = None

    async def run(self, refresh_s: float = REFRESH_S, retry_s: float = RETRY_S) -> None:
        """Read it again and again, until cancelled."""
        while True:
            is_read = await self.read()
            await asyncio.sleep(refresh_s if is_read else retry_s)

    async def read(self) -> bool:
        """Read it once; returns whether it names an authority."""
        try:
            found = front_proxy_of(await self._client.request("GET", PATH))
        except (ApiError, Unreachable, ValueError) as error:
            if str(error) != self._problem:
                log.warning("front proxy unknown", problem=str(error))
            self._problem = str(error)
            return False
        self._problem = ""
        self.current = found
        return True


def front_proxy_of(content: bytes) -> FrontProxy:
    """The front proxy in a ConfigMap; ValueError if there is none."""
    data = msgspec.json.decode(content, type=_ConfigMap).data
    authority = data.get("requestheader-client-ca-file", "")
    if not authority:
        raise ValueError("the API server has no front proxy (--requestheader-client-ca-file)")
    names: Any = msgspec.json.decode(data.get("requestheader-allowed-names") or "[]")
    return FrontProxy(authority=authority, names=msgspec.convert(names, tuple[str, ...]))
