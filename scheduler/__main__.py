"""``python -m scheduler``."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from pathlib import Path

import structlog

from scheduler import config as configuration
from scheduler.admission import leader_proxy
from scheduler.app import serve, utc_now
from scheduler.httpserver import file_limit
from scheduler.report import log
from scheduler.watch.credentials.errors import NoCluster


def parse_arguments(arguments: list[str]) -> argparse.Namespace:
    """The command-line flags; all other settings are in the configuration file."""
    parser = argparse.ArgumentParser(prog="python -m scheduler", description="The GPU scheduler.")
    parser.add_argument("--config", type=Path, help="GpuSchedulerConfiguration (YAML)")
    parser.add_argument("--kubeconfig", help="run outside a cluster with this kubeconfig")
    parser.add_argument("--log-json", action="store_true", help="one JSON object per line")
    parser.add_argument("-v", "--verbose", action="store_true", help="also write debug lines")
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> int:
    """Run until SIGTERM; the exit status is 0 after a clean stop, 1 after a failure."""
    options = parse_arguments(sys.argv[1:] if arguments is None else arguments)
    log.configure(as_json=options.log_json, verbose=options.verbose)
    file_limit.raise_limit()
    try:
        config = configuration.load(options.config)
        return asyncio.run(_run(config, options.kubeconfig))
    except configuration.ConfigError as error:
        sys.stderr.write(f"gpu-scheduler: {error}\n")
        return 1
    except NoCluster as error:
        structlog.get_logger("scheduler").error("no cluster", problem=str(error))
        return 1


async def _run(config: configuration.Config, kubeconfig: str | None) -> int:
    """Run the scheduler, with the certificate rotator where the scheduler creates its own
    certificate.
    """
    if not config.certificates.secret:
        return await _serve(config, kubeconfig)
    # A late import, because `cryptography` is an extra that a provided certificate does not need.
    from scheduler.controllers.certificates.rotator import rotating

    namespace = config.leader_election.resource_namespace
    async with rotating(config.certificates, namespace, kubeconfig, utc_now):
        return await _serve(config, kubeconfig)


async def _serve(config: configuration.Config, kubeconfig: str | None) -> int:
    replicas = leader_proxy.settings_from(config.forward, os.environ.get("POD_IP", ""))
    return await serve(config, kubeconfig, replicas)


if __name__ == "__main__":
    sys.exit(main())
