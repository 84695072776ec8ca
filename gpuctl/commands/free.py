"""``gpuctl free``: what would start now, by board and size, and what one's quota leaves."""

from __future__ import annotations

import asyncio
from typing import Final

import click

from gpuctl.capacity import read_capacity
from gpuctl.cluster_access import Access
from gpuctl.options import Strict, forwarding, output_format, reaching
from gpuctl.output import formats
from gpuctl.output import free as free_output
from gpuctl.output.table import show

DETAIL: Final = "nodes=1"


@click.command(cls=Strict)
@click.option(
    "-n", "--namespace", metavar="NS", help="whose quota  [default: the context's, else default]"
)
@output_format(*formats.ROWS)
@forwarding
@reaching
def free(
    access: Access, server: str | None, namespace: str | None, output: str, forward: bool
) -> None:
    """Show how many pods with 8, 4, 2 or 1 GPUs or a MIG slice would start now.

    Only devices, cordons and the quota are looked at; "gpuctl whatif" looks at a manifest's cpu,
    memory, selectors and tolerations, too.
    """
    answer = asyncio.run(read_capacity(access, server, namespace, detail=DETAIL, forward=forward))
    if output in ("json", "yaml", "csv"):
        formats.write(output, answer, free_output.free_rows(answer.capacity.models))
    else:
        show(free_output.free(answer))
