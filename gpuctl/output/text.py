"""Explanations of decisions as text, within 80 columns where possible.

The texts come from pods and API servers, so control characters are replaced.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from gpuctl.output.columns import Columns
from gpuctl.output.table import headed
from scheduler.decide.explain import Meaning, Outcome, PreemptionOutcome, Refusal
from scheduler.decide.score_breakdown import NodeScore, Ranking

#: Above this number of nodes, equal refusals share a line.
NODES_MAX: Final = 20
NAMES_MAX: Final = 3
PARTS: Final = {
    "soft_penalty": "soft preferences",
    "dynamic_mig": "whether the node has dynamic MIG",
    "cost_delta": "the increase of the MIG layout cost",
    "new_instances": "the number of MIG instances to create",
    "requested_left": "what is left of the requested devices",
    "others_left": "what is left of other devices",
    "milli_cpu_left": "what is left of the cpu",
    "comparison": "kube-scheduler's scores, which compare all feasible nodes (docs/scoring.md)",
    "data": "the data of the pod on the node",
    "images": "the container images on the node",
    "name": "the name, everything else being equal",
}
#: Above the commands that reach the decisions API.
MORE: Final = "for more, an admin can run (the first in another terminal)"


def plain(text: str) -> Text:
    """The text without markup and control characters."""
    return Text(
        "".join(c if c.isprintable() or c == "\n" else "\N{REPLACEMENT CHARACTER}" for c in text)
    )


def indented(what: RenderableType) -> RenderableType:
    """The renderable, indented by two columns."""
    return Padding(what, (0, 0, 0, 2))


def titled(title: str, what: RenderableType) -> list[RenderableType]:
    """One section of the output below its title."""
    return ["", Text(title, style="bold"), indented(what)]


def refusals(outcome: Outcome, *, wide: bool = False) -> Columns:
    """The refusals: one line per node, or per sentence above NODES_MAX nodes."""
    table = headed("NODE", "STAGE", "CODE", "WHY")
    for nodes, refusal in _lines(outcome.refusals, wide=wide):
        # A request above the node's total can only fit on another node.
        never = ", even when empty" if refusal.is_final and refusal.resource else ""
        text = plain(refusal.text + never)
        table.add_row(plain(nodes), plain(refusal.stage), plain(refusal.code), text)
    return table


def _lines(found: Sequence[Refusal], *, wide: bool) -> Iterable[tuple[str, Refusal]]:
    if wide or len(found) <= NODES_MAX:
        return [(refusal.node or "(the pod)", refusal) for refusal in found]
    groups: dict[tuple[str, str], list[Refusal]] = {}
    for refusal in found:
        groups.setdefault((refusal.code, refusal.text), []).append(refusal)
    by_size = sorted(groups.values(), key=len, reverse=True)
    return [(_listed([refusal.node for refusal in group]), group[0]) for group in by_size]


def _listed(nodes: Sequence[str]) -> str:
    shown = ", ".join(nodes[:NAMES_MAX])
    more = len(nodes) - NAMES_MAX
    return f"{shown} and {more} more" if more > 0 else shown


def advice(codes: Mapping[str, Meaning]) -> list[RenderableType]:
    """Per reason code: the next step, and the events that requeue the pod."""
    if not codes:
        return []
    steps, helps = Table.grid(padding=(0, 2)), Table.grid(padding=(0, 2))
    for code, meaning in codes.items():
        steps.add_row(plain(code), plain(meaning.next_step))
        helps.add_row(plain(code), plain("; or ".join(meaning.helps)))
    return [*titled("what to do", steps), *titled("tried again when", helps)]


def preemption(found: PreemptionOutcome, *, wide: bool = False) -> list[RenderableType]:
    """The pods that have to go, or why no pod may go, or would not be enough."""
    parts: list[RenderableType] = []
    if found.barred:
        parts += titled("preempts no pod", plain(found.barred))
    if found.victims or found.elsewhere:
        parts += [*_victims(found), *_devices(found)]
    elif found.node:
        text = f"waits for the end of pods, or of their claims, on node {found.node}"
        parts += [*titled("preemption", plain(text)), *_devices(found)]
    elif found.refusals:
        parts += titled("even without every pod that may be preempted", _unhelpful(found, wide))
    if found.spared:
        table = headed("PODS", "MAY NOT BE PREEMPTED")
        for spared in found.spared:
            table.add_row(str(spared.pods), plain(spared.cause))
        parts += titled("on the nodes where the end of pods could help", table)
    return parts


def _victims(found: PreemptionOutcome) -> list[RenderableType]:
    table = headed("POD", "PRIORITY", "SCHEDULER")
    for victim in found.victims:
        name = plain(f"{victim.namespace}/{victim.pod}")
        table.add_row(name, str(victim.priority), plain(victim.scheduler))
    if found.elsewhere:
        table.add_row(f"{found.elsewhere} of other namespaces", "-", "-")
    budgets = (
        f" ({found.violations} of them against a PodDisruptionBudget)" if found.violations else ""
    )
    verb = "would have to go" if found.barred else "has to go"
    return titled(plain(f"{verb} on node {found.node}{budgets}").plain, table)


def _unhelpful(found: PreemptionOutcome, wide: bool) -> Columns:
    table = headed("NODE", "STAGE", "CODE", "WHY")
    for nodes, refusal in _lines(found.refusals, wide=wide):
        table.add_row(plain(nodes), plain(refusal.stage), plain(refusal.code), plain(refusal.text))
    return table


def _devices(found: PreemptionOutcome) -> list[RenderableType]:
    """What the claims of the pod are to get."""
    return titled("for the claims", plain(found.claims)) if found.claims else []


def placement(outcome: Outcome) -> Table:
    """Node, devices and notes of a placed pod."""
    grid = Table.grid(padding=(0, 2))
    grid.add_row("node", plain(outcome.node or ""))
    if outcome.devices:
        grid.add_row("devices", plain(outcome.devices))
    if outcome.claims:
        grid.add_row("claims", plain(outcome.claims))
    if outcome.index is not None:
        grid.add_row("map index", str(outcome.index))
    if outcome.cuda_visible_devices is not None:
        grid.add_row("CUDA_VISIBLE_DEVICES", plain(outcome.cuda_visible_devices))
    for note in outcome.notes:
        grid.add_row(plain(note.reason), plain(note.text))
    return grid


def ranking(found: Ranking) -> list[RenderableType]:
    """The two best nodes and the score component that decided."""
    table = headed("NODE", "SOFT PENALTY", "REQUESTED LEFT", "OTHER LEFT", "CPU LEFT")
    for score in (found.winner, found.runner_up):
        if score is not None:
            table.add_row(*_score_row(score))
    if found.runner_up is None:
        return titled("scores", Group(table, "no other node fitted"))
    by = PARTS.get(found.decided_by, found.decided_by)
    margin = f" (by {abs(found.margin)})" if found.margin else ""
    return titled("scores", Group(table, plain(f"decided by {by}{margin}")))


def _score_row(score: NodeScore) -> tuple[str | Text, ...]:
    numbers = (score.soft_penalty, score.requested_left, score.others_left)
    return (plain(score.node), *map(str, numbers), f"{score.milli_cpu_left / 1000:g}")


def summary(outcome: Outcome) -> str:
    """A decision in one line."""
    if not outcome.is_placed:
        return outcome.message
    devices = f" ({outcome.devices})" if outcome.devices else ""
    return f"on {outcome.node}{devices}"
