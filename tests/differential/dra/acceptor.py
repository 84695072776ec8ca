"""Asks the real structured allocator of kube-scheduler whether it accepts our allocations.

The program ``tools/golden/dynamicresources`` lets it choose only among the devices that we
allocated: it must find all of them, with the same amounts.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, Final

import msgspec

from scheduler.model.dra.allocation import Allocation, DeviceResult
from scheduler.model.dra.amount import amount_text
from scheduler.model.dra.claim import ExactRequest, ResourceClaim
from scheduler.state.dra.store import DraStore
from scheduler.watch.decode.dra.slices import SLICES
from tests.differential.dra.allocations import NewAllocation
from tests.differential.dra.objects import CLAIMS
from tools.controlplane.programs.go_program import ensure_go_program

Json = dict[str, Any]
Objects = Mapping[tuple[str, str], Json]

SOURCE: Final = Path(__file__).parents[3] / "tools" / "golden" / "dynamicresources"
#: In place of the id of a share, which is random.
_SHARE: Final = "share"


class Acceptor:
    """A running program."""

    def __init__(self, questions: IO[bytes], answers: IO[bytes]) -> None:
        self._questions = questions
        self._answers = answers
        self.asked = 0

    def problem(self, store: DraStore, objects: Objects, new: NewAllocation) -> str:
        """Why the allocations of a pod on a node are not accepted; empty if they are."""
        question = _question(store, objects, new)
        self._questions.write(json.dumps(question).encode() + b"\n")
        self._questions.flush()
        self.asked += 1
        answer: str = json.loads(self._answers.readline())
        return answer


@contextmanager
def running() -> Iterator[Acceptor]:
    """The program, built if it is not there."""
    words = [str(ensure_go_program(SOURCE)), "accepts"]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        yield Acceptor(child.stdin, child.stdout)
        child.stdin.close()


def _question(store: DraStore, objects: Objects, new: NewAllocation) -> Json:
    by_kind: dict[str, list[Json]] = {}
    for (kind, _), one in objects.items():
        by_kind.setdefault(kind, []).append(one)
    claims = {key: one for (kind, key), one in objects.items() if kind == CLAIMS}
    [node] = (one for one in by_kind["nodes"] if one["metadata"]["name"] == new.node.name)
    return {
        "node": node,
        "slices": [_tainted(store, one) for one in by_kind.get("resourceslices", ())],
        "classes": by_kind.get("deviceclasses", []),
        "allocated": [one for one in claims.values() if one.get("status", {}).get("allocation")],
        "claims": [claims.get(one.key) or _extended(one) for one in new.claims],
        "given": [_given(one) for one in new.allocations],
    }


def _tainted(store: DraStore, body: Json) -> Json:
    """A slice with the taints of DeviceTaintRules, as kube-scheduler's tracker has it."""
    as_read = SLICES.read(msgspec.json.encode(body))
    assert as_read is not None
    devices = []
    for device, known in zip(body["spec"].get("devices", ()), as_read.devices, strict=True):
        taints = [msgspec.to_builtins(one) for one in store.taints(known)]
        devices.append({**device, "taints": taints} if taints else device)
    if not devices:
        return body
    return {**body, "spec": {**body["spec"], "devices": devices}}


def _extended(claim: ResourceClaim) -> Json:
    """The claim for extended resources, which only a search knows."""
    requests = [
        {"name": one.name, "exactly": _exactly(one.exactly)}
        for one in claim.requests
        if one.exactly is not None
    ]
    meta = {"name": claim.name, "namespace": claim.namespace}
    return {"metadata": meta, "spec": {"devices": {"requests": requests}}}


def _exactly(one: ExactRequest) -> Json:
    return {"deviceClassName": one.class_name, "allocationMode": one.mode, "count": one.count}


def _given(allocation: Allocation) -> Json:
    return {"devices": {"results": [_result(one) for one in allocation.results]}}


def _result(one: DeviceResult) -> Json:
    found: Json = {
        "request": one.request,
        "driver": one.driver,
        "pool": one.pool,
        "device": one.device,
        "adminAccess": one.admin_access,
    }
    if one.is_shared:
        found["shareID"] = _SHARE
        found["consumedCapacity"] = {
            name: amount_text(amount) for name, amount in one.consumed.items()
        }
    return found
