"""``gpuctl version``: prints the version of the installed package, for bug reports."""

from __future__ import annotations

import platform
from importlib.metadata import version as version_of
from typing import Final

import click
import msgspec

from gpuctl.options import Strict, output_format

PACKAGE: Final = "gpu-scheduler"


class Version(msgspec.Struct, frozen=True, rename="camel"):
    """The versions that an answer of gpuctl depends on."""

    gpuctl: str
    python: str
    platform: str


@click.command(cls=Strict)
@output_format("table", "json")
def version(output: str) -> None:
    """Print the version of gpuctl and of Python."""
    found = Version(version_of(PACKAGE), platform.python_version(), platform.platform(terse=True))
    if output == "json":
        click.echo(msgspec.json.format(msgspec.json.encode(found), indent=2).decode())
        return
    click.echo(f"gpuctl {found.gpuctl} (Python {found.python}, {found.platform})")
