"""The ``schedulerName`` of the installed gpu-scheduler.

It is a value of the chart. It is read from the leader where its URL is known, else from the
installation's ConfigMap; a user who may read neither can pass ``--scheduler``.
"""

from __future__ import annotations

from typing import Final

import msgspec

from gpuctl import cluster_access
from gpuctl.cluster_access import Access
from gpuctl.input_error import NotReached
from scheduler.model.well_known import SCHEDULER_NAME
from scheduler.report.decisions.api_types import Leader
from scheduler.watch.client import TIMEOUT_S, ApiError, Client, Unreachable

#: The key of the ConfigMap with the scheduler's configuration file.
_FILE: Final = "config.yaml"


class OurScheduler(msgspec.Struct, frozen=True):
    """The name; not ``is_known``: it is the chart's default, and another one may be installed."""

    name: str = SCHEDULER_NAME
    is_known: bool = True


class _ConfigMap(msgspec.Struct, frozen=True):
    data: dict[str, str] = {}


class _Configuration(msgspec.Struct, frozen=True, rename="camel"):
    scheduler_name: str = SCHEDULER_NAME


async def our_scheduler(client: Client, access: Access, server: str | None = None) -> OurScheduler:
    """The name by ``--scheduler``, by the leader at ``server``, or by the ConfigMap."""
    name = access.scheduler
    if not name and server is not None:
        name = await of_leader(server)
    name = name or await _of_config_map(client, access)
    return OurScheduler(name) if name else OurScheduler(is_known=False)


async def of_leader(url: str) -> str:
    """The name by a decisions API; empty if it does not answer or does not know."""
    try:
        async with cluster_access.server(url) as leader:
            content = await cluster_access.ask(leader, "/leader", {}, TIMEOUT_S)
        return msgspec.json.decode(content, type=Leader).scheduler
    except (NotReached, msgspec.MsgspecError):
        return ""


async def _of_config_map(client: Client, access: Access) -> str:
    path = f"/api/v1/namespaces/{access.lease_namespace}/configmaps/{access.lease_name}-config"
    try:
        found = msgspec.json.decode(await client.request("GET", path), type=_ConfigMap)
        if _FILE not in found.data:
            return ""
        return msgspec.yaml.decode(found.data[_FILE], type=_Configuration).scheduler_name
    except (ApiError, Unreachable, msgspec.MsgspecError):
        return ""
