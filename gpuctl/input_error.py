"""Errors in what the user passed to a command, reported as one line on stderr."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import click

from scheduler.config import ConfigError

#: As a file name: the standard input, or the standard output.
STDIN: Final = "-"


class InputError(Exception):
    """The input is invalid; the text is one line that names the place and the fix."""


@contextmanager
def exit_on_input_error() -> Iterator[None]:
    """Print an input or configuration error as one line and exit with status 1."""
    try:
        yield
    except (InputError, ConfigError) as error:
        click.echo(str(error), err=True)
        sys.exit(1)
