"""``gpuctl``: the command line of gpu-scheduler.

A command's module is imported when the command runs, which keeps the start of the others short.
"""

from __future__ import annotations

import difflib
import importlib
import sys
from typing import Final

try:
    import click
except ModuleNotFoundError:
    sys.exit(
        "gpuctl: install the wheel with its extra cli: pipx install 'gpu-scheduler[cli] @ WHEEL'"
    )

#: Command -> its module and its summary.
COMMANDS: Final = {
    "top": ("gpuctl.commands.top", "Show which namespaces, nodes and pods hold GPUs."),
    "cost": ("gpuctl.commands.cost", "Show what the GPUs cost, now or over a range of time."),
    "free": ("gpuctl.commands.free", "Show what would start now, and what your quota leaves."),
    "simulate": ("gpuctl.commands.simulate", "Place pods from files, without a cluster."),
    "whatif": (
        "gpuctl.commands.whatif",
        "Show what a manifest or other nodes would come to, now.",
    ),
    "dashboard": (
        "gpuctl.commands.dashboard",
        "Serve the web pages of the leader on this machine.",
    ),
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
    "verify": (
        "gpuctl.commands.verify",
        "Run test pods, and check what the cluster does with them.",
    ),
    "report": ("gpuctl.commands.report", "Write a report from the result of verify."),
    "demo": ("gpuctl.commands.demo", "Run the demo on a real API server (needs a checkout)."),
    "version": ("gpuctl.commands.version", "Print the version of gpuctl and of Python."),
    "completion": ("gpuctl.commands.completion", "Print the completion script of a shell."),
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

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            near = difflib.get_close_matches(args[0], COMMANDS, 1)
            help_text = f"did you mean {near[0]}?" if near else f"see {ctx.command_path} -h"
            click.echo(f"{ctx.command_path}: no command {args[0]}; {help_text}", err=True)
            ctx.exit(1)
        return super().resolve_command(ctx, args)

    def format_commands(self, _ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in COMMANDS.items()])


@click.group("gpuctl", cls=_Late, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="gpu-scheduler")
def main() -> None:
    """GPU scheduling for Kubernetes: simulate, explain, check."""


def plugin() -> None:
    """Entry point of ``kubectl gpu-scheduler``."""
    main(prog_name="kubectl gpu-scheduler")


def kubectl_complete() -> None:
    """Entry point of ``kubectl_complete-gpu_scheduler``, which kubectl runs on the tab key."""
    from gpuctl.commands.completion import kubectl_lines

    click.echo(kubectl_lines(main, sys.argv[1:]))


if __name__ == "__main__":
    main(prog_name="gpuctl")
