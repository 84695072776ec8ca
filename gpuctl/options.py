"""The options that all commands share: cluster, scope, and output format.

``-n``, ``-A`` and ``-l`` select pods, TYPE/NAME is read by ``gpuctl.targets``, ``-o`` selects the
format.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Final

import click

from gpuctl.cluster_access import Access
from gpuctl.command import Strict, UsageError
from gpuctl.targets import Scope

__all__ = [
    "WATCH_S",
    "Strict",
    "UsageError",
    "forwarding",
    "in_cluster",
    "output_format",
    "reaching",
    "scoped",
]

#: Time between two answers of ``--watch``, each of which costs the leader one.
WATCH_S: Final = 10.0


def reaching(command: Callable[..., None]) -> Callable[..., None]:
    """Options that select cluster and decisions API: ``access`` and ``server``."""
    server = click.option(
        "--server", metavar="URL", help="URL of the decisions API, for example of a port-forward"
    )
    return server(in_cluster(command))


def forwarding(command: Callable[..., None]) -> Callable[..., None]:
    """``--forward/--no-forward``, given as ``forward``."""
    return click.option(
        "--forward/--no-forward", default=True, help="run kubectl port-forward to the leader"
    )(command)


def in_cluster(command: Callable[..., None]) -> Callable[..., None]:
    """Options that select the cluster; the command receives them as ``access``."""

    @click.option("--kubeconfig", metavar="FILE", help="[default: kubectl's]")
    @click.option("--context", metavar="NAME", help="context of the kubeconfig")
    @click.option(
        "--scheduler-namespace",
        metavar="NS",
        default=Access().lease_namespace,
        show_default=True,
        help="namespace of the scheduler",
    )
    @click.option(
        "--lease",
        metavar="NAME",
        default=Access().lease_name,
        show_default=True,
        help="Lease of the scheduler's leader election",
    )
    @click.option(
        "--scheduler",
        metavar="NAME",
        default="",
        help="schedulerName of its pods  [default: of the installation]",
    )
    @functools.wraps(command)
    def wrapped(
        *,
        kubeconfig: str | None,
        context: str | None,
        scheduler_namespace: str,
        lease: str,
        scheduler: str,
        **others: Any,
    ) -> None:
        access = Access(
            kubeconfig=kubeconfig,
            context=context,
            lease_namespace=scheduler_namespace,
            lease_name=lease,
            scheduler=scheduler,
        )
        command(access=access, **others)

    return wrapped


def scoped(command: Callable[..., None]) -> Callable[..., None]:
    """``-n``, ``-A`` and ``-l``; the command receives them as ``scope``."""

    @click.option("-n", "--namespace", metavar="NS", help="[default: the context's, else default]")
    @click.option("-A", "--all-namespaces", is_flag=True, help="every namespace")
    @click.option("-l", "--selector", metavar="LABELS", default="", help="as kubectl's -l")
    @functools.wraps(command)
    def wrapped(
        *, namespace: str | None, all_namespaces: bool, selector: str, **others: Any
    ) -> None:
        if all_namespaces and namespace is not None:
            raise UsageError("-n and -A exclude each other", click.get_current_context())
        scope = Scope(namespace=namespace, all_namespaces=all_namespaces, selector=selector)
        command(scope=scope, **others)

    return wrapped


def output_format(*forms: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """``-o`` with these formats, the first of which is the default; given as ``output``."""
    return click.option(
        "-o", "--output", type=click.Choice(forms), default=forms[0], show_default=True
    )
