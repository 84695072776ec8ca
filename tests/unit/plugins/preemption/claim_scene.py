"""Running pods whose devices are behind claims, and kube-controller-manager's part."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from gpuctl.simulate.claim_changes import deallocated
from scheduler.framework.decision import Preemption
from scheduler.model.dra.claim import ResourceClaim
from scheduler.model.pods.pod import Pod
from scheduler.state import event as ev
from scheduler.state.cache.cluster import Cluster
from scheduler.state.fold import fold
from tests.builders import pod
from tests.dra import Json, allocation_json, claiming, resource_claim, result_json
from tests.unit.plugins.preemption.scene import running


def holding(
    name: str, *devices: str | Json, at: int = 0, on: str = "n1", claim: Json | None = None,
    **fields: Any,
) -> tuple[ResourceClaim, Pod]:  # fmt: skip
    """A running pod, and its claim (of the same name) with these devices of its node."""
    results = [
        result_json(one, on) if isinstance(one, str) else {**result_json(node=on), **one}
        for one in devices
    ]
    given = allocation_json(*results, node=on)
    found = resource_claim(name, allocation=given, users=[name], **(claim or {}))
    return found, running(name, at, on, spec=claiming(name), **fields)


def shared(name: str, users: Sequence[str], *devices: str) -> ResourceClaim:
    """A claim that several pods have reserved."""
    given = allocation_json(*map(result_json, devices))
    return resource_claim(name, allocation=given, users=users)


def newcomer(*claims: str, name: str = "boss", priority: int = 9, **fields: Any) -> Pod:
    """A pod that names claims."""
    return pod(name, priority=priority, spec=claiming(*claims), **fields)


def deallocate(state: Cluster) -> list[str]:
    """kube-controller-manager deallocates and deletes claims; their names.

    These are its rules, not those of the state: the resource claim controller (``syncClaim``) takes
    away the reservations of pods that have ended, and deallocates a claim with the last one or
    before its deletion. The garbage collector deletes the claim of a pod that is gone.
    """
    claims = [one for one in state.dra.every() if isinstance(one, ResourceClaim)]
    ended = []
    for one in (one for one in claims if one.allocation is not None):
        left = tuple(user for user in one.reserved_for if not user.is_pod or user.uid in state.pods)
        if not left and one.owner_uid and one.owner_uid not in state.pods:
            fold(state, ev.DraDeleted(ResourceClaim, one.key))
        elif not left and (one.reserved_for or one.is_deleting):
            fold(state, ev.DraUpdated(deallocated(one)))
        else:
            fold(state, ev.DraUpdated(msgspec.structs.replace(one, reserved_for=left)))
            continue
        ended.append(one.name)
    return ended


def nominated(state: Cluster, found: Preemption) -> Pod:
    """The preemptor, once its node is written."""
    state.nominate(found.pod, found.nominated_node, found.devices, found.claims)
    return msgspec.structs.replace(found.pod, nominated_node=found.nominated_node)
