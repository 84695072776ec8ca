"""``python -m fakegpu controller`` is the controller of the fake GPU operator, ``python -m fakegpu
node`` the agent of one node, run by a DaemonSet.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from pathlib import Path
from typing import Final

from fakegpu.config import ConfigError
from fakegpu.environment import load
from scheduler.report import log
from scheduler.watch.credentials.errors import NoCluster

#: Packages of the extra, by their modules.
_PACKAGES: Final = {"grpc": "grpcio", "google": "protobuf"}


def parse_arguments(arguments: list[str]) -> argparse.Namespace:
    """The command-line flags; all other settings are in the configuration file and the
    environment.
    """
    parser = argparse.ArgumentParser(prog="python -m fakegpu", description="Fake GPUs.")
    programs = parser.add_subparsers(dest="program", required=True)
    controller = programs.add_parser("controller", help="pools, topologies, KWOK nodes; one leads")
    node = programs.add_parser("node", help="one node's devices, for its kubelet")
    node.add_argument("--node-name", default=os.environ.get("NODE_NAME"), help="or NODE_NAME")
    for program in (controller, node):
        program.add_argument("--config", type=Path, help="FakeGpuConfiguration (YAML)")
        program.add_argument("--kubeconfig", default=os.environ.get("KUBECONFIG"))
        program.add_argument("--log-json", action="store_true", help="one JSON object per line")
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> int:
    """Run until a signal; the exit status is 0 after a clean stop, 1 after a failure."""
    options = parse_arguments(sys.argv[1:] if arguments is None else arguments)
    log.configure(as_json=options.log_json)
    try:
        return _node(options) if options.program == "node" else _controller(options)
    except (ConfigError, NoCluster) as error:
        sys.stderr.write(f"fakegpu: {error}\n")
        return 1


def _controller(options: argparse.Namespace) -> int:
    from fakegpu.controller.app import App

    config = load(options.config, os.environ)
    return asyncio.run(App(config, options.kubeconfig).run())


def _node(options: argparse.Namespace) -> int:
    if not options.node_name:
        raise ConfigError("NODE_NAME is not set; set it, or give --node-name")
    try:
        from fakegpu.agent.app import App
    except ModuleNotFoundError as error:
        package = _PACKAGES.get((error.name or "").partition(".")[0])
        if package is None:
            raise
        hint = f"{package} is missing; install the wheel with its extra fakegpu"
        raise ConfigError(hint) from error

    config = load(options.config, os.environ)
    return asyncio.run(App(config, options.kubeconfig, options.node_name).run())


if __name__ == "__main__":
    sys.exit(main())
