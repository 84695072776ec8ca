"""``gpuctl completion``: prints the completion script of a shell.

The script calls gpuctl for each completion. kubectl completes ``kubectl gpu-scheduler`` through the
program ``kubectl_complete-gpu_scheduler`` (``kubectl_complete``).
"""

from __future__ import annotations

from typing import Final

import click
from click.shell_completion import BashComplete, ShellComplete, get_completion_class

from gpuctl.command import Strict

PROGRAM: Final = "gpuctl"
VARIABLE: Final = "_GPUCTL_COMPLETE"
#: Cobra's ShellCompDirectiveNoFileComp and ShellCompDirectiveDefault (completions.go).
NO_FILES: Final = 4
FILES: Final = 0


@click.command(cls=Strict)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print the completion script of SHELL.

    \b
    bash: gpuctl completion bash > ~/.local/share/bash-completion/completions/gpuctl
    zsh:  gpuctl completion zsh > "${fpath[1]}/_gpuctl"
    fish: gpuctl completion fish > ~/.config/fish/completions/gpuctl.fish
    """
    kind: type[ShellComplete] | None = get_completion_class(shell)
    assert kind is not None, "click knows these three"
    click.echo(_source(kind, context.find_root().command))


def _source(kind: type[ShellComplete], command: click.Command) -> str:
    complete = kind(command, {}, PROGRAM, VARIABLE)
    # BashComplete.source() runs bash for its version first, which is absent where scripts are made.
    return ShellComplete.source(complete) if kind is BashComplete else complete.source()


def kubectl_lines(command: click.Command, words: list[str]) -> str:
    """What kubectl reads of a plugin's completion: a value per line, then ``:DIRECTIVE``.

    ``words`` are those after the plugin's name, the last of which is incomplete.
    """
    *before, incomplete = words or [""]
    complete = ShellComplete(command, {}, PROGRAM, VARIABLE)
    found = complete.get_completions(before, incomplete)
    directive = FILES if any(item.type == "file" for item in found) else NO_FILES
    lines = [
        item.value + (f"\t{item.help}" if item.help else "")
        for item in found
        if item.type == "plain"
    ]
    return "\n".join([*lines, f":{directive}"])
