"""Beside a real Kueue, in ``make nightly``: its gates, its node selectors and its pods are its own.

Kueue decides when a pod starts and in which nodes' pool; where the pod then runs is decided here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec
import pytest

from scheduler.model import well_known
from scheduler.model.crd.migration_blockers import Blocker
from scheduler.model.crd.migration_consent import missing_consent
from scheduler.model.pods.gang import GangSource
from scheduler.model.pods.pod import Pod
from scheduler.watch.decode.pods import POD, to_pod
from tests.controlplane.conftest import MakeNode
from tests.controlplane.kueue.local_queue import GPU, IN_QUEUE, POOL, Queue
from tests.controlplane.workloads import Json, Watcher, controlled, job, node_of, pod, waits_for

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(600)]

ADMISSION: Final = "kueue.x-k8s.io/admission"
ELASTIC: Final = "kueue.x-k8s.io/elastic-job"
ONE: Final = {GPU: "1"}


def gates(item: Json) -> set[str]:
    return {gate["name"] for gate in item["spec"].get("schedulingGates", [])}


def read(item: Json) -> Pod:
    """The pod as the scheduler reads it."""
    return to_pod(POD.decode(msgspec.json.encode(item)))


def in_queue(body: Json) -> Json:
    """The same, in the queue of its namespace."""
    labels = body["metadata"].get("labels", {})
    return {**body, "metadata": {**body["metadata"], "labels": {**labels, **IN_QUEUE}}}


def ordered(name: str) -> Json:
    """A StatefulSet that creates a pod after the former one is ready."""
    body = controlled("StatefulSet", name, replicas=2, limits=ONE)
    body["spec"]["podManagementPolicy"] = "OrderedReady"
    return body


def member(group: str, rank: int, total: int, where: str) -> Json:
    """A member of a pod group, with the group's name in labels or annotations."""
    body = in_queue(pod(f"{group}-{rank}", limits=ONE))
    body["metadata"][where][well_known.KUEUE_GROUP] = group
    body["metadata"]["annotations"][well_known.KUEUE_TOTAL] = str(total)
    return body


KINDS: Final[dict[str, Callable[[], Json]]] = {
    "Pod": lambda: pod("solo", limits=ONE),
    "Job": lambda: job("train", completions=2, limits=ONE),
    "Deployment": lambda: controlled("Deployment", "serve", replicas=2, limits=ONE),
    "StatefulSet": lambda: ordered("ranks"),
}


@pytest.mark.parametrize("kind", KINDS)
def test_what_kueue_admits_runs_where_kueue_selects(
    here: Watcher, kwok_node: MakeNode, kind: str
) -> None:
    kwok_node("large", gpus=8)
    kwok_node("pool", gpus=2, labels={POOL: here.namespace})
    Queue(here, gpus=2)

    here.create(in_queue(KINDS[kind]()))
    found = here.wait_bound(1 if kind == "Pod" else 2)

    assert {node_of(one) for one in found} == {"pool"}
    assert not any(map(gates, found))
    for one in map(read, found):
        assert one.is_of_kueue
        assert one.gang is None
        blocked = missing_consent(one)
        assert blocked is not None
        if kind in ("Deployment", "StatefulSet"):
            assert blocked.blocker is Blocker.MANAGED_BY_ANOTHER_QUEUE


def test_a_pod_with_kueues_gate_is_not_touched(here: Watcher, kwok_node: MakeNode) -> None:
    kwok_node("pool", gpus=4, labels={POOL: here.namespace})
    queue = Queue(here, gpus=4, is_held=True)
    here.create(in_queue(pod("gated", limits=ONE)))
    here.create(in_queue(job("train", completions=2, limits=ONE)))

    here.create(pod("later", limits=ONE))
    found = here.wait_bound(1)

    gated = next(one for one in found if one["metadata"]["name"] == "gated")
    assert ADMISSION in gates(gated)
    assert waits_for(gated) == "SchedulingGated"
    assert [one["metadata"]["name"] for one in found] == ["gated", "later"]

    queue.release()
    here.wait_bound(4)


@pytest.mark.usefixtures("pod_groups_end")
@pytest.mark.parametrize("where", ["labels", "annotations"])
def test_a_pod_group_of_kueue_starts_as_one(here: Watcher, kwok_node: MakeNode, where: str) -> None:
    """Kueue's quota has room for three pods; the nodes have it for two at first."""
    kwok_node("first", gpus=2, labels={POOL: here.namespace})
    Queue(here, gpus=3)
    for rank in range(3):
        here.create(member("trio", rank, 3, where))

    for rank in range(3):
        here.wait_explained(f"trio-{rank}", "2 of the 3 members")
    waiting = here.pods()
    assert not any(map(node_of, waiting))
    assert {one.gang.key.source for one in map(read, waiting) if one.gang} == {
        GangSource.KUEUE.value
    }

    kwok_node("second", gpus=1, labels={POOL: here.namespace})
    here.wait_bound(3)


def test_a_quota_counts_what_kueue_admits_and_refuses_none(
    here: Watcher, kwok_node: MakeNode
) -> None:
    kwok_node("pool", gpus=4, labels={POOL: here.namespace})
    Queue(here, gpus=3)
    limit = {"metadata": {"annotations": {well_known.TEAM_LIMIT: "slices=7"}}}
    here.client.patch(f"/api/v1/namespaces/{here.namespace}", limit)

    here.create(pod("own", limits={GPU: "2"}))
    here.wait_reason("own", "QuotaExceeded")
    here.create(in_queue(pod("solo", limits={GPU: "2"})))
    here.create(in_queue(job("train", completions=1, limits=ONE)))
    here.wait_bound(2)

    here.create(pod("more", limits=ONE))
    here.wait_explained("more", "21 slices")
    here.wait_reason("more", "QuotaExceeded")


def test_an_elastic_job_of_kueue_grows(here: Watcher, kwok_node: MakeNode) -> None:
    kwok_node("large", gpus=8)
    kwok_node("pool", gpus=3, labels={POOL: here.namespace})
    Queue(here, gpus=2)
    body = in_queue(job("train", completions=3, limits=ONE))
    body["metadata"]["annotations"] = {ELASTIC: "true"}
    body["spec"]["parallelism"] = 1
    here.create(body)
    (first,) = here.wait_bound(1)

    here.client.patch(here.path("Job", "train"), {"spec": {"parallelism": 2}})
    found = here.wait_bound(2)

    assert first["metadata"]["uid"] in {one["metadata"]["uid"] for one in found}
    assert {node_of(one) for one in found} == {"pool"}
    assert all(one.is_of_kueue for one in map(read, found))
