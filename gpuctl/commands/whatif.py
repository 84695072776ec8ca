"""``gpuctl whatif``: what a manifest, or a change of nodes, would come to on the live state.

Exit status 0: all pods start. 2: not all, or the change cannot be made as a whole. 1: an error.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import click

from gpuctl.cluster_access import Access
from gpuctl.options import Strict, UsageError, forwarding, output_format, reaching
from gpuctl.output import formats
from gpuctl.output.progress import ProgressBar
from gpuctl.output.table import show
from gpuctl.output.whatif import render
from gpuctl.pods.pod_completion import complete_nodes
from gpuctl.simulate.manifests import read
from gpuctl.whatif.change import parse_change
from gpuctl.whatif.live_state import LiveState, read_live, with_recreated
from gpuctl.whatif.manifest import Manifest, read_manifest
from gpuctl.whatif.question import OnPod, Plan, answer, plan_of
from gpuctl.whatif.result import WhatIf
from scheduler.model.pods.pod import Pod

NOT_ALL: Final = 2
#: A preempted pod that starts elsewhere may preempt others again.
ROUNDS_MAX: Final = 5


@click.command(cls=Strict)
@click.option(
    "-f",
    "--filename",
    "files",
    metavar="FILE",
    type=click.Path(allow_dash=True),
    multiple=True,
    help='manifest of what is to start, "-" for stdin',
)
@click.option("--replicas", type=click.IntRange(0), metavar="N", help="instead of the manifest's")
@click.option(
    "--add-nodes",
    "added",
    metavar="SHAPE:N",
    multiple=True,
    help="N more nodes like a node (its name) or a board and count (h100x8)",
)
@click.option(
    "--drain",
    "drained",
    metavar="NODE",
    multiple=True,
    shell_complete=complete_nodes,
    help="empty this node",
)
@click.option(
    "--layout",
    "layouts",
    metavar="NODE=PROFILES",
    multiple=True,
    help="MIG instances of each GPU of a node: 3g.40gb:2, or all-balanced",
)
@click.option(
    "-n", "--namespace", metavar="NS", help="for objects without one  [default: the context's]"
)
@output_format("table", "json", "yaml")
@click.option(
    "--config",
    type=click.Path(path_type=Path),
    help="configuration file of the scheduler  [default: as it runs]",
)
@forwarding
@reaching
def whatif(
    access: Access,
    server: str | None,
    files: tuple[str, ...],
    replicas: int | None,
    added: tuple[str, ...],
    drained: tuple[str, ...],
    layouts: tuple[str, ...],
    namespace: str | None,
    output: str,
    config: Path | None,
    forward: bool,
) -> None:
    """Show what a manifest or other nodes would come to; nothing is changed.

    The scheduler's own code decides on the live state, as it is and after the change.

    The state comes from the leader at --server, or through kubectl port-forward if your rights
    allow it; else from the nodes and pods that you may list.

    Exit status: 2 if not all pods start.
    """
    if not (files or added or drained or layouts):
        raise UsageError("pass -f FILE, --add-nodes, --drain or --layout")
    if replicas is not None and not files:
        raise UsageError("--replicas needs -f FILE")
    change = parse_change(added, drained, layouts)
    documents = read(list(files))
    live = asyncio.run(
        read_live(access, server, namespace, change.emptied, config=config, forward=forward)
    )
    manifest = read_manifest(documents, live, replicas)
    plan = plan_of(live, change)
    with ProgressBar(sys.stderr) as progress:
        rounds = 2 if change else 1
        found = _decided(
            access, live, manifest, plan, lambda total: progress.decided(rounds * total)
        )
    if output == "table":
        show(render(found))
    else:
        formats.write(output, found)
    if not found.all_start:
        sys.exit(NOT_ALL)


def _decided(
    access: Access, live: LiveState, manifest: Manifest, plan: Plan, on_pod: OnPod
) -> WhatIf:
    """The answer; where it preempts pods, again with what their controllers create."""
    unread: dict[str, Pod] = {}

    def on_unread(pods: Iterable[Pod]) -> None:
        unread.update((pod.uid, pod) for pod in pods)

    for _ in range(ROUNDS_MAX):
        asked = {*unread}
        found = answer(live, manifest, plan, on_pod, on_unread)
        new = [pod for uid, pod in unread.items() if uid not in asked]
        if not new:
            break
        live = asyncio.run(with_recreated(access, live, new))
    return found
