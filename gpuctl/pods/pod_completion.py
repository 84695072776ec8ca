"""Completes the names of pods, and of nodes: asks the API server for them.

A completion that fails or takes long shows nothing: the shell has no place for an error.
"""

from __future__ import annotations

import asyncio
from typing import Final

import click
from click.shell_completion import CompletionItem

from gpuctl import cluster_access, targets
from gpuctl.api_lists import items_of
from gpuctl.cluster_access import Access
from gpuctl.input_error import CommandError
from gpuctl.targets import KINDS, POD_KIND, Scope
from scheduler.model.pods.pod import Pod
from scheduler.state.event import NodesReplaced
from scheduler.watch import informers
from scheduler.watch.client import ApiError

LIMIT_S: Final = 3.0


def complete_pods(
    context: click.Context, _: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """The pods that begin with the word, behind TYPE/ those of ``pod/``; waiting pods first."""
    head, slash, start = incomplete.rpartition("/")
    if slash and head.lower() not in (POD_KIND, *KINDS[POD_KIND]):
        return []
    options = context.params
    access = Access(kubeconfig=options.get("kubeconfig"), context=options.get("context"))
    try:
        pods = asyncio.run(_pods(access, Scope(namespace=options.get("namespace"))))
    except (CommandError, TimeoutError):
        return []
    found = [pod for pod in pods if pod.name.startswith(start) and not pod.is_terminal]
    return [
        CompletionItem(f"{head}{slash}{pod.name}", help=_state(pod))
        for pod in sorted(found, key=lambda pod: (bool(pod.node_name), pod.name))
    ]


def complete_nodes(
    context: click.Context, _: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """The nodes that begin with the word."""
    options = context.params
    access = Access(kubeconfig=options.get("kubeconfig"), context=options.get("context"))
    try:
        names = asyncio.run(_nodes(access))
    except (CommandError, ApiError, TimeoutError):
        return []
    return [CompletionItem(name) for name in sorted(names) if name.startswith(incomplete)]


async def _nodes(access: Access) -> list[str]:
    async with asyncio.timeout(LIMIT_S), cluster_access.cluster(access) as client:
        listed = informers.NODES.decode_list(await items_of(client, informers.NODES))
    return [node.name for node in listed.nodes] if isinstance(listed, NodesReplaced) else []


async def _pods(access: Access, scope: Scope) -> list[Pod]:
    async with asyncio.timeout(LIMIT_S), cluster_access.cluster(access) as client:
        space = await scope.space(access)
        return await targets.read_pods(client, space)


def _state(pod: Pod) -> str:
    return f"on {pod.node_name}" if pod.node_name else "waits"
