"""``make lab``: every part of the lab, ``gpuctl verify`` on its cluster, and the report.

Exit status 0: every part and every check is as promised. 1: one is not, or a program ended.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path

import click

from tools.controlplane import ControlPlaneError
from tools.lab.cluster import Cluster
from tools.lab.parts import PARTS, LabError
from tools.product import ProductError

#: ``wait_until`` raises ControlPlaneError for what does not become true in time.
REPORTED_ERRORS = (LabError, ProductError, ControlPlaneError)
VERIFY_S = 120.0


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--report",
    type=click.Path(path_type=Path, dir_okay=False),
    help="file for the report  [default: standard output]",
)
def lab(report: Path | None) -> None:
    """Run the GPU scheduling lab on a real API server, without GPUs, and write its report."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="gpu-lab-") as folder:
        try:
            text = _run(Path(folder), began)
        except REPORTED_ERRORS as error:
            click.echo(f"lab: {error}", err=True)
            sys.exit(1)
    if report is None:
        click.echo(text, nl=False)
    else:
        report.write_text(text, encoding="utf-8")
    click.echo(f"the lab is complete after {time.monotonic() - began:.0f} s", err=True)


def _run(folder: Path, began: float) -> str:
    with Cluster(folder) as cluster:
        for name, part in PARTS.items():
            seen = part(cluster)
            click.echo(f"{time.monotonic() - began:4.0f} s  {name:16}  {seen}", err=True)
        cluster.delete_workloads()
        result = folder / "verify.json"
        found = _gpuctl(
            "verify",
            *("-o", "json", "--timeout", "20", "--fill"),
            *("--kubeconfig", str(cluster.plane.kubeconfig)),
            *("--metrics-url", cluster.metrics_url),
        )
        if found.returncode:
            raise LabError(f"gpuctl verify: {found.stdout}{found.stderr}")
        result.write_text(found.stdout, encoding="utf-8")
        written = _gpuctl("report", str(result))
        if written.returncode:
            raise LabError(f"gpuctl report: {written.stderr}")
        return written.stdout


def _gpuctl(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "gpuctl", *words],
        capture_output=True,
        text=True,
        check=False,
        timeout=VERIFY_S,
    )


if __name__ == "__main__":
    lab(prog_name="lab")
