"""Reads the configuration and runs one scheduler process, with what its configuration needs."""

from __future__ import annotations

import asyncio
import os
import sys
from contextlib import AbstractAsyncContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

import structlog

from scheduler import config as configuration
from scheduler.httpserver import file_limit
from scheduler.report import log
from scheduler.sources import Sources, utc_now
from scheduler.watch.client import Client
from scheduler.watch.credentials.errors import NoCluster

if TYPE_CHECKING:
    from scheduler.admission.leader_proxy import LeaderProxySettings
    from scheduler.app import App


def run(config: Path | None, kubeconfig: str | None, *, as_json: bool, level: str) -> int:
    """Run until SIGTERM; the exit status is 0 after a clean stop, 1 after a failure."""
    log.configure(as_json=as_json, level=level)
    file_limit.raise_limit()
    try:
        return asyncio.run(_run(configuration.load(config), kubeconfig))
    except configuration.ConfigError as error:
        sys.stderr.write(f"gpu-scheduler: {error}\n")
        return 1
    except NoCluster as error:
        structlog.get_logger("scheduler").error("no cluster", problem=str(error))
        return 1


async def _run(config: configuration.Config, kubeconfig: str | None) -> int:
    """Run the scheduler. The watches and the election start first: the API server answers while
    the rest of the program is imported.
    """
    replicas = _replicas(config)
    user_agent = f"{config.scheduler_name}/scheduler"
    client = await Client.connect(kubeconfig, user_agent, compressed=False)
    try:
        sources = Sources(config, client, replicas.address if replicas else "")
        if config.certificates.secret:
            # The rotator writes the files after requests of its own, and the watches wait for none.
            sources.start()
        async with _certificates(config, kubeconfig):
            _check_files(replicas)
            sources.start()
            app = await asyncio.to_thread(_import_app)
            return await app(config, client, replicas, sources).run()
    finally:
        await client.close()


def _replicas(config: configuration.Config) -> LeaderProxySettings | None:
    if not config.forward.address:
        return None
    from scheduler.admission import leader_proxy

    return leader_proxy.settings_from(config.forward, os.environ.get("POD_IP", ""))


def _check_files(replicas: LeaderProxySettings | None) -> None:
    """A bad file ends the start."""
    if replicas is not None:
        from scheduler.admission import leader_proxy

        leader_proxy.check_files(replicas)


def _import_app() -> type[App]:
    from scheduler.app import App

    return App


def _certificates(
    config: configuration.Config, kubeconfig: str | None
) -> AbstractAsyncContextManager[None]:
    """The certificate rotator, where the scheduler creates its own certificate."""
    if not config.certificates.secret:
        return nullcontext()
    # A late import, because `cryptography` is an extra that a provided certificate does not need.
    from scheduler.controllers.certificates.rotator import rotating

    namespace = config.leader_election.resource_namespace
    return rotating(config.certificates, namespace, kubeconfig, utc_now)
