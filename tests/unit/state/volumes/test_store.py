"""What a change of storage objects means to waiting pods, and what placements assume."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler.model.reasons.reason import RequeueCause
from scheduler.model.volumes.claim import Claim
from scheduler.model.volumes.persistent_volume import PersistentVolume
from scheduler.model.volumes.volume_plan import Provision, StaticBinding, VolumePlan
from scheduler.state.event import ClusterEvent, NodeUpdated, StorageUpdated
from scheduler.state.volumes.store import VolumeStore
from tests.builders import node, pod
from tests.scheduler_world import SchedulerWorld
from tests.storage import (
    HOSTNAME,
    ZONE,
    attachment,
    capacity,
    claim,
    csi_driver,
    csi_node,
    storage_class,
    uses,
    volume,
)

CLAIM = [ClusterEvent(RequeueCause.CLAIM, what=frozenset(("team/data",)))]
ANY = [ClusterEvent(RequeueCause.STORAGE)]
AT_N1 = [ClusterEvent(RequeueCause.STORAGE, node_name="n1")]


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        pytest.param(None, claim(), CLAIM, id="claim"),
        pytest.param(claim(), claim(), [], id="the-same-again"),
        pytest.param(claim(), claim(version="2"), [], id="only-a-version"),
        pytest.param(claim(), claim(volume="pv"), CLAIM, id="bound"),
        pytest.param(None, volume(), ANY, id="volume"),
        pytest.param(volume(), volume(version="2"), [], id="volume-only-a-version"),
        pytest.param(volume(phase="Pending"), volume(), ANY, id="available"),
        pytest.param(None, storage_class(), ANY, id="class"),
        pytest.param(None, csi_driver("d"), ANY, id="driver"),
        pytest.param(None, csi_node("n1"), AT_N1, id="csi-node"),
        pytest.param(None, capacity(free="1Gi"), ANY, id="capacity"),
        pytest.param(capacity(free="1Gi"), capacity(free="2Gi"), ANY, id="more-capacity"),
        pytest.param(capacity(free="2Gi"), capacity(free="1Gi"), [], id="less-capacity"),
        pytest.param(None, attachment(), [], id="attached"),
        pytest.param(attachment(), None, AT_N1, id="detached"),
        pytest.param(claim(), None, CLAIM, id="claim-deleted"),
        pytest.param(volume(), None, [], id="volume-deleted"),
    ],
)
def test_a_change_wakes_those_that_it_can_help(before: Any, after: Any, expected: Any) -> None:
    store = VolumeStore()
    if before is not None:
        store.upsert(before)

    if after is not None:
        assert store.upsert(after) == expected
    else:
        assert store.delete(type(before), before.key) == expected


def test_a_list_replaces_what_is_not_in_it() -> None:
    store = VolumeStore()
    store.upsert(claim("a"))

    store.replace(Claim, (claim("b"),))

    assert (store.claim("team/a"), store.claim("team/b")) == (None, claim("b"))


PLAN = VolumePlan(
    "n1",
    (StaticBinding("team/data", "pv", "local"),),
    (Provision("team/more", "fast", "x"),),
)


def assumed() -> VolumeStore:
    store = VolumeStore()
    for item in (claim(), claim("more", class_name="fast"), volume()):
        store.upsert(item)
    store.assume("uid", PLAN)
    return store


def is_given(store: VolumeStore) -> tuple[bool, str | None]:
    found, selected = store.volume("pv"), store.claim("team/more")
    assert found is not None
    assert selected is not None
    return found.claim is not None, selected.selected_node


def test_an_assumption_holds_until_it_is_taken_back() -> None:
    store = assumed()
    assert is_given(store) == (True, "n1")
    assert [one.name for one in store.volumes_for(claim())] == ["pv"]
    seen = store.volume_seen("pv")
    assert seen is not None
    assert seen.claim is None

    assert store.restore("uid") == ANY

    assert is_given(store) == (False, None)
    assert store.volumes_for(claim()) == []
    assert store.restore("uid") == []


def test_an_assumption_ends_with_a_newer_version() -> None:
    store = assumed()

    store.upsert(volume(version="2"))
    store.upsert(claim("more", class_name="fast", version="2"))

    assert is_given(store) == (False, None)


def test_what_was_written_is_not_taken_back() -> None:
    store = assumed()

    store.keep("uid", "pv")
    store.restore("uid")

    assert is_given(store) == (True, None)


def test_node_labels_are_read_as_long_as_something_asks_for_them() -> None:
    store = VolumeStore()
    store.upsert(volume(zone="a"))
    store.upsert(storage_class("fast", provisioner="x", zones=["a"]))
    store.upsert(capacity(zone="a"))
    assert store.reads_label(ZONE)
    assert not store.reads_label(HOSTNAME)

    store.delete(PersistentVolume, "pv")
    store.upsert(storage_class("fast", provisioner="x"))
    store.upsert(capacity())

    assert not store.reads_label(ZONE)


# --- waiting pods ---------------------------------------------------------------------------------

N1 = node("n1", labels={HOSTNAME: "n1"})
USER = pod("p", spec=uses("data"))


def world(*items: Any) -> SchedulerWorld:
    """A pod that was rejected; its backoff is over."""
    found = SchedulerWorld(N1, *items)
    found.cluster.upsert_pod(USER)
    found.queue.add(USER, found.now)
    found.decide_due()
    assert found.queue.sizes()["unschedulable"] == 1
    found.now += 20
    return found


@pytest.mark.parametrize(
    ("objects", "item", "wakes"),
    [
        pytest.param([], claim(volume="pv"), True, id="its-claim"),
        pytest.param([], claim("other", volume="pv"), False, id="another-claim"),
        pytest.param([], volume(), False, id="a-volume-while-the-claim-is-missing"),
        pytest.param([claim(), storage_class()], volume(host="n1"), True, id="a-volume"),
        pytest.param([claim()], storage_class(), True, id="its-class"),
    ],
)
def test_a_pod_is_tried_again_after_what_can_help_it(
    objects: list[Any], item: Any, wakes: bool
) -> None:
    found = world(*objects)

    found.deliver(StorageUpdated(item))

    assert (found.queue.sizes()["unschedulable"] == 0) is wakes


def test_equal_pods_with_other_claims_wait_apart() -> None:
    found = world(storage_class(), claim("data"), claim("more"))
    other = pod("q", spec=uses("more"))
    found.cluster.upsert_pod(other)
    found.queue.add(other, found.now)
    found.decide_due()

    found.now += 20
    found.deliver(StorageUpdated(claim("more", volume="pv")), StorageUpdated(volume(host="n1")))
    woken = [entry.pod.name for entry in found.queue.entries() if entry.place != "unschedulable"]

    assert "q" in woken


def test_the_end_of_the_user_of_a_claim_wakes_waiting_pods() -> None:
    """On whatever node it was."""
    used = claim(volume="pv", modes=["ReadWriteOncePod"])
    user = pod("u", node="n2", spec=uses("data"))
    found = world(node("n2"), used, volume(), user)

    for change in found.cluster.delete_pod("team-u"):
        found.apply((change,))

    assert found.queue.sizes()["unschedulable"] == 0


def test_a_node_label_that_a_volume_asks_for_wakes_its_pod() -> None:
    found = world(claim(volume="pv"), volume(zone="a"))

    found.deliver(_labelled({HOSTNAME: "n1", "other": "x"}))
    assert found.queue.sizes()["unschedulable"] == 1
    found.deliver(_labelled({HOSTNAME: "n1", ZONE: "a"}))

    assert found.queue.sizes()["unschedulable"] == 0


def _labelled(labels: dict[str, str]) -> NodeUpdated:
    return NodeUpdated(node("n1", labels=labels))
