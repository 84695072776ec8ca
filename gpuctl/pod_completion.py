"""Completes the names of pods: asks the API server for those of the namespace.

A completion that fails or takes long shows nothing: the shell has no place for an error.
"""

from __future__ import annotations

import asyncio
from typing import Final

import click
from click.shell_completion import CompletionItem

from gpuctl import cluster_access, targets
from gpuctl.cluster_access import Access
from gpuctl.input_error import CommandError
from gpuctl.targets import KINDS, POD_KIND, Scope
from scheduler.model.pods.pod import Pod

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


async def _pods(access: Access, scope: Scope) -> list[Pod]:
    async with asyncio.timeout(LIMIT_S), cluster_access.cluster(access) as client:
        space = await scope.space(access)
        return await targets.read_pods(client, space)


def _state(pod: Pod) -> str:
    return f"on {pod.node_name}" if pod.node_name else "waits"
