"""``gpuctl simulate``: where would these pods go?

Never asks a cluster and never changes one.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import click
import msgspec

from gpuctl.manifests import InputError, read
from gpuctl.progress import ProgressBar
from gpuctl.simulation import Report
from gpuctl.simulation import simulate as play
from scheduler import config as configuration


@click.command()
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@click.option(
    "-o",
    "--output",
    type=click.Choice(["table", "json", "picture", "svg"]),
    default="table",
    show_default=True,
)
@click.option("-n", "--namespace", default="default", show_default=True, help="of objects without")
@click.option("--config", type=click.Path(path_type=Path), help="the scheduler's configuration")
@click.option(
    "--maps-allow",
    type=click.Choice(["all", "labelled", "none"]),
    help="who may use gpu-scheduling-map  [default: all, or what --config says]",
)
@click.option(
    "--fallback-scope",
    type=click.Choice(["ours", "all"]),
    help="whose MIG requests may fall back  [default: ours, or what --config says]",
)
def simulate(
    files: tuple[str, ...],
    output: str,
    namespace: str,
    config: Path | None,
    maps_allow: str | None,
    fallback_scope: str | None,
) -> None:
    """Say where pods would go, by the scheduler's own code and without a cluster.

    FILE is YAML or JSON with Nodes, Namespaces, ResourceQuotas (of GPUs), LimitRanges,
    PriorityClasses, Pods, StatefulSets, Deployments, ReplicaSets and Jobs; "-" is the standard
    input. Pods that have a uid or a node already count as running. A node that does not say gets
    64 CPUs, 512Gi of memory, 1Ti of ephemeral storage and room for 110 pods.

    "picture" and "svg" draw every GPU afterwards, slice by slice where the places are known.

    Unlike the scheduler, whose default is "labelled", this lets every namespace use maps.
    """
    with explained():
        settings = _settings(config, maps_allow, fallback_scope)
        with ProgressBar(sys.stderr) as patience:
            documents = read(list(files), patience.read)
            now = datetime.now(UTC).timestamp()
            report = play(documents, settings, namespace, patience.decided, now)
    for remark in [*report.remarks, *(report.packings if output != "table" else ())]:
        click.echo(f"gpuctl: {remark}", err=True)
    _write(report, output)


@contextmanager
def explained() -> Iterator[None]:
    """A mistake in the input is one line on stderr and exit status 1."""
    try:
        yield
    except (InputError, configuration.ConfigError) as mistake:
        click.echo(str(mistake), err=True)
        sys.exit(1)


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
        text = msgspec.json.format(msgspec.json.encode(report.rows), indent=2).decode()
        click.echo(text)
        return
    from gpuctl import gpu_diagram, gpu_rows, table

    strips = gpu_rows.strips(report.cluster)
    if output == "svg":
        click.echo(gpu_diagram.svg(strips))
        return
    if output == "picture":
        table.show(gpu_diagram.pictures(strips))
        return
    if not report.rows:
        click.echo("there is no pod to place in the input", err=True)
        return
    table.show(table.report(report.rows, table.usage_of(report.cluster), report.packings))
