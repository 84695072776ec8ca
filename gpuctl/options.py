"""How a person says which cluster and which scheduler is meant: alike in every command that asks.

Misuse is exit status 1 in these commands, because 2 is an answer ("it waits").
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import click

from gpuctl.cluster_access import Access


class UsageError(click.UsageError):
    """The words on the command line make no sense together."""

    exit_code = 1


class Strict(click.Command):
    """A command that calls misuse by its own exit status."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, args)
        except click.UsageError as error:
            raise UsageError(error.format_message(), error.ctx or ctx) from error


def reaching(command: Callable[..., None]) -> Callable[..., None]:
    """Options for the way to cluster and decisions API: ``access`` and ``server``."""
    server = click.option(
        "--server", metavar="URL", help="the decisions API, where it is forwarded to"
    )
    return server(in_cluster(command))


def in_cluster(command: Callable[..., None]) -> Callable[..., None]:
    """Options for the way to the cluster; the command gets them as ``access``."""

    @click.option("--kubeconfig", metavar="FILE", help="[default: as kubectl]")
    @click.option("--context", metavar="NAME", help="a context of the kubeconfig")
    @click.option(
        "--scheduler-namespace",
        metavar="NS",
        default=Access().lease_namespace,
        show_default=True,
        help="where the scheduler runs",
    )
    @click.option(
        "--lease",
        metavar="NAME",
        default=Access().lease_name,
        show_default=True,
        help="the Lease that names the leader",
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
