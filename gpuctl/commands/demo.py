"""``gpuctl demo``: starts the demo of the checkout in which this gpuctl lies (``tools.demo``).

The demo builds a control plane from the sources of the repository, which a wheel does not contain.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Final

import click

CHECKOUT: Final = Path(__file__).resolve().parents[2]
NEEDS: Final = (
    "it needs a checkout of the gpu-scheduler repository, because it builds a control plane from"
    " its sources; run there: make demo"
)


@click.command(add_help_option=False, context_settings={"ignore_unknown_options": True})
@click.argument("words", nargs=-1, type=click.UNPROCESSED)
@click.pass_context
def demo(context: click.Context, words: tuple[str, ...]) -> None:
    """Show maps and MIG fallback at work on a real Kubernetes API server."""
    if (CHECKOUT / "tools" / "demo" / "__main__.py").is_file():
        # The demo keeps this process's id, so Ctrl-C and SIGTERM reach it directly.
        command = [sys.executable, "-m", "tools.demo", *words]
        os.execv(sys.executable, command)  # noqa: S606  # a fixed program, no shell wanted
    is_help = any(word in context.help_option_names for word in words)
    click.echo(f"{context.command_path}: {NEEDS}", err=not is_help)
    sys.exit(0 if is_help else 1)
