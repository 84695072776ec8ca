"""Console sessions in documents: what is typed and what is then seen, for tests to replay.

A fenced block ``console`` holds lines that begin with ``$ `` and what each of them prints; a block
``sh`` holds commands only.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PROMPT = "$ "
#: The end of a pod's name as controllers make it up, with or without a template's hash.
_MADE_UP = re.compile(r"(-[a-z0-9]{8,10})?-[bcdfghjklmnpqrstvwxz2456789]{5}(?=[\s,:]|$)")
#: Device names have a kind and a UUID; which of two equal devices is assigned is unspecified.
_UUID = re.compile(r"-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b")
#: Devices of DRA, after the node in a row that ends with one: gpu-0, gpu-0-mig-3g40gb-9-4.
_DRA_DEVICE = re.compile(r"(?<= dra-1   )gpu-[0-9]+(?:(-mig-[a-z0-9-]+)-[0-9]+)?$")


@dataclass(frozen=True)
class Step:
    """One command, and the lines that the document shows below it."""

    command: str
    shown: tuple[str, ...] = ()


def blocks(text: str, *kinds: str) -> list[str]:
    """The contents of the fenced blocks of these kinds, in order."""
    return [body for kind, body in _BLOCK.findall(text) if kind in kinds]


def steps(text: str) -> list[Step]:
    """Every command of a document's console sessions, with what it prints."""
    found: list[Step] = []
    for body in blocks(text, "console"):
        for line in body.replace("\\\n", "").splitlines():
            if line.startswith(PROMPT):
                found.append(Step(" ".join(line.removeprefix(PROMPT).split())))
            else:
                last = found.pop()
                found.append(Step(last.command, (*last.shown, line)))
    return found


def commands(text: str) -> list[str]:
    """Every command of a document's blocks ``sh``."""
    joined = "".join(blocks(text, "sh")).replace("\\\n", "")
    return [" ".join(line.split()) for line in joined.splitlines() if line.strip()]


def alike(lines: Iterable[str]) -> list[str]:
    """Lines without what differs each time: made-up names, the width of columns, the order."""
    names = (
        _DRA_DEVICE.sub(r"gpu-*\1", _UUID.sub("-*", _MADE_UP.sub("-*", line))) for line in lines
    )
    return sorted(line for line in (" ".join(name.split()) for name in names) if line)
