"""``gpuctl doctor``: checks a cluster before or after the installation of the scheduler.

It changes nothing; its pod creations are dry runs. Exit status 0: no check fails. 2: a check fails.
1: the API server does not answer, or the namespace does not exist.
"""

from __future__ import annotations

import asyncio
import sys
from typing import Final

import click
import msgspec

from gpuctl import cluster_access
from gpuctl.cluster_access import Access
from gpuctl.doctor.checks import examine
from gpuctl.doctor.collect import Collector, DoctorOptions
from gpuctl.doctor.facts import Facts
from gpuctl.doctor.finding import Finding, Level
from gpuctl.doctor.reader import NOT_FOUND
from gpuctl.input_error import NotReached
from gpuctl.options import Strict, in_cluster
from gpuctl.our_scheduler import our_scheduler
from scheduler.model import well_known
from scheduler.watch.client import ApiError, Client
from webhook.webhook_configuration import NAME

FAILS: Final = 2
ABOUT_WIDTH: Final = 11


@click.command(cls=Strict)
@click.option("-n", "--namespace", metavar="NS", help="namespace for the dry-run pod")
@click.option("--account", metavar="NAME", default=well_known.SCHEDULER_NAME, show_default=True)
@click.option("--webhook", metavar="NAME", default=NAME, show_default=True)
@click.option(
    "-o", "--output", type=click.Choice(["table", "json"]), default="table", show_default=True
)
@in_cluster
def doctor(
    access: Access,
    namespace: str | None,
    account: str,
    webhook: str,
    output: str,
) -> None:
    """Check the cluster, the scheduler and the webhook, and print the next steps.

    Exit status: 0 no check fails (warnings may be intended), 2 a check fails, 1 no answer from the
    API server, or no such namespace.
    """
    facts = asyncio.run(_facts(access, namespace, account, webhook))
    findings = examine(facts)
    if output == "json":
        click.echo(msgspec.json.format(msgspec.json.encode(findings), indent=2).decode())
    else:
        _show(findings)
    sys.exit(FAILS if any(finding.level is Level.FAIL for finding in findings) else 0)


async def _facts(access: Access, namespace: str | None, account: str, webhook: str) -> Facts:
    async with cluster_access.cluster(access) as client:
        await client.request("GET", "/version")  # fails early without an API server
        namespace = namespace or cluster_access.default_namespace(access)
        await _check_namespace(client, namespace)
        options = DoctorOptions(
            access=access,
            scheduler=(await our_scheduler(client, access)).name,
            account=account,
            webhook=webhook,
            namespace=namespace,
        )
        return await Collector(client, options).facts()


async def _check_namespace(client: Client, name: str) -> None:
    """NotReached if the API server says that there is no such namespace."""
    try:
        await client.request("GET", f"/api/v1/namespaces/{name}")
    except ApiError as error:
        if error.status == NOT_FOUND:
            raise NotReached(f"namespace {name} does not exist; -n NS names another") from error


def _show(findings: list[Finding]) -> None:
    for finding in findings:
        click.echo(f"{finding.level.value:4}  {finding.about:{ABOUT_WIDTH}}  {finding.says}")
        if finding.advice:
            click.echo(f"{'':4}  {'':{ABOUT_WIDTH}}  -> {finding.advice}")
