"""Command line options that select the cluster and the scheduler, shared by the commands.

A usage error is exit status 1 in these commands, because 2 is a result ("it is pending").
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import click

from gpuctl.cluster_access import Access


class UsageError(click.UsageError):
    """The command line is invalid."""

    exit_code = 1


class Strict(click.Command):
    """A command whose usage errors have exit status 1."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, args)
        except click.UsageError as error:
            raise UsageError(error.format_message(), error.ctx or ctx) from error


def reaching(command: Callable[..., None]) -> Callable[..., None]:
    """Options that select cluster and decisions API: ``access`` and ``server``."""
    server = click.option(
        "--server", metavar="URL", help="URL of the decisions API, for example of a port-forward"
    )
    return server(in_cluster(command))


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
    @functools.wraps(command)
    def wrapped(
        *,
        kubeconfig: str | None,
        context: str | None,
        scheduler_namespace: str,
        lease: str,
        **others: Any,
    ) -> None:
        access = Access(
            kubeconfig=kubeconfig,
            context=context,
            lease_namespace=scheduler_namespace,
            lease_name=lease,
        )
        command(access=access, **others)

    return wrapped
