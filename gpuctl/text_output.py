"""Explanations as text: on a terminal and in a file, 80 columns if that is possible.

Texts come from pods and API servers, so whatever could move a terminal's cursor is taken out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from gpuctl.table import headed, show
from scheduler.decide.explain import Meaning, Outcome, Refusal
from scheduler.decide.score_breakdown import NodeScore, Ranking

if TYPE_CHECKING:
    from gpuctl.replay import Replayed
    from scheduler.report.decisions.api_types import Snapshot

#: With more nodes than this, equal refusals share a line.
NODES_MAX: Final = 20
NAMES_MAX: Final = 3
PARTS: Final = {
    "dislike": "soft preferences",
    "requested_left": "what is left of the requested devices",
    "others_left": "what is left of other devices",
    "milli_cpu_left": "what is left of the cpu",
    "name": "the name, everything else being equal",
}


def plain(text: str) -> Text:
    """Text that is what it says: no markup, no control characters."""
    return Text(
        "".join(c if c.isprintable() or c == "\n" else "\N{REPLACEMENT CHARACTER}" for c in text)
    )


def indented(what: RenderableType) -> RenderableType:
    """Two columns to the right."""
    return Padding(what, (0, 0, 0, 2))


def titled(title: str, what: RenderableType) -> list[RenderableType]:
    """A part of an answer below its name."""
    return ["", Text(title, style="bold"), indented(what)]


def refusals(outcome: Outcome, *, wide: bool = False) -> Table:
    """Who said no and why: one line per node, or per sentence where there are many nodes."""
    table = headed("NODE", "STAGE", "CODE", "WHY")
    for nodes, one in _lines(outcome.refusals, wide=wide):
        # What asks for more than the node has in all waits for another node, not for room.
        never = ", even when empty" if one.is_final and one.resource else ""
        table.add_row(plain(nodes), plain(one.stage), plain(one.code), plain(one.text + never))
    return table


def _lines(found: Sequence[Refusal], *, wide: bool) -> Iterable[tuple[str, Refusal]]:
    if wide or len(found) <= NODES_MAX:
        return [(one.node or "(the pod)", one) for one in found]
    alike: dict[tuple[str, str], list[Refusal]] = {}
    for one in found:
        alike.setdefault((one.code, one.text), []).append(one)
    most = sorted(alike.values(), key=len, reverse=True)
    return [(_listed([one.node for one in same]), same[0]) for same in most]


def _listed(nodes: Sequence[str]) -> str:
    shown = ", ".join(nodes[:NAMES_MAX])
    more = len(nodes) - NAMES_MAX
    return f"{shown} and {more} more" if more > 0 else shown


def advice(codes: Mapping[str, Meaning]) -> list[RenderableType]:
    """What to do, and what is waited for, per code."""
    if not codes:
        return []
    steps, helps = Table.grid(padding=(0, 2)), Table.grid(padding=(0, 2))
    for code, meaning in codes.items():
        steps.add_row(plain(code), plain(meaning.next_step))
        helps.add_row(plain(code), plain("; or ".join(meaning.helps)))
    return [*titled("what to do", steps), *titled("tried again when", helps)]


def given(outcome: Outcome) -> Table:
    """What a placed pod gets."""
    grid = Table.grid(padding=(0, 2))
    grid.add_row("node", plain(outcome.node or ""))
    if outcome.devices:
        grid.add_row("devices", plain(outcome.devices))
    if outcome.index is not None:
        grid.add_row("map index", str(outcome.index))
    if outcome.cuda_visible_devices is not None:
        grid.add_row("CUDA_VISIBLE_DEVICES", plain(outcome.cuda_visible_devices))
    for note in outcome.notes:
        grid.add_row(plain(note.reason), plain(note.text))
    return grid


def ranking(found: Ranking) -> list[RenderableType]:
    """The two best nodes and what made the difference."""
    table = headed("NODE", "DISLIKE", "REQUESTED LEFT", "OTHER LEFT", "CPU LEFT")
    for one in (found.winner, found.runner_up):
        if one is not None:
            table.add_row(*_standing(one))
    if found.runner_up is None:
        return titled("scores", Group(table, "no other node fitted"))
    by = PARTS.get(found.decided_by, found.decided_by)
    margin = f" (by {abs(found.margin)})" if found.margin else ""
    return titled("scores", Group(table, plain(f"decided by {by}{margin}")))


def _standing(one: NodeScore) -> tuple[RenderableType, ...]:
    numbers = (one.dislike, one.requested_left, one.others_left)
    return (plain(one.node), *map(str, numbers), f"{one.milli_cpu_left / 1000:g}")


def summary(outcome: Outcome) -> str:
    """A decision in one line."""
    if not outcome.is_placed:
        return outcome.message
    devices = f" ({outcome.devices})" if outcome.devices else ""
    return f"on {outcome.node}{devices}"


def show_replay(snapshot: Snapshot, found: Sequence[Replayed], *, in_full: bool) -> None:
    """Then and now, pod by pod."""
    state = snapshot.state
    parts: list[RenderableType] = [
        plain(
            f"{snapshot.program}, {snapshot.time}: {len(state.nodes)} nodes, {len(state.pods)}"
            f" pods, {len(state.queue)} of them wait"
        ),
        "",
    ]
    for one in found:
        parts += [*_replayed(one), *(_in_full(one) if in_full else ())]
    same = sum(one.is_same for one in found)
    compared = sum(one.then is not None for one in found)
    parts += ["", plain(f"{same} of {compared} decisions are the same, byte for byte")]
    if snapshot.left_out:
        parts.append(plain(f"{snapshot.left_out} more wait and were not decided for the snapshot"))
    show(Group(*parts))


def _replayed(one: Replayed) -> list[RenderableType]:
    if one.then is None or one.is_same:
        word = "same" if one.is_same else "now"
        return [plain(f"{word:8}{one.pod}: {summary(one.now)}")]
    then, now = summary(one.then), summary(one.now)
    told = [f"then: {then}", f"now:  {now}"]
    if then == now:
        told.append("in what the sentence does not say: see -o json")
    return [plain(f"DIFFERS {one.pod}"), *(indented(plain(line)) for line in told)]


def _in_full(one: Replayed) -> list[RenderableType]:
    if not one.now.is_placed:
        return ["", indented(refusals(one.now, wide=True))]
    return ["", indented(given(one.now)), *(ranking(one.ranking) if one.ranking else [])]
