"""The command line: ``python -m tools.controlplane up|down|status|build|path``.

Output for a shell (``export KUBECONFIG=...``, paths) goes to stdout, messages go to stderr. A
failure is one line and exit status 1.
"""

from __future__ import annotations

import argparse
import os
import shlex
import sys
import time
from collections.abc import Sequence

from tools.controlplane import developer
from tools.controlplane.errors import ControlPlaneError
from tools.controlplane.programs.binaries import ensure, missing
from tools.controlplane.programs.versions import (
    CONTROL_PLANE_PROGRAMS,
    DELIVERY_PROGRAMS,
    NODE_PROGRAMS,
    PROGRAMS,
    program,
)

INTERRUPTED = 130


def main(words: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status."""
    arguments = _parser().parse_args(words)
    try:
        status: int = arguments.run(arguments)
    except ControlPlaneError as error:
        print(f"controlplane: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\ncontrolplane: interrupted; finished parts are kept", file=sys.stderr)
        return INTERRUPTED
    return status


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tools.controlplane",
        description="A real Kubernetes control plane on this machine, without containers.",
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    up = commands.add_parser("up", help="start a cluster; prints the KUBECONFIG to use")
    up.add_argument("--nodes", type=_count, default=2, metavar="N", help="fake nodes (default 2)")
    up.add_argument("--gpus", type=_count, default=8, metavar="N", help="GPUs each (default 8)")
    up.set_defaults(run=_up)
    down = commands.add_parser("down", help="end a cluster and remove what it left")
    down.set_defaults(run=_down)
    status = commands.add_parser("status", help="show what runs")
    status.set_defaults(run=_status)
    for command in (up, down, status):
        command.add_argument("--name", default="dev", help="which cluster (default dev)")

    build = commands.add_parser("build", help="find or build the programs, without starting any")
    build.add_argument("--only", metavar="A,B", help=f"some of {', '.join(PROGRAMS)}")
    build.add_argument("--node", action="store_true", help="also what a real node needs (kubelet)")
    build.add_argument("--argocd", action="store_true", help="also ArgoCD")
    build.add_argument(
        "--envtest-archive",
        metavar="FILE|URL",
        help="take what it holds from an official envtest archive instead of building it",
    )
    build.set_defaults(run=_build)
    path = commands.add_parser("path", help="show where the programs lie")
    path.add_argument("program", nargs="?", help="only this one")
    path.set_defaults(run=_path)
    return parser


def _count(text: str) -> int:
    number = int(text)
    if number < 0:
        raise argparse.ArgumentTypeError(f"{number} is less than 0")
    return number


def _up(arguments: argparse.Namespace) -> int:
    directory = developer.folder(arguments.name, os.environ)
    started = time.monotonic()
    plane, is_new = developer.up(directory, nodes=arguments.nodes, gpus=arguments.gpus)
    if is_new:
        seconds = time.monotonic() - started
        line = f"{plane.url} with {arguments.nodes} nodes, after {seconds:.1f} s"
    else:
        line = f"{plane.url} runs already; end it with: down --name {arguments.name}"
    print(f"controlplane: {line}", file=sys.stderr)
    print(f"export KUBECONFIG={shlex.quote(str(plane.kubeconfig))}")
    return 0


def _down(arguments: argparse.Namespace) -> int:
    was_there = developer.down(developer.folder(arguments.name, os.environ))
    word = "ended" if was_there else "there is none of that name"
    print(f"controlplane: {arguments.name}: {word}", file=sys.stderr)
    return 0


def _status(arguments: argparse.Namespace) -> int:
    lines, is_well = developer.status(developer.folder(arguments.name, os.environ))
    print("\n".join(lines))
    return 0 if is_well else 1


def _build(arguments: argparse.Namespace) -> int:
    known = [*CONTROL_PLANE_PROGRAMS]
    known += NODE_PROGRAMS if arguments.node else ()
    known += DELIVERY_PROGRAMS if arguments.argocd else ()
    names = arguments.only.split(",") if arguments.only else known
    for name, place in ensure(names, archive=arguments.envtest_archive).items():
        print(f"{name}\t{place}")
    return 0


def _path(arguments: argparse.Namespace) -> int:
    names = [arguments.program] if arguments.program else list(CONTROL_PLANE_PROGRAMS)
    absent = missing([program(name).name for name in names])
    if absent:
        raise ControlPlaneError(
            f"{', '.join(absent)}: not on this machine; run: python -m tools.controlplane build"
        )
    for name, place in ensure(names).items():
        print(place if arguments.program else f"{name}\t{place}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
