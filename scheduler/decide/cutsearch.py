"""The best node that cuts GPUs to order, found by layout (``state/cutindex``) and not by a scan.

For one instance the layouts that occur are gone through in the order of what it costs them; for
several in one pod it is nodes of equal signature. A property test compares with a full scan.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from scheduler.decide import joint
from scheduler.decide.scores import Score
from scheduler.decide.work import Work
from scheduler.model import mig, names
from scheduler.model.layoutcost import best_start
from scheduler.model.pod import Pod
from scheduler.state.cutindex import CutShelves, Key, Signature, Spare
from scheduler.state.ledger import NodeBooks
from scheduler.state.shelf import LEAST

#: What a node scores, or None where it will not do.
Judge = Callable[[str], tuple[Score, NodeBooks] | None]


def best(
    shelf_sets: Iterable[CutShelves], pod: Pod, judge: Judge, work: Work, *, spread: bool
) -> list[tuple[Score, NodeBooks]]:
    """The best node of each set of shelves, as far as ``work`` allows."""
    profiles = joint.wanted(pod)
    if not profiles:
        return []
    # A node may be over its cpu; whoever asks for none may go there all the same.
    cpu = pod.requests.get(names.CPU, 0) or LEAST
    return [
        found
        for shelves in shelf_sets
        for found in _best_of(shelves, profiles, cpu, judge, work, spread=spread)
    ]


def _best_of(
    shelves: CutShelves,
    profiles: tuple[str, ...],
    cpu: int,
    judge: Judge,
    work: Work,
    *,
    spread: bool,
) -> list[tuple[Score, NodeBooks]]:
    """The first node of each kind that costs no more than any other that will do."""
    found: list[tuple[Score, NodeBooks]] = []
    least: float | None = None
    for rise, keys in _ways(shelves, profiles, work):
        if least is not None and rise > least:
            break
        for key in keys:
            shelf = shelves.shelf(key)
            slots = shelf.fitting(1, cpu, spread=spread) if shelf is not None else ()
            passed = next((mark for _, (_, name) in slots if (mark := judge(name))), None)
            if passed is not None:
                found.append(passed)
                least = rise
                break
    return found


def _ways(
    shelves: CutShelves, profiles: tuple[str, ...], work: Work
) -> Iterator[tuple[float, tuple[Key, ...]]]:
    """What it costs where, least first; of the keys of one way the first is preferred."""
    if len(profiles) > 1:
        yield from _signatures(shelves.signatures, profiles, work)
        return
    profile = profiles[0]
    for rise, cut in shelves.ranked(profile):
        found = best_start(mig.BOARDS[cut.board], cut.layout, profile)
        assert found is not None, "a layout without room is ranked"
        yield rise, (Spare(cut, (profile, found[0])), cut)


def _signatures(
    known: Iterable[Signature], profiles: tuple[str, ...], work: Work
) -> Iterator[tuple[float, tuple[Key, ...]]]:
    found: list[tuple[float, int, Signature]] = []
    for number, one in enumerate(known):
        way = joint.searched(mig.BOARDS[one.board], one.layouts, profiles)
        if not work.once((one.board, one.layouts), way.steps):
            break
        if way.found is not None:
            found.append((way.rise, number, one))
    return ((rise, (one,)) for rise, _, one in sorted(found, key=lambda way: way[:2]))
