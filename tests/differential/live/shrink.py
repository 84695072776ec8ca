"""Cuts a sequence that differs to the fewest steps that still differ (delta debugging)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

import msgspec

from tests.differential.sequence import NodeForm, Sequence, SetObject, Step

T = TypeVar("T")

Differs = Callable[[Sequence], Awaitable[bool]]


async def shrunk(sequence: Sequence, differs: Differs) -> Sequence:
    """The smallest sequence found that differs; ``differs`` runs one."""

    for _ in range(2):  # fewer nodes may need fewer steps
        sequence = await _with_fewer_steps(sequence, differs)
        sequence = await _with_fewer_nodes(sequence, differs)
    sequence = await _with_fewer_objects(sequence, differs)
    return sequence.without_unused()


async def _with_fewer_steps(sequence: Sequence, differs: Differs) -> Sequence:
    def cut(steps: tuple[Step, ...]) -> Sequence:
        return msgspec.structs.replace(sequence, steps=steps)

    return cut(await _fewest(sequence.steps, lambda few: differs(cut(few))))


async def _with_fewer_nodes(sequence: Sequence, differs: Differs) -> Sequence:
    def cut(nodes: tuple[NodeForm, ...]) -> Sequence:
        return msgspec.structs.replace(sequence, nodes=nodes)

    return cut(await _fewest(sequence.nodes, lambda few: differs(cut(few))))


async def _with_fewer_objects(sequence: Sequence, differs: Differs) -> Sequence:
    def cut(objects: tuple[SetObject, ...]) -> Sequence:
        return msgspec.structs.replace(sequence, objects=objects)

    return cut(await _fewest(sequence.objects, lambda few: differs(cut(few))))


async def _fewest(
    items: tuple[T, ...], differs: Callable[[tuple[T, ...]], Awaitable[bool]]
) -> tuple[T, ...]:
    """Drop ever smaller parts while the rest still differs."""
    size = max(1, len(items) // 2)
    while size:
        start = 0
        while start < len(items):
            rest = items[:start] + items[start + size :]
            if await differs(rest):
                items = rest
            else:
                start += size
        size //= 2
    return items
