"""ResourceQuotas from the API's bytes: only limits of GPUs are kept."""

from __future__ import annotations

from typing import Any

import msgspec

from scheduler.model.quota import Quota
from scheduler.model.selector import Requirement
from scheduler.state import event as ev
from scheduler.state.cache.quotas import Quotas
from scheduler.watch.decode.quotas.resource_quotas import quota_event, quotas_listed
from tests.builders import GPU, MIG_1G


def body(name: str, hard: dict[str, Any], used: dict[str, Any], **spec: Any) -> bytes:
    return msgspec.json.encode(
        {
            "metadata": {"name": name, "namespace": "team"},
            "spec": {"hard": hard, **spec},
            "status": {"hard": hard, "used": used},
        }
    )


GPUS = body(
    "gpus",
    {f"requests.{MIG_1G}": "4", f"requests.{GPU}": 2, "pods": "10", "requests.cpu": "1"},
    {f"requests.{MIG_1G}": "1", "pods": "3"},
    scopes=["NotTerminating"],
    scopeSelector={
        "matchExpressions": [
            {"scopeName": "PriorityClass", "operator": "In", "values": ["high"]},
        ]
    },
)
KEPT = Quota(
    namespace="team",
    name="gpus",
    hard={MIG_1G: 4, GPU: 2},
    used={MIG_1G: 1},
    scopes=(
        Requirement("NotTerminating", "Exists"),
        Requirement("PriorityClass", "In", ("high",)),
    ),
)
OTHERS = body("pods", {"pods": "10", "requests.cpu": "1"}, {})


def test_a_quota_is_read_with_its_limits_of_gpus_and_its_scopes() -> None:
    assert quota_event(GPUS, is_gone=False) == ev.QuotaUpdated(KEPT)


def test_quotas_of_other_things_are_dropped() -> None:
    items = [msgspec.Raw(GPUS), msgspec.Raw(OTHERS)]

    assert quotas_listed(items) == ev.QuotasReplaced((KEPT,))


def test_deleted_or_gpu_free_quota_is_dropped() -> None:
    for last in (quota_event(GPUS, is_gone=True), quota_event(OTHERS, is_gone=False)):
        quotas = Quotas()
        quotas.upsert(KEPT)
        assert isinstance(last, ev.QuotaUpdated)
        quotas.upsert(msgspec.structs.replace(last.quota, name="gpus"))
        assert quotas.known == {}
