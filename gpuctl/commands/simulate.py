"""``gpuctl simulate``: places pods from files without access to a cluster."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import click
import msgspec

from gpuctl.command import Strict, note
from gpuctl.output import gpu_diagram, gpu_rows, table
from gpuctl.output.progress import ProgressBar
from gpuctl.simulate.input import Report
from gpuctl.simulate.input import simulate as run_simulation
from gpuctl.simulate.manifests import read
from gpuctl.simulate.result import PLACED
from scheduler import config as configuration

#: Exit status with --fail-on-wait.
WAITING: Final = 2


@click.command(cls=Strict)
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@click.option(
    "-o",
    "--output",
    type=click.Choice(["table", "json", "picture", "svg"]),
    default="table",
    show_default=True,
)
@click.option(
    "-n", "--namespace", default="default", show_default=True, help="for objects without one"
)
@click.option(
    "--config", type=click.Path(path_type=Path), help="configuration file of the scheduler"
)
@click.option(
    "--maps-allow",
    type=click.Choice(["all", "labelled", "none"]),
    help="namespaces that may use gpu-scheduling-map  [default: all, or the value in --config]",
)
@click.option(
    "--fallback-scope",
    type=click.Choice(["ours", "all"]),
    help="pods whose MIG requests may fall back  [default: ours, or the value in --config]",
)
@click.option(
    "--fail-on-wait", is_flag=True, help="exit status 2 if a pod waits or is refused, for CI"
)
def simulate(
    files: tuple[str, ...],
    output: str,
    namespace: str,
    config: Path | None,
    maps_allow: str | None,
    fallback_scope: str | None,
    fail_on_wait: bool,
) -> None:
    """Place pods with the scheduler's own code, without a cluster.

    FILE is YAML or JSON with Nodes, Namespaces, ResourceQuotas (of GPUs), LimitRanges,
    PriorityClasses, Pods, StatefulSets, Deployments, ReplicaSets and Jobs, with volumes and their
    claims, and with ResourceSlices, DeviceClasses, DeviceTaintRules, ResourceClaims and
    ResourceClaimTemplates; "-" is the standard input. Pods with a uid or a node exist before the
    others are created. A node without these resources gets 64 CPUs, 512Gi of memory, 1Ti of
    ephemeral storage and 110 pods.

    "picture" and "svg" draw every GPU in its final state, slice by slice where slices are known.

    An object that the API server rejects is an error, with the field and exit status 1. Without
    --fail-on-wait the exit status is 0 whether pods wait or not.

    Unlike the scheduler, whose default is "labelled", the command lets every namespace use maps.
    """
    settings = _settings(config, maps_allow, fallback_scope)
    with ProgressBar(sys.stderr) as progress:
        documents = read(list(files), progress.read)
        now = datetime.now(UTC).timestamp()
        report = run_simulation(documents, settings, namespace, progress.decided, now)
    for remark in [*report.remarks, *(report.packings if output != "table" else ())]:
        note(remark)
    _write(report, output)
    if fail_on_wait and any(row.state != PLACED for row in report.rows):
        sys.exit(WAITING)


def _settings(
    path: Path | None, maps_allow: str | None, fallback_scope: str | None
) -> configuration.Config:
    config = configuration.load(path)
    allow = maps_allow or (config.maps.allow if path else "all")
    scope = fallback_scope or config.fallback.scope
    return msgspec.structs.replace(
        config,
        maps=msgspec.convert({"allow": allow}, configuration.Maps),
        fallback=msgspec.structs.replace(config.fallback, scope=scope),
    )


def _write(report: Report, output: str) -> None:
    if output == "json":
        click.echo(msgspec.json.format(msgspec.json.encode(report.rows), indent=2).decode())
        return
    if output == "svg":
        click.echo(gpu_diagram.svg(gpu_rows.rows_of(report.cluster)))
        return
    if output == "picture":
        table.show(gpu_diagram.text(gpu_rows.rows_of(report.cluster)))
        return
    if not report.rows:
        note("the input contains no pod to place")
        return
    table.show(table.report(report.rows, table.usage_of(report.cluster), report.packings))
