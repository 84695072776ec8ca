"""``gpuctl why``: explains why a pod is pending, or why it is on its node.

There are two sources. The pod's object and its events need no more than the right to read them.
The leader's decisions API, if reachable, adds every node's answer, the tiers that were tried and
the scores.

Exit status 0: the pod has a node. 2: it is pending. 1: an error.
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
from gpuctl.output.why import Why, show_why
from gpuctl.pod_facts import GATED, PLACED, WAITS, PodFacts, read_pod_facts
from scheduler.report.decisions.api_types import PodAnswer
from scheduler.watch.client import TIMEOUT_S, Client

PENDING: Final = 2


@click.command(cls=Strict)
@click.argument("pod", metavar="POD")
@click.option(
    "-n", "--namespace", metavar="NS", help="[default: the namespace of the context, else default]"
)
@click.option(
    "-o",
    "--output",
    type=click.Choice(["table", "wide", "json", "yaml"]),
    default="table",
    show_default=True,
)
@click.option("--forward/--no-forward", default=True, help="run kubectl port-forward to the leader")
@reaching
def why(
    access: Access,
    server: str | None,
    pod: str,
    namespace: str | None,
    output: str,
    forward: bool,
) -> None:
    """Explain why POD is pending or why it is on its node, and what to do next.

    The right to read pods and events in the namespace is enough. The decisions API adds details:
    at --server, or through kubectl port-forward if your rights allow it.

    Exit status: 0 the pod has a node, 2 it is pending, 1 an error.
    """
    space, slash, name = pod.rpartition("/")
    if slash and namespace not in (None, space):
        raise UsageError(f"{pod} and --namespace {namespace} are different namespaces")
    try:
        found = asyncio.run(_explain(access, namespace or space or None, name, server, forward))
    except NotReached as error:
        click.echo(f"gpuctl why: {error}", err=True)
        sys.exit(1)
    _write(found, output)
    sys.exit(PENDING if found.waits else 0)


async def _explain(
    access: Access, namespace: str | None, name: str, server: str | None, forward: bool
) -> Why:
    try:
        async with cluster_access.cluster(access) as client:
            space = namespace or await cluster_access.default_namespace(access)
            facts = await read_pod_facts(client, space, name)
            return await _with_decisions(access, client, facts, server, forward)
    except NotReached as error:
        if server is None:
            raise
        remark = f"the pod itself cannot be read: {error}"
        answer = await _decisions(server, namespace or "default", name, because=f"{error}; ")
        waits = answer.waiting is not None
        space = answer.namespace
        return Why(namespace=space, pod=name, waits=waits, answer=answer, remarks=(remark,))


async def _with_decisions(
    access: Access, client: Client, facts: PodFacts, server: str | None, forward: bool
) -> Why:
    """The pod's facts, and the decisions API's answer if it is reachable."""
    remarks = list(facts.remarks)
    # The scheduler holds no decision on a gated pod, nor on a pod that has ended.
    is_live = facts.standing in (PLACED, WAITS)
    leader = None if server else await cluster_access.leader_pod(client, access)
    answer: PodAnswer | None = None
    try:
        async with _decisions_url(access, client, leader, server, forward and is_live) as url:
            if url is not None:
                answer = await _decisions(url, facts.namespace, facts.pod)
    except NotReached as error:
        remarks.append(str(error))
    if answer is not None and not answer.leads:
        remarks.append("this replica is not the leader; the leader may know more")
    command = shlex.join(["gpuctl", "why", facts.pod, "-n", facts.namespace])
    return Why(
        namespace=facts.namespace,
        pod=facts.pod,
        waits=facts.standing in (WAITS, GATED),
        witness=facts,
        answer=answer,
        remarks=tuple(remarks),
        more=() if answer or not is_live else cluster_access.by_hand(access, leader, command),
    )


@contextlib.asynccontextmanager
async def _decisions_url(
    access: Access, client: Client, leader: str | None, server: str | None, forward: bool
) -> AsyncIterator[str | None]:
    """The URL of the decisions API while it is forwarded, or None if it is not reachable."""
    if server is not None:
        yield server
    elif forward and leader is not None and await cluster_access.may_forward(client, access):
        async with cluster_access.forwarded(access, leader) as url:
            yield url
    else:
        yield None


async def _decisions(url: str, namespace: str, name: str, because: str = "") -> PodAnswer:
    """The decisions API's answer; ``because`` is the earlier error, put before a new one."""
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
        show_why(found, wide=output == "wide")
