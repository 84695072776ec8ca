"""``gpuctl dashboard``: forwards a local port to the leader's web pages, and follows the leader.

The pages are read-only. They are reached through ``kubectl port-forward``, so they need the same
rights as the decisions API.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Final

import click

from gpuctl import cluster_access
from gpuctl.cluster_access import DECISIONS_PORT, Access
from gpuctl.command import note
from gpuctl.input_error import NotReached
from gpuctl.options import Strict, reaching
from scheduler.watch.client import TIMEOUT_S, ApiError, Client, Unreachable

PORT_MAX: Final = 65535
#: The Lease is read so often: after a change of the leader the pages are those of the new one.
LOOK_S: Final = 5.0
#: After a port-forward that ended.
AGAIN_S: Final = 2.0
PATH: Final = "/dashboard/"
_PROBE: Final = "/dashboard/data/health"
NOT_FOUND: Final = 404
_OFF: Final = "the scheduler serves no dashboard: set dashboard.enabled in the values of its chart"

Pause = Callable[[float], Awaitable[None]]


@click.command(cls=Strict)
@click.option(
    "--port",
    type=click.IntRange(1, PORT_MAX),
    default=DECISIONS_PORT,
    show_default=True,
    help="local port",
)
@reaching
def dashboard(access: Access, server: str | None, port: int) -> None:
    """Print the URL of the leader's web pages, and forward to them until interrupted.

    Needs the rights for kubectl port-forward in the scheduler's namespace. With --server the URL of
    a port-forward of your own is checked and printed.
    """
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(_check(server) if server is not None else follow(access, port))


async def _check(url: str) -> None:
    """Print the URL of the pages, if they are there."""
    async with cluster_access.server(url) as client:
        try:
            await cluster_access.patient(client, _PROBE, {}, TIMEOUT_S)
        except Unreachable as error:
            raise NotReached(f"the dashboard does not answer: {error}") from error
        except ApiError as error:
            raise NotReached(_OFF if error.status == NOT_FOUND else error.message) from error
    click.echo(f"{url.rstrip('/')}{PATH}")


async def follow(access: Access, port: int, pause: Pause = asyncio.sleep) -> None:
    """Forward to the leader, and to the next one; ends by cancellation or NotReached at first."""
    async with cluster_access.cluster(access) as client:
        leader = await cluster_access.reachable_leader(
            client, access, f"gpuctl dashboard --port {port}"
        )
        is_first = True
        while True:
            try:
                await _forward(client, access, leader, port, pause)
            except NotReached as error:
                if is_first:
                    raise
                note(str(error))
            is_first = False
            await pause(AGAIN_S)
            found = await cluster_access.leader_pod(client, access)
            if found is not None and found != leader:
                note(f"the leader is now {found}")
                leader = found


async def _forward(client: Client, access: Access, leader: str, port: int, pause: Pause) -> None:
    """Forward until the port-forward ends, or another replica leads."""
    async with cluster_access.forwarding_process(access, leader, str(port)) as (url, process):
        await _check(url)
        assert process.stdout is not None, "its output is a pipe"
        ended = asyncio.create_task(_read(process.stdout))
        changed = asyncio.create_task(_another(client, access, leader, pause))
        try:
            await asyncio.wait({ended, changed}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            ended.cancel()
            changed.cancel()
            await asyncio.gather(ended, changed, return_exceptions=True)


async def _read(output: asyncio.StreamReader) -> None:
    """Read what kubectl prints for each connection: a full pipe would stop it."""
    while await output.readline():
        pass


async def _another(client: Client, access: Access, leader: str, pause: Pause) -> None:
    """Wait until another replica leads."""
    while await cluster_access.leader_pod(client, access) in (None, leader):
        await pause(LOOK_S)
