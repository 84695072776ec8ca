"""``gpuctl verify``: runs test pods in a namespace of its own, and removes it.

Exit status 0: no check fails. 2: a check fails. 1: the API server does not answer, or refuses the
namespace. 128 and the number of a signal that ended the run.
"""

from __future__ import annotations

import asyncio
import secrets
import signal
import sys
from typing import Final

import click
import msgspec

from gpuctl import cluster_access
from gpuctl.cluster_access import Access
from gpuctl.doctor.finding import Finding
from gpuctl.input_error import NotReached
from gpuctl.options import Strict, in_cluster, output_format
from gpuctl.our_scheduler import our_scheduler
from gpuctl.verify.result import Result
from gpuctl.verify.run import Options, Stop
from gpuctl.verify.run import verify as run_checks
from scheduler.watch.client import ApiError

FAILS: Final = 2
NO_ANSWER: Final = 1
BY_SIGNAL: Final = 128
FORBIDDEN: Final = 403
ABOUT_WIDTH: Final = 10
#: It needs no program of its own: nvidia-smi comes from the node.
IMAGE: Final = "busybox:1.36"


@click.command(cls=Strict)
@click.option("--image", metavar="IMAGE", default=IMAGE, show_default=True, help="of the test pods")
@click.option("--metrics-url", metavar="URL", default="", help="metrics of a DCGM exporter")
@click.option(
    "--timeout",
    "timeout_s",
    type=click.FloatRange(1, 600),
    default=30.0,
    show_default=True,
    help="seconds to wait for one pod",
)
@click.option(
    "--fill",
    is_flag=True,
    help="also check the fallback: take up to 8 free MIG instances of one profile meanwhile",
)
@output_format("table", "json")
@in_cluster
def verify(
    *,
    access: Access,
    image: str,
    metrics_url: str,
    timeout_s: float,
    fill: bool,
    output: str,
) -> None:
    """Run test pods, and check what the cluster does with them.

    It takes up to 4 minutes, without the time to pull the image. All test pods are in one new
    namespace, which is removed at the end, also after Ctrl-C and SIGTERM. No pod of another
    namespace is preempted.

    Exit status: 0 no check fails (skipped ones are not counted), 2 a check fails, 1 no answer from
    the API server, 128 and its number after a signal.
    """
    options = Options(
        access=access,
        scheduler=access.scheduler,
        namespace=f"gpu-verify-{secrets.token_hex(3)}",
        image=image,
        metrics_url=metrics_url,
        timeout_s=timeout_s,
        fill=fill,
    )
    result, status = asyncio.run(_result(options, is_quiet=output == "json"))
    if output == "json":
        click.echo(msgspec.json.format(msgspec.json.encode(result), indent=2).decode())
    else:
        ended = f"; ended early: {result.ended_by}" if result.ended_by else ""
        click.echo(f"{len(result.findings)} checks, {result.failed} failed{ended}")
    sys.exit(status)


async def _result(options: Options, *, is_quiet: bool) -> tuple[Result, int]:
    """The result, and the exit status."""
    stop, numbers = Stop(), list[int]()

    def end(number: signal.Signals) -> None:
        numbers.append(number)
        stop.set(f"signal {number.name}")
        click.echo("removing the test pods ...", err=True)

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:  # as under nohup
            asyncio.get_running_loop().add_signal_handler(number, end, number)
    async with cluster_access.cluster(options.access) as client:
        scheduler = await our_scheduler(client, options.access)
        options = msgspec.structs.replace(options, scheduler=scheduler.name)
        show = _silent if is_quiet else _show
        try:
            result = await run_checks(client, options, show, _note, stop)
        except ApiError as error:
            raise NotReached(_no_namespace(error)) from error
    if numbers:
        return result, BY_SIGNAL + numbers[0]
    if result.ended_by:
        return result, NO_ANSWER
    return result, FAILS if result.failed else 0


def _no_namespace(error: ApiError) -> str:
    text = error.message or str(error)
    if error.status != FORBIDDEN:
        return text
    return f"{text}; verify needs the rights of an administrator (docs/verify.md)"


def _note(text: str) -> None:
    click.echo(text, err=True)


def _show(finding: Finding) -> None:
    click.echo(f"{finding.level.value:4}  {finding.about:{ABOUT_WIDTH}}  {finding.says}")
    if finding.advice:
        click.echo(f"{'':4}  {'':{ABOUT_WIDTH}}  -> {finding.advice}")


def _silent(_finding: Finding) -> None:
    """With ``-o json`` only the result is printed."""
