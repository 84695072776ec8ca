"""``gpuctl``: the command line of gpu-scheduler.

A command's module is imported when the command runs, which keeps the start of the others short.
"""

from __future__ import annotations

import importlib
from typing import Final

import click

#: Command -> its module and its summary.
COMMANDS: Final = {
    "simulate": ("gpuctl.commands.simulate", "Place pods from files, without a cluster."),
    "why": ("gpuctl.commands.why", "Explain why a pod is pending, or why it is on its node."),
    "snapshot": (
        "gpuctl.commands.snapshot",
        "Save the scheduler's state at one instant.",
    ),
    "replay": ("gpuctl.commands.replay", "Repeat the decisions of a snapshot, and compare."),
    "defrag": (
        "gpuctl.commands.defrag",
        "Find the cheapest pod restarts that make a MIG instance fit.",
    ),
    "doctor": (
        "gpuctl.commands.doctor",
        "Check the cluster, the scheduler and the webhook.",
    ),
    "demo": ("gpuctl.commands.demo", "Run the demo on a real API server (needs a checkout)."),
}


class _Late(click.Group):
    """A group that imports its commands on demand."""

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
    """GPU scheduling for Kubernetes: simulate, explain, check."""


def plugin() -> None:
    """Entry point of ``kubectl gpu-scheduler``."""
    main(prog_name="kubectl gpu-scheduler")


if __name__ == "__main__":
    main(prog_name="gpuctl")
