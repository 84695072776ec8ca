"""The result of ``gpuctl replay`` as text and as JSON."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from rich.console import Group, RenderableType

from gpuctl.output.table import show
from gpuctl.output.text import indented, placement, plain, ranking, refusals, summary
from scheduler.decide.explain import Outcome
from scheduler.decide.score_breakdown import Ranking
from scheduler.report.decisions.api_types import Snapshot


class ReplayedPod(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """One pod, then and now; ``then`` is None if the snapshot has no decision on it."""

    pod: str
    uid: str
    then: Outcome | None = None
    now: Outcome
    ranking: Ranking | None = None

    @property
    def is_same(self) -> bool:
        """Whether both decisions encode to the same bytes."""
        return self.then is not None and msgspec.json.encode(self.then) == msgspec.json.encode(
            self.now
        )


def as_json(replayed: Sequence[ReplayedPod]) -> str:
    """The JSON form, indented."""
    return msgspec.json.format(msgspec.json.encode(replayed), indent=2).decode()


def show_replay(snapshot: Snapshot, replayed: Sequence[ReplayedPod], *, in_full: bool) -> None:
    """Print both decisions of each pod, and how many are the same."""
    state = snapshot.state
    parts: list[RenderableType] = [
        plain(
            f"{snapshot.program}, {snapshot.time}: {len(state.nodes)} nodes, {len(state.pods)}"
            f" pods, {len(state.queue)} of them wait"
        ),
        "",
    ]
    for one in replayed:
        parts += [*_comparison(one), *(_in_full(one) if in_full else ())]
    same = sum(one.is_same for one in replayed)
    compared = sum(one.then is not None for one in replayed)
    parts += ["", plain(f"{same} of {compared} decisions are the same, byte for byte")]
    if snapshot.left_out:
        parts.append(plain(f"{snapshot.left_out} more wait and were not decided for the snapshot"))
    show(Group(*parts))


def _comparison(one: ReplayedPod) -> list[RenderableType]:
    if one.then is None or one.is_same:
        word = "same" if one.is_same else "now"
        return [plain(f"{word:8}{one.pod}: {summary(one.now)}")]
    then, now = summary(one.then), summary(one.now)
    lines = [f"then: {then}", f"now:  {now}"]
    if then == now:
        lines.append("they differ in fields that this line does not show: see -o json")
    return [plain(f"DIFFERS {one.pod}"), *(indented(plain(line)) for line in lines)]


def _in_full(one: ReplayedPod) -> list[RenderableType]:
    if not one.now.is_placed:
        return ["", indented(refusals(one.now, wide=True))]
    return ["", indented(placement(one.now)), *(ranking(one.ranking) if one.ranking else [])]
