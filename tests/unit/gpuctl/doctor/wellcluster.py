"""Facts about a cluster in which all is well, for tests of the doctor."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from gpuctl.doctor.facts import (
    Certificate,
    Clocks,
    Dra,
    Entry,
    Facts,
    Guard,
    Leader,
    Mutation,
    Node,
    Plugin,
    Quota,
    Slice,
    Taint,
    TaintRules,
    Webhook,
)

POLICIES = (
    *("protected-annotations", "bindings", "fencing", "deletes", "status", "volumes", "claims"),
    *("claim-terms", "extended-resources"),
    *("partitions", "preemptions"),
)
NOW = datetime(2026, 11, 27, 12, tzinfo=UTC)
GPU = "nvidia.com/gpu"
TARGET = "gpu-scheduler-webhook.gpu-scheduler-system.svc"
ENTRY = Entry(name="env", target=TARGET, has_bundle=True, service="gpu-scheduler-webhook")
CERTIFICATE = Certificate(
    names=(TARGET,), begins=NOW - timedelta(days=1), ends=NOW + timedelta(days=89), is_trusted=True
)
WEBHOOK = Webhook(entries=(ENTRY,), ready=2, certificate=CERTIFICATE)
TAINT = Taint(GPU, "NoSchedule", "gpu-scheduler")
DRIVEN = Dra(True, (Slice("gpu.nvidia.com", "n1"),), ("gpu.nvidia.com",))
#: Nodes with the taint of the chart, and pods that are made to tolerate it.
RESERVED: dict[str, Any] = {"taints": (TAINT,)}
BY_DRA: dict[str, Any] = {
    "dra": DRIVEN,
    "plugins": (),
    "mutation": Mutation(True, 0.1, ("nvidia.com/gpu=gpu-scheduler:NoSchedule",)),
}
N1 = Node(name="n1", gpus=4, offers={GPU: 4}, capacity={GPU: 4})


def facts(**changes: Any) -> Facts:
    """A cluster in which all is well, but for the changes."""
    healthy = Facts(
        now=NOW,
        scheduler="gpu-scheduler",
        account="gpu-scheduler-system/gpu-scheduler",
        namespace="gpu-scheduler-system",
        version=(1, 37),
        clocks=Clocks(NOW, NOW),
        leader=Leader("pod-a_1", NOW - timedelta(seconds=2), 15),
        kinds=("migpartitions", "podmigrations"),
        served=frozenset(("mutatingadmissionpolicies", "validatingadmissionpolicies")),
        policies=tuple(Guard(f"gpu-scheduler-{name}", True) for name in POLICIES),
        refuses_forgery=True,
        nodes=(N1,),
        plugins=(Plugin("gpu-operator/device-plugin", ("n1",)),),
        dra=Dra(True),
        taint_rules=TaintRules("v1"),
        webhook=WEBHOOK,
        mutation=Mutation(True, 0.02),
        missing_rights=(),
        missing_for_moves=(),
        missing_for_preemption=(),
        schedulers=("gpu-scheduler-system",),
        quotas=(Quota("team", "gpus", GPU, 3, 4),),
    )
    return msgspec.structs.replace(healthy, **changes)


def replaced(struct: Any, **changes: Any) -> Any:
    return msgspec.structs.replace(struct, **changes)


def node(**changes: Any) -> tuple[Node, ...]:
    return (replaced(N1, **changes),)


def webhook(**changes: Any) -> Webhook:
    found: Webhook = replaced(WEBHOOK, **changes)
    return found


def certificate(**changes: Any) -> Webhook:
    return webhook(certificate=replaced(CERTIFICATE, **changes))
