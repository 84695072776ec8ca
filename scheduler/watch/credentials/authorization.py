"""The credentials that a request carries: none, a constant header, or a token in a file."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, Protocol

#: The kubelet rotates a token long before it expires; client-go reads the file as often.
TOKEN_AGE_MAX_S: Final = 60.0


class Authorization(Protocol):
    """The credentials that every request carries."""

    async def header(self) -> str | None:
        """The value of the header Authorization, renewed when it is due; None without one."""


class Constant:
    """A header that never changes, or none."""

    def __init__(self, value: str | None = None) -> None:
        self._value = value

    async def header(self) -> str | None:
        """The header."""
        return self._value


class TokenFile:
    """The token of a file, which is read again every minute: the kubelet rotates it.

    While the file cannot be read, or is empty, the last token counts.
    """

    def __init__(self, path: Path, clock: Callable[[], float] = time.monotonic) -> None:
        self._path = path
        self._clock = clock
        self._due = 0.0
        self._token = ""

    def read(self) -> str:
        """Read the token now; empty if the file is. OSError if it cannot be read."""
        self._due = self._clock() + TOKEN_AGE_MAX_S
        token = self._path.read_text("ascii").strip()
        self._token = token or self._token
        return token

    async def header(self) -> str | None:
        """The token in the file, at most a minute old."""
        if self._clock() >= self._due:
            with contextlib.suppress(OSError, UnicodeError):
                self.read()
        return f"Bearer {self._token}"
