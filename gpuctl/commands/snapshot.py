"""``gpuctl snapshot``: saves the scheduler's state at one instant, for ``gpuctl replay``."""

from __future__ import annotations

import asyncio
import shlex
import sys
from pathlib import Path
from typing import Final

import click

from gpuctl import snapshots
from gpuctl.cluster_access import Access
from gpuctl.input_error import STDIN, InputError
from gpuctl.options import Strict, reaching

WAIT_MAX_S: Final = 3600


@click.command(cls=Strict)
@click.option(
    "-o", "--output", metavar="FILE", default=STDIN, help='output file  [default: "-", stdout]'
)
@click.option(
    "--next",
    "awaited",
    metavar="NAMESPACE/POD",
    help="wait for the next decision on this pod and save the state it is based on",
)
@click.option(
    "--wait",
    type=click.IntRange(1, WAIT_MAX_S),
    default=snapshots.WAIT_DEFAULT_S,
    show_default=True,
    help="seconds to wait for that decision",
)
@reaching
def snapshot(
    access: Access, server: str | None, output: str, awaited: str | None, wait: int
) -> None:
    """Save the leader's state and its decisions on it.

    The snapshot comes from the decisions API: at --server, or through kubectl port-forward to the
    leader. It contains pods, nodes and namespaces as the scheduler decodes them, without secrets
    and environment variables.
    """
    words = ["gpuctl", "snapshot", *(["-o", output] if output != STDIN else [])]
    words += ["--next", awaited, "--wait", str(wait)] if awaited else []
    content = asyncio.run(snapshots.fetch(access, server, shlex.join(words), awaited, wait))
    taken = snapshots.decode(content, "the answer")
    try:
        if output == STDIN:
            sys.stdout.buffer.write(content + b"\n")
        else:
            Path(output).write_bytes(content + b"\n")
    except OSError as error:
        raise InputError(f"{output}: {error.strerror}") from error
    state = taken.state
    click.echo(
        f"{len(state.nodes)} nodes, {len(state.pods)} pods, {len(state.queue)} of them wait;"
        f" decide again with: {shlex.join(['gpuctl', 'replay', output])}",
        err=True,
    )
