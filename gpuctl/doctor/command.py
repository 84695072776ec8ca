"""``gpuctl doctor``: a preflight of the cluster, for whoever installs or runs the scheduler.

It changes nothing: the one pod that it creates is a dry run. Exit status 0: nothing fails. 2:
something does. 1: the API server cannot be asked.
"""

from __future__ import annotations

import asyncio
import sys
from typing import Final

import click
import msgspec

from gpuctl import cluster_access
from gpuctl.cluster_access import Access, NotReached
from gpuctl.doctor.collect import Collector, Question
from gpuctl.doctor.examine import examine
from gpuctl.doctor.facts import Facts
from gpuctl.doctor.finding import Finding, Level
from gpuctl.options import Strict, in_cluster
from scheduler.model import well_known
from scheduler.watch.client import ApiError, Unreachable
from webhook.webhook_configuration import NAME

FAILS: Final = 2
ABOUT_WIDTH: Final = 11


@click.command(cls=Strict)
@click.option("-n", "--namespace", metavar="NS", help="where a pod's creation is tried (dry run)")
@click.option("--scheduler", metavar="NAME", default=well_known.SCHEDULER_NAME, show_default=True)
@click.option("--account", metavar="NAME", default=well_known.SCHEDULER_NAME, show_default=True)
@click.option("--webhook", metavar="NAME", default=NAME, show_default=True, help="its registration")
@click.option(
    "-o", "--output", type=click.Choice(["table", "json"]), default="table", show_default=True
)
@in_cluster
def doctor(
    access: Access,
    namespace: str | None,
    scheduler: str,
    account: str,
    webhook: str,
    output: str,
) -> None:
    """Look whether cluster, scheduler and webhook are as they must be, and say what to do.

    Exit status: 0 nothing fails (warnings may be meant so), 2 something does, 1 nobody answers.
    """
    try:
        facts = asyncio.run(_facts(access, namespace, scheduler, account, webhook))
    except (NotReached, Unreachable, ApiError) as error:
        click.echo(f"gpuctl doctor: {error}", err=True)
        sys.exit(1)
    findings = examine(facts)
    if output == "json":
        click.echo(msgspec.json.format(msgspec.json.encode(findings), indent=2).decode())
    else:
        _show(findings)
    sys.exit(FAILS if any(one.level is Level.FAIL for one in findings) else 0)


async def _facts(
    access: Access, namespace: str | None, scheduler: str, account: str, webhook: str
) -> Facts:
    async with cluster_access.cluster(access) as client:
        await client.request("GET", "/version")  # who does not answer this, answers nothing
        question = Question(
            access=access,
            scheduler=scheduler,
            account=account,
            webhook=webhook,
            namespace=namespace or await cluster_access.default_namespace(access),
        )
        return await Collector(client, question).facts()


def _show(findings: list[Finding]) -> None:
    for one in findings:
        click.echo(f"{one.level.value:4}  {one.about:{ABOUT_WIDTH}}  {one.says}")
        if one.advice:
            click.echo(f"{'':4}  {'':{ABOUT_WIDTH}}  -> {one.advice}")
