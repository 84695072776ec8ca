"""``gpuctl``: the command line of gpu-scheduler.

Each command is imported when it is called, so that none waits for what it does not need.
"""

from __future__ import annotations

import importlib
from typing import Final

import click

#: Command -> its module and what it is for.
COMMANDS: Final = {
    "simulate": ("gpuctl.simulate", "Say where pods would go, without a cluster."),
    "why": ("gpuctl.why", "Say why a pod waits, or why it is where it is."),
    "snapshot": ("gpuctl.snapshot", "Fetch the scheduler's whole state, one instant of it."),
    "replay": ("gpuctl.replay", "Decide again what a snapshot holds, and compare."),
    "defrag": ("gpuctl.defrag", "Find the cheapest moves that make a MIG instance fit."),
    "doctor": (
        "gpuctl.doctor.command",
        "Look whether cluster, scheduler and webhook are as they must be.",
    ),
    "demo": ("gpuctl.demo.command", "Show the product at work on a real API server."),
}


class _Late(click.Group):
    """A group whose commands are imported when they are needed."""

    def list_commands(self, _ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, _ctx: click.Context, name: str) -> click.Command | None:
        if name not in COMMANDS:
            return None
        command: click.Command = getattr(importlib.import_module(COMMANDS[name][0]), name)
        return command

    def format_commands(self, _ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in COMMANDS.items()])


@click.group(cls=_Late, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="gpu-scheduler")
def main() -> None:
    """GPU scheduling for Kubernetes: try it, see it, ask why."""


def plugin() -> None:
    """The same as ``kubectl gpu-scheduler``: kubectl calls the program of that name."""
    main(prog_name="kubectl gpu-scheduler")


if __name__ == "__main__":
    main(prog_name="gpuctl")
