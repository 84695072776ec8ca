"""A command of gpuctl: its errors are one line that names the fix.

A usage error is exit status 1, because 2 is a result ("it is pending").
"""

from __future__ import annotations

import sys
from typing import IO, Any

import click

from gpuctl.input_error import CommandError
from scheduler.config import ConfigError


class UsageError(click.UsageError):
    """The command line is invalid."""

    exit_code = 1

    def show(self, file: IO[Any] | None = None) -> None:
        """One line: the error, and where the options are listed."""
        path = self.ctx.command_path if self.ctx else "gpuctl"
        problem = self.format_message().rstrip(".")
        click.echo(f"{path}: {problem} (see {path} -h)", file=file, err=file is None)


class Strict(click.Command):
    """A command whose errors are one line that begins with its name, and exit status 1."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, args)
        except click.UsageError as error:
            raise UsageError(error.format_message(), error.ctx or ctx) from error

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except (CommandError, ConfigError) as error:
            note(str(error))
            sys.exit(1)


def note(text: str) -> None:
    """One line on the standard error that begins with the command's name, as the user wrote it."""
    context = click.get_current_context(silent=True)
    click.echo(f"{context.command_path if context else 'gpuctl'}: {text}", err=True)
