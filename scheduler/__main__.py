"""``python -m scheduler``."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from pathlib import Path

import structlog

from scheduler import config as configuration
from scheduler import forward
from scheduler.app import App
from scheduler.report import log
from scheduler.watch.client import NoCluster


def parse_arguments(arguments: list[str]) -> argparse.Namespace:
    """The few flags; everything else is in the configuration file."""
    parser = argparse.ArgumentParser(prog="python -m scheduler", description="The GPU scheduler.")
    parser.add_argument("--config", type=Path, help="GpuSchedulerConfiguration (YAML)")
    parser.add_argument("--kubeconfig", help="run outside a cluster with this kubeconfig")
    parser.add_argument("--log-json", action="store_true", help="one JSON object per line")
    parser.add_argument("-v", "--verbose", action="store_true", help="debug lines too")
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> int:
    """Run until SIGTERM; the exit status is 0 after a clean stop, 1 after a failure."""
    options = parse_arguments(sys.argv[1:] if arguments is None else arguments)
    log.configure(as_json=options.log_json, verbose=options.verbose)
    try:
        config = configuration.load(options.config)
        replicas = forward.settings_from(config.forward, os.environ.get("POD_IP", ""))
    except configuration.ConfigError as error:
        sys.stderr.write(f"gpu-scheduler: {error}\n")
        return 1
    try:
        return asyncio.run(App(config, options.kubeconfig, replicas).run())
    except NoCluster as error:
        structlog.get_logger("scheduler").error("no cluster", problem=str(error))
        return 1


if __name__ == "__main__":
    sys.exit(main())
