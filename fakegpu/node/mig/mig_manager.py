"""The protocol of mig-manager: a wanted configuration, and a label with its state.

    (no wanted configuration)                              no label
    wanted, but unreadable, illegal or in use       ->     failed
    wanted, not applied yet    -> pending, latency  ->     success | failed

The fingerprint of the applied configuration is stored, so a restart neither repeats nor forgets it.
A rejection because pods hold the instances is not stored: it is checked again whenever pods change.
"""

from __future__ import annotations

import hashlib
from typing import Final, Literal

import msgspec

from fakegpu.node.device_status import holders_of
from fakegpu.topology import mig_config
from fakegpu.topology.invalid import Invalid
from fakegpu.topology.mig_config import Layouts
from fakegpu.topology.node_topology import NodeTopology
from fakegpu.topology.pools import Pool

State = Literal["", "pending", "success", "failed"]
_WORDS: Final[dict[str, State]] = {"success": "success", "failed": "failed"}


class Wanted(msgspec.Struct, frozen=True):
    """A wanted configuration; ``problem`` if it is impossible."""

    fingerprint: str
    layouts: Layouts = ()
    problem: str = ""


class Applied(msgspec.Struct, frozen=True):
    """The result of the last one."""

    fingerprint: str = ""
    state: State = ""

    def __str__(self) -> str:
        return f"{self.fingerprint} {self.state}"


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """The current instances and the label's state; ``note`` is for the node's events.

    ``ready_at`` is set while it is pending.
    """

    layouts: Layouts
    state: State = ""
    applied: Applied = Applied()
    ready_at: float | None = None
    note: str = ""


def parse_applied(text: str) -> Applied:
    """Parse the stored record, or nothing."""
    fingerprint, _, word = text.partition(" ")
    return Applied(fingerprint, _WORDS[word]) if word in _WORDS else Applied()


def wanted(annotation: str, label: str, pool: Pool) -> Wanted | None:
    """The configuration in the node's annotation, else in its label; None without either."""
    if not annotation.strip() and not label:
        return None
    text = f"{label}\n{annotation}\n{pool.gpus}"
    fingerprint = hashlib.sha256(text.encode()).hexdigest()[:16]
    try:
        if annotation.strip():
            layouts = mig_config.read(annotation, pool.gpu_models, label)
        else:
            layouts = mig_config.by_name(label, pool.gpu_models)
    except Invalid as problem:
        return Wanted(fingerprint, problem=str(problem))
    return Wanted(fingerprint, layouts)


def step(
    want: Wanted,
    current_layouts: Layouts,
    applied: Applied,
    in_use: NodeTopology | None,
    *,
    ready_at: float | None,
    now: float,
    latency_s: float,
    fails: bool,
) -> Step:
    """The current state; ``ready_at`` is that of the last step of the same configuration."""
    if want.problem:
        return Step(layouts=current_layouts, state="failed", note=f"refused: {want.problem}")
    if applied.fingerprint == want.fingerprint:
        layouts = want.layouts if applied.state == "success" else current_layouts
        return Step(layouts=layouts, state=applied.state, applied=applied)
    if busy := _busy(current_layouts, want.layouts, in_use):
        return Step(layouts=current_layouts, state="failed", note=f"refused: {busy}")
    if ready_at is None:
        ready_at = now + latency_s
    if now < ready_at:
        return Step(layouts=current_layouts, state="pending", ready_at=ready_at)
    if fails:
        failed = Applied(want.fingerprint, "failed")
        return Step(
            layouts=current_layouts, state="failed", applied=failed, note="failed, as configured"
        )
    done = Applied(want.fingerprint, "success")
    return Step(layouts=want.layouts, state="success", applied=done)


def _busy(current_layouts: Layouts, then: Layouts, topology: NodeTopology | None) -> str:
    """Holders of GPUs that would be repartitioned; an empty text if there are none."""
    for index, gpu in enumerate(topology.gpus if topology else ()):
        before = current_layouts[index] if index < len(current_layouts) else None
        after = then[index] if index < len(then) else None
        holders = holders_of(gpu)
        if before != after and holders:
            names = sorted({f"{holder.namespace}/{holder.pod}" for holder in holders})
            more = f" and {len(names) - 1} more" if len(names) > 1 else ""
            return f"GPU {index} is in use by {names[0]}{more}"
    return ""
