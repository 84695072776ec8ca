"""Reads and checks the list of guards."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import msgspec

from tools.mutants import manifest, mutation

LIST: Final = Path(__file__).with_name("guards.yaml")


class Guard(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One guard: the change that removes it (``mutation``), and the tests that must fail then."""

    guard: str
    file: str
    at: str = ""
    find: str
    change: str
    tests: tuple[str, ...]

    @property
    def needs_api_server(self) -> bool:
        """Whether one of its tests starts a control plane, which takes minutes instead of
        seconds.
        """
        return any(test.startswith("tests/controlplane/") for test in self.tests)


class Misfit(Exception):
    """A guard that does not match the code; the text is one line."""


def read(path: Path = LIST) -> list[Guard]:
    """All guards; names are unique."""
    guards = msgspec.yaml.decode(path.read_bytes(), type=list[Guard])
    names = [guard.guard for guard in guards]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise Misfit(f"guards of one name: {', '.join(twice)}")
    return guards


def without(guard: Guard, text: str) -> str:
    """A file's text without the guard."""
    change = manifest.mutated if guard.file.endswith(".yaml") else mutation.mutated
    try:
        return change(text, guard.at, guard.find, guard.change)
    except mutation.NotFound as problem:
        raise Misfit(f"{guard.file}: {problem}") from problem
