"""Reads the Dockerfile: its stages with copies, run steps and container configuration.

It supports the instructions that ours uses. Any other instruction is an error with its line.
"""

from __future__ import annotations

import copy
import json
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, NamedTuple

from tools.controlplane.errors import ControlPlaneError

ROOT: Final = Path(__file__).parents[2]
DOCKERFILE: Final = ROOT / "Dockerfile"
_CONTINUED: Final = re.compile(r"\s*\\\n\s*")


class Copy(NamedTuple):
    """One COPY; ``stage`` is empty if the source is the build context."""

    stage: str
    source: str
    target: str


@dataclass(slots=True, kw_only=True)
class Stage:
    """One stage, with the inherited content of its base stage."""

    base: str
    copies: list[Copy] = field(default_factory=list)
    steps: list[str] = field(default_factory=list)
    environment: dict[str, str] = field(default_factory=dict)
    user: str = ""
    folder: str = "/"
    entrypoint: list[str] = field(default_factory=list)
    command: list[str] = field(default_factory=list)
    ports: list[str] = field(default_factory=list)


def read(text: str | None = None) -> dict[str, Stage]:
    """The stages by name, in order."""
    text = DOCKERFILE.read_text(encoding="utf-8") if text is None else text
    stages: dict[str, Stage] = {}
    stage = Stage(base="")
    for word, rest in _instructions(text):
        if word == "FROM":
            base, _, name = rest.split()
            whole = copy.deepcopy(stages[base]) if base in stages else Stage(base="")
            stage = replace(whole, base=base)
            stages[name] = stage
        elif word != "ARG":
            _follow(stage, word, rest)
    return stages


def _instructions(text: str) -> Iterator[tuple[str, str]]:
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
    for line in _CONTINUED.sub(" ", "\n".join(lines)).splitlines():
        word, _, rest = line.strip().partition(" ")
        if word:
            yield word.upper(), rest.strip()


def _follow(stage: Stage, word: str, rest: str) -> None:
    match word:
        case "COPY":
            *options, source, target = rest.split()
            stage.copies.append(Copy("".join(options).removeprefix("--from="), source, target))
        case "RUN":
            stage.steps.append(rest)
        case "ENV":
            stage.environment |= dict(pair.split("=", 1) for pair in shlex.split(rest))
        case "USER":
            stage.user = rest
        case "WORKDIR":
            stage.folder = rest
        case "ENTRYPOINT":
            stage.entrypoint = json.loads(rest)
        case "CMD":
            stage.command = json.loads(rest)
        case "EXPOSE":
            stage.ports = rest.split()
        case _:
            raise ControlPlaneError(f"Dockerfile: {word} {rest}: tools.image does not know {word}")
