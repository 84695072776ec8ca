"""The bytes of PodDisruptionBudgets -> budgets. One that cannot be read covers no pod."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from scheduler.model.disruption_budget import DisruptionBudget
from scheduler.model.json_bounds import UNREADABLE
from scheduler.model.pods.pod_affinity import pod_selector
from scheduler.model.selector import LabelSelector
from scheduler.state import event as ev
from scheduler.watch.decode.api_types import Meta
from scheduler.watch.decode.unreadable import identity


class _Spec(msgspec.Struct, frozen=True):
    """The pods that a budget covers."""

    selector: LabelSelector | None = None


class _Status(msgspec.Struct, frozen=True, rename="camel"):
    """What the disruption controller counted."""

    disruptions_allowed: int = 0
    disrupted_pods: dict[str, msgspec.Raw] | None = None


class BudgetWire(msgspec.Struct, frozen=True):
    """A PodDisruptionBudget as far as it is read."""

    metadata: Meta
    spec: _Spec = _Spec()
    status: _Status = _Status()


BUDGET = msgspec.json.Decoder(BudgetWire)


def to_budget(wire: BudgetWire) -> DisruptionBudget:
    """A DisruptionBudget of the model."""
    return DisruptionBudget(
        namespace=wire.metadata.namespace,
        name=wire.metadata.name,
        selector=pod_selector(wire.spec.selector),
        allowed=wire.status.disruptions_allowed,
        disrupted=frozenset(wire.status.disrupted_pods or ()),
    )


def budget_event(content: bytes, is_gone: bool) -> ev.Event:
    """A line of the budgets' watch."""
    if is_gone:
        namespace, name, _ = identity(content)
        return ev.BudgetDeleted(namespace, name)
    return ev.BudgetUpdated(_read(content))


def budgets_listed(items: Iterable[msgspec.Raw]) -> ev.Event:
    """The list of budgets."""
    return ev.BudgetsReplaced(tuple(map(_read, items)))


def _read(content: bytes | msgspec.Raw) -> DisruptionBudget:
    try:
        return to_budget(BUDGET.decode(content))
    except UNREADABLE:
        namespace, name, _ = identity(bytes(content))
        return DisruptionBudget(namespace=namespace, name=name)
