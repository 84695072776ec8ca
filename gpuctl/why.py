"""``gpuctl why``: why a pod waits, or why it is where it is.

Two ways, and the first always works: the pod's own object and its events, for anybody who may
read them. Where the leader's decisions API can be reached as well, it adds every node's answer,
the tiers that were tried, and the scores.

Exit status 0: the pod has its place. 2: it waits. 1: it could not be found out.
"""

from __future__ import annotations

import asyncio
import contextlib
import shlex
import sys
from collections.abc import AsyncIterator
from typing import Final

import click
import msgspec

from gpuctl import cluster_access
from gpuctl.cluster_access import Access, NotReached
from gpuctl.options import Strict, UsageError, reaching
from gpuctl.pod_facts import GATED, PLACED, WAITS, PodFacts, witnessed
from scheduler.report.decisions.api_types import PodAnswer
from scheduler.watch.client import TIMEOUT_S, Client

PENDING: Final = 2


class Why(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """The whole answer. ``witness`` is missing where only the decisions API was reached."""

    namespace: str
    pod: str
    waits: bool
    witness: PodFacts | None = None
    answer: PodAnswer | None = None
    remarks: tuple[str, ...] = ()
    more: tuple[str, ...] = ()


@click.command(cls=Strict)
@click.argument("pod", metavar="POD")
@click.option("-n", "--namespace", metavar="NS", help="[default: the context's, else default]")
@click.option(
    "-o",
    "--output",
    type=click.Choice(["table", "wide", "json", "yaml"]),
    default="table",
    show_default=True,
)
@click.option("--forward/--no-forward", default=True, help="kubectl port-forward to the leader")
@reaching
def why(
    access: Access,
    server: str | None,
    pod: str,
    namespace: str | None,
    output: str,
    forward: bool,
) -> None:
    """Say why POD waits, or why it is where it is, and what to do next.

    Rights to read pods and events in its namespace are enough. More is said where the decisions
    API is reached: at --server, or through kubectl port-forward where you may do that.

    Exit status: 0 it has a node, 2 it waits, 1 it cannot be said.
    """
    space, slash, name = pod.rpartition("/")
    if slash and namespace not in (None, space):
        raise UsageError(f"{pod} and --namespace {namespace} are different namespaces")
    try:
        found = asyncio.run(_found(access, namespace or space or None, name, server, forward))
    except NotReached as error:
        click.echo(f"gpuctl why: {error}", err=True)
        sys.exit(1)
    _write(found, output)
    sys.exit(PENDING if found.waits else 0)


async def _found(
    access: Access, namespace: str | None, name: str, server: str | None, forward: bool
) -> Why:
    try:
        async with cluster_access.cluster(access) as client:
            space = namespace or await cluster_access.default_namespace(access)
            witness = await witnessed(client, space, name)
            return await _completed(access, client, witness, server, forward)
    except NotReached as error:
        if server is None:
            raise
        remark = f"the pod itself cannot be read: {error}"
        answer = await _asked(server, namespace or "default", name, because=f"{error}; ")
        waits = answer.waiting is not None
        space = answer.namespace
        return Why(namespace=space, pod=name, waits=waits, answer=answer, remarks=(remark,))


async def _completed(
    access: Access, client: Client, witness: PodFacts, server: str | None, forward: bool
) -> Why:
    """What the pod says, and what the decisions API adds where it can be reached."""
    remarks = list(witness.remarks)
    # Of a pod behind a gate the scheduler knows nothing, and of one that ended no longer.
    is_live = witness.standing in (PLACED, WAITS)
    leader = None if server else await cluster_access.leader_pod(client, access)
    answer: PodAnswer | None = None
    try:
        async with _way(access, client, leader, server, forward and is_live) as url:
            if url is not None:
                answer = await _asked(url, witness.namespace, witness.pod)
    except NotReached as error:
        remarks.append(str(error))
    if answer is not None and not answer.leads:
        remarks.append("the process that was asked does not lead; the leader may know more")
    command = shlex.join(["gpuctl", "why", witness.pod, "-n", witness.namespace])
    return Why(
        namespace=witness.namespace,
        pod=witness.pod,
        waits=witness.standing in (WAITS, GATED),
        witness=witness,
        answer=answer,
        remarks=tuple(remarks),
        more=() if answer or not is_live else cluster_access.by_hand(access, leader, command),
    )


@contextlib.asynccontextmanager
async def _way(
    access: Access, client: Client, leader: str | None, server: str | None, forward: bool
) -> AsyncIterator[str | None]:
    """The decisions API's URL as long as it is open, or None where there is no way to it."""
    if server is not None:
        yield server
    elif forward and leader is not None and await cluster_access.may_forward(client, access):
        async with cluster_access.forwarded(access, leader) as url:
            yield url
    else:
        yield None


async def _asked(url: str, namespace: str, name: str, because: str = "") -> PodAnswer:
    """The decisions API's answer; ``because`` says why nothing else could be asked."""
    try:
        async with cluster_access.server(url) as client:
            content = await cluster_access.ask(
                client, f"/decisions/{namespace}/{name}", {}, TIMEOUT_S
            )
        return msgspec.json.decode(content, type=PodAnswer)
    except NotReached as error:
        raise NotReached(f"{because}{error}") from error
    except msgspec.MsgspecError as error:
        raise NotReached(f"{url} is no decisions API that gpuctl understands: {error}") from error


def _write(found: Why, output: str) -> None:
    if output == "json":
        click.echo(msgspec.json.format(msgspec.json.encode(found), indent=2).decode())
    elif output == "yaml":
        click.echo(msgspec.yaml.encode(found).decode(), nl=False)
    else:
        from gpuctl import why_output

        why_output.show_why(found, wide=output == "wide")
