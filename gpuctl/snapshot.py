"""``gpuctl snapshot``: fetch one instant of the scheduler's whole state, for ``gpuctl replay``."""

from __future__ import annotations

import asyncio
import shlex
import sys
from pathlib import Path
from typing import Final

import click

from gpuctl import cluster_access
from gpuctl.cluster_access import Access, NotReached
from gpuctl.manifests import STDIN, InputError
from gpuctl.options import Strict, reaching
from gpuctl.replay import decoded
from scheduler.watch.client import TIMEOUT_S

WAIT_DEFAULT_S: Final = 60
WAIT_MAX_S: Final = 3600
#: A large cluster's state takes a while to write.
MARGIN_S: Final = 60.0


@click.command(cls=Strict)
@click.option(
    "-o", "--output", metavar="FILE", default=STDIN, help='where it goes  [default: "-", stdout]'
)
@click.option(
    "--next",
    "awaited",
    metavar="NAMESPACE/POD",
    help="wait for the next decision about this pod, and take the state it is made on",
)
@click.option(
    "--wait",
    type=click.IntRange(1, WAIT_MAX_S),
    default=WAIT_DEFAULT_S,
    show_default=True,
    help="how many seconds to wait for it",
)
@reaching
def snapshot(
    access: Access, server: str | None, output: str, awaited: str | None, wait: int
) -> None:
    """Fetch the leader's whole state and what it decides on it.

    It comes from the decisions API: at --server, or through kubectl port-forward to the leader.
    It holds pods, nodes and namespaces as the scheduler sees them, no secrets and no environment.
    """
    try:
        content = asyncio.run(fetched(access, server, awaited, wait))
        taken = decoded(content, "the answer")
        if output == STDIN:
            sys.stdout.buffer.write(content + b"\n")
        else:
            Path(output).write_bytes(content + b"\n")
    except (NotReached, InputError) as error:
        click.echo(f"gpuctl snapshot: {error}", err=True)
        sys.exit(1)
    except OSError as error:
        click.echo(f"gpuctl snapshot: {output}: {error.strerror}", err=True)
        sys.exit(1)
    state = taken.state
    click.echo(
        f"{len(state.nodes)} nodes, {len(state.pods)} pods, {len(state.queue)} of them wait;"
        f" decide again with: {shlex.join(['gpuctl', 'replay', output])}",
        err=True,
    )


async def fetched(
    access: Access, server: str | None, awaited: str | None = None, wait: int = WAIT_DEFAULT_S
) -> bytes:
    """The leader's snapshot, as it was sent; NotReached says who did not answer."""
    if server is not None:
        return await _asked(server, awaited, wait)
    async with cluster_access.cluster(access) as client:
        leader = await cluster_access.leader_pod(client, access)
        if leader is None:
            raise NotReached(
                f"no leader is named by the Lease {access.lease_namespace}/{access.lease_name}, or"
                f" you may not read it; {_by_hand(access, None)}"
            )
        if not await cluster_access.may_forward(client, access):
            raise NotReached(
                f"you may not forward to pod {leader} (verb create, pods/portforward, namespace"
                f" {access.lease_namespace}); somebody who may can run: {_by_hand(access, leader)}"
            )
        async with cluster_access.forwarded(access, leader) as url:
            return await _asked(url, awaited, wait)


def _by_hand(access: Access, leader: str | None) -> str:
    forward, command = cluster_access.by_hand(access, leader, "gpuctl snapshot")
    return f"{forward}   and in another terminal   {command}"


async def _asked(url: str, awaited: str | None, wait: int) -> bytes:
    async with cluster_access.server(url) as client:
        if awaited is None:
            return await cluster_access.ask(client, "/snapshot", {}, TIMEOUT_S + MARGIN_S)
        params = {"next": awaited, "wait": str(wait)}
        return await cluster_access.ask(client, "/snapshot", params, wait + MARGIN_S)
