"""Errors that end a command; the text is one line that names the place and the fix."""

from __future__ import annotations

from typing import Final

#: As a file name: the standard input, or the standard output.
STDIN: Final = "-"


class CommandError(Exception):
    """The command cannot be carried out."""


class InputError(CommandError):
    """What the user passed is invalid."""


class NotReached(CommandError):
    """A server did not answer, or refused; the text names it and the next step."""
