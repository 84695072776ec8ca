"""The plan of ``gpuctl defrag`` as text and as JSON."""

from __future__ import annotations

import shlex

import msgspec
from rich.console import Group, RenderableType
from rich.text import Text

from gpuctl.output import table
from scheduler.decide.migration.defrag_plan import Plan, Relocation
from scheduler.model.gpu.device import format_devices


class MoveDocument(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One move in the JSON form."""

    pod: str
    source: str
    node: str
    devices: str
    gpu_minutes: float


class PlanDocument(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A plan in the JSON form."""

    pod: str
    node: str
    devices: str
    restarts: int
    gpu_minutes: float
    gain: float
    certain: bool
    moves: tuple[MoveDocument, ...]


def as_json(plan: Plan) -> str:
    """The JSON form, indented."""
    moves = tuple(
        MoveDocument(
            pod=move.pod.key,
            source=f"{move.pod.node_name} {move.source}",
            node=move.node_name,
            devices=format_devices(move.devices),
            gpu_minutes=round(move.gpu_minutes, 1),
        )
        for move in plan.moves
    )
    document = PlanDocument(
        pod=plan.pod.key,
        node=plan.node_name,
        devices=str(plan.mig_placement),
        restarts=plan.restarts,
        gpu_minutes=round(plan.gpu_minutes, 1),
        gain=round(plan.gain, 2),
        certain=plan.is_certain,
        moves=moves,
    )
    return msgspec.json.format(msgspec.json.encode(document), indent=2).decode()


def render(plan: Plan) -> RenderableType:
    """The plan as text, with the command that executes it."""
    key, mig_placement = plan.pod.key, plan.mig_placement
    target = f"{plan.node_name}, GPU {mig_placement.gpu}, from slice {mig_placement.start}"
    if not plan.moves:
        return Text(f"{key} fits already: {mig_placement.profile} on {target}; no pod has to move")
    noun = "restart" if plan.restarts == 1 else "restarts"
    command = shlex.join(["gpuctl", "defrag", key, "--moves", str(plan.restarts), "--execute"])
    return Group(
        Text(f"{key}: {mig_placement.profile} fits on {target}, after {plan.restarts} {noun}:"),
        "",
        _moves(plan.moves),
        "",
        Text(
            f"at most {plan.gpu_minutes:.1f} GPU-minutes of work are lost: the run time of these"
            " pods"
        ),
        Text(f"the plan gains {plan.gain:.1f} memory slices (layout cost of all GPUs)"),
        *_doubts(plan),
        Text(f"to evict them: {command}"),
    )


def _doubts(plan: Plan) -> list[Text]:
    if plan.is_certain:
        return []
    return [
        Text(
            f"not certain: {plan.pod.key} must be placed before the new pods, which may take the"
            " freed slices again"
        )
    ]


def _moves(moves: tuple[Relocation, ...]) -> RenderableType:
    rows = table.headed("POD", "FROM", "TO", "GPU-MINUTES")
    for move in moves:
        rows.add_row(
            move.pod.key,
            f"{move.pod.node_name} {move.source}",
            f"{move.node_name} {format_devices(move.devices)}",
            f"{move.gpu_minutes:.1f}",
        )
    return rows
