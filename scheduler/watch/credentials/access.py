"""Finds the API server and the credentials for it: of a kubeconfig, or of the pod.

The package ``kubernetes`` takes a tenth of a second to import, so only a kubeconfig that needs it
loads it (``credential_plugin``). Everything else is read here and in the files beside.
"""

from __future__ import annotations

import asyncio
import os
import ssl
from collections.abc import Mapping
from types import ModuleType

import msgspec

from scheduler.watch.credentials import service_account
from scheduler.watch.credentials.authorization import Authorization
from scheduler.watch.credentials.errors import NoCluster
from scheduler.watch.credentials.kubeconfig import Selected, selected
from scheduler.watch.credentials.static import cluster_tls, user_authorization


class ClusterAccess(msgspec.Struct, frozen=True):
    """One API server: its URL, the credentials, and the TLS settings (None for plain HTTP)."""

    url: str
    authorization: Authorization
    tls: ssl.SSLContext | None


async def find(
    kubeconfig: str | None, context: str | None, environment: Mapping[str, str] = os.environ
) -> ClusterAccess:
    """Access by a kubeconfig, else by the pod's ServiceAccount, else by the user's kubeconfig.

    ``context`` is one of the kubeconfig's, by default its current one. NoCluster has the missing
    part in one line.
    """
    if kubeconfig is None and context is None and service_account.HOST in environment:
        account = service_account.read(environment)
        return ClusterAccess(account.url, account.token, account.tls)
    chosen = selected(kubeconfig, context, environment)
    if chosen.user.needs_plugin:
        return await _of_plugin(kubeconfig, chosen)
    return ClusterAccess(
        chosen.cluster.server.rstrip("/"), user_authorization(chosen), cluster_tls(chosen)
    )


async def _of_plugin(kubeconfig: str | None, chosen: Selected) -> ClusterAccess:
    # The import takes a while, so a thread does it.
    plugin = await asyncio.to_thread(_import_plugin)
    return ClusterAccess(*await plugin.access(kubeconfig, chosen))


def _import_plugin() -> ModuleType:
    from scheduler.watch.credentials import credential_plugin

    return credential_plugin


def namespace_of(
    kubeconfig: str | None, context: str | None, environment: Mapping[str, str] = os.environ
) -> str:
    """The namespace of a context of the kubeconfig; an empty text if it has none."""
    try:
        return selected(kubeconfig, context, environment).namespace
    except NoCluster:
        return ""
