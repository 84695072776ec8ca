"""The kind ``volumes``: pods with claims, on the nodes of ``core``."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from tests.differential.generate import core, storage
from tests.differential.generate.draws import Draws
from tests.differential.sequence import (
    CreatePod,
    DeleteObject,
    NodeForm,
    Sequence,
    SetNode,
    Step,
    Workload,
)

KIND: Final = "volumes"
_CLAIMS: Final = tuple(f"c{number}" for number in range(1, 9))
_NAMESPACES: Final = ("red", "blue")
_NODES: Final = (3, 4, 5, 6, 8)
_STEPS: Final = (18, 30)


def sequence(seed: int) -> Sequence:
    """The sequence of a seed."""
    return drawn(KIND, seed)


def drawn(kind: str, seed: int) -> Sequence:
    """``core`` with simpler pods, and storage beside them."""
    base = core.drawn(kind, seed, _NODES, _STEPS)
    draws = Draws(f"{kind} storage {seed}")
    nodes = tuple(map(_in_zone, base.nodes))
    names = tuple(one.name for one in nodes)
    objects = storage.shared(draws, names)
    for namespace in _NAMESPACES:
        for name in draws.some(_CLAIMS, 7):
            objects += storage.claims(draws, namespace, name)
    objects += [storage.volume(draws, f"v{number}") for number in range(draws.number(1, 5))]
    workloads = tuple(
        _with_volumes(draws, one) if index % 4 else one
        for index, one in enumerate(base.workloads * 3)
    )
    steps = _Steps(draws, names, len(base.workloads), len(workloads))
    found = msgspec.structs.replace(
        base,
        nodes=nodes,
        objects=tuple(objects),
        workloads=workloads,
        steps=tuple(steps.changed(step) for step in base.steps),
    )
    return found.without_unused()


def _in_zone(form: NodeForm) -> NodeForm:
    zone = form.labels.get("zone")
    labels = {**form.labels, storage.ZONE: zone} if zone else form.labels
    return msgspec.structs.replace(form, labels=labels, taints=(), cordoned=False)


def _with_volumes(draws: Draws, workload: Workload) -> Workload:
    claims = draws.some(
        (*_CLAIMS, "absent") if draws.chance(0.03) else _CLAIMS, draws.one((1, 1, 1, 2))
    )
    volumes: list[dict[str, Any]] = [
        {"name": name, "persistentVolumeClaim": {"claimName": name}} for name in claims
    ]
    if draws.chance(0.1):
        disk = {"pdName": draws.one(("d1", "d2")), "readOnly": draws.chance(0.5)}
        volumes.append({"name": "disk", "gcePersistentDisk": disk})
    # One of the other fields stays, so that the filters meet.
    spec = dict(list(workload.spec.items())[:1]) if draws.chance(0.25) else {}
    return msgspec.structs.replace(
        workload,
        namespace=draws.one(_NAMESPACES),
        ports=(),
        spec={**spec, "volumes": volumes},
    )


class _Steps:
    """Steps of ``core``, some of them about storage instead."""

    def __init__(self, draws: Draws, names: tuple[str, ...], few: int, all_: int) -> None:
        self._draws = draws
        self._names = names
        self._few = few
        self._all = all_
        self._number = 0

    def changed(self, step: Step) -> Step:
        """The step, or another one."""
        if isinstance(step, CreatePod):
            if self._draws.chance(0.12):
                return self._about_storage()
            number = self._draws.number(0, self._all - 1)
            return CreatePod(step.name, number)
        if isinstance(step, SetNode):
            return SetNode(_in_zone(step.node))
        return step

    def _about_storage(self) -> Step:
        draws = self._draws
        self._number += 1
        namespace, name = draws.one(_NAMESPACES), draws.one(_CLAIMS)
        node, volume_name = draws.one(self._names), f"pv-{namespace}-{name}"
        choices: tuple[Step, ...] = (
            DeleteObject("persistentvolumeclaims", f"{namespace}/{name}"),
            DeleteObject("persistentvolumes", volume_name),
            storage.csi_node(draws, node),
            DeleteObject("csinodes", node),
            storage.attachment(draws, self._number, node, volume_name),
            storage.volume(draws, f"w{self._number}"),
            storage.capacity(draws, 10 + self._number),
        )
        return draws.one(choices)
