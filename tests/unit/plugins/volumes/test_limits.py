"""Volumes that only one pod, or only so many on a node, may have; and zones of bound volumes."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler.model.reasons.reason import sentence
from tests.builders import cluster, codes, node, placed, pod, refused
from tests.storage import (
    ZONE,
    attachment,
    claim,
    csi,
    csi_driver,
    csi_node,
    storage_class,
    uses,
    volume,
)

D = "disk.example"
USER = pod("p", spec=uses("data"))
MINE = (claim(volume="pv"), volume(**csi(D, "mine")))
REGION = "topology.kubernetes.io/region"


def said(*objects: Any, user: Any = USER) -> str:
    return sentence(refused(cluster(*objects), user).diagnosis)


def holders(*handles: str, on: str = "n1") -> list[Any]:
    """Pods on a node, each with a volume of this handle."""
    found: list[Any] = []
    for number, handle in enumerate(handles):
        name = f"h{number}"
        found += [
            claim(name, volume=f"pv-{name}"),
            volume(f"pv-{name}", **csi(D, handle)),
            pod(name, node=on, spec=uses(name)),
        ]
    return found


# --- ReadWriteOncePod -----------------------------------------------------------------------------

ONE_POD = (claim(volume="pv", modes=["ReadWriteOncePod"]), volume())


def test_a_claim_for_one_pod_excludes_the_others_on_every_node() -> None:
    world = (node("n1"), node("n2"), *ONE_POD, pod("q", node="n1", spec=uses("data")))

    assert said(*world) == (
        "0/2 nodes are available: 2 node(s) unavailable due to PersistentVolumeClaim with"
        " ReadWriteOncePod access mode already in-use by another pod (claim data; pod q)."
    )


def test_another_namespace_has_other_claims() -> None:
    other = pod("q", namespace="other", node="n1", spec=uses("data"))

    assert placed(cluster(node("n1"), *ONE_POD, other), USER).node_name == "n1"


def test_the_end_of_the_user_frees_its_claim() -> None:
    state = cluster(node("n1"), *ONE_POD, pod("q", node="n1", spec=uses("data")))
    assert codes(state, USER)

    state.delete_pod("team-q")

    assert placed(state, USER).node_name == "n1"


def test_a_claim_for_many_pods_is_shared() -> None:
    world = cluster(
        node("n1"), claim(volume="pv"), volume(), pod("q", node="n1", spec=uses("data"))
    )

    assert placed(world, USER).node_name == "n1"


def test_disk_of_another_pod_keeps_a_pod_off_that_node_only() -> None:
    spec = {"volumes": [{"name": "d", "gcePersistentDisk": {"pdName": "d"}}]}
    world = cluster(node("n1"), node("n2"), pod("q", node="n1", spec=spec))

    assert placed(world, pod("p", spec=spec)).node_name == "n2"
    alone = cluster(node("n1"), pod("q", node="n1", spec=spec))
    text = sentence(refused(alone, pod("p", spec=spec)).diagnosis)
    assert text == "0/1 nodes are available: 1 node(s) had no available disk."


# --- limits of CSI drivers ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("limit", "there", "fits"),
    [
        pytest.param(2, ["a"], True, id="room-for-one"),
        pytest.param(1, ["a"], False, id="full"),
        pytest.param(1, ["mine"], True, id="its-own-volume-is-there-already"),
        pytest.param(2, ["a", "a"], True, id="a-shared-volume-counts-once"),
        pytest.param(None, ["a", "b"], True, id="no-limit-said"),
        pytest.param(0, [], False, id="none-at-all"),
    ],
)
def test_volumes_on_a_node_are_counted(limit: int | None, there: list[str], fits: bool) -> None:
    world = cluster(node("n1"), csi_node("n1", {D: limit}), *MINE, *holders(*there))

    if fits:
        assert placed(world, USER).node_name == "n1"
    else:
        assert sentence(refused(world, USER).diagnosis) == (
            f"0/1 nodes are available: 1 node(s) exceed max volume count (driver {D}) (need 1; best"
            " node has 0 free)."
        )


def test_volumes_of_other_drivers_and_nodes_do_not_count() -> None:
    world = cluster(
        *(node("n1"), node("n2"), csi_node("n1", {D: 1, "other.example": 0})),
        *MINE,
        *holders("a", on="n2"),
    )

    assert placed(world, USER).node_name == "n1"


def test_an_attached_volume_counts_without_a_pod() -> None:
    """It is still attached; a pod that needs the very same volume counts it twice, as upstream."""
    attached = (volume("other", **csi(D, "x")), attachment(driver=D, volume="other"))

    assert codes(cluster(node("n1"), csi_node("n1", {D: 1}), *MINE, *attached), USER)
    assert (
        placed(cluster(node("n1"), csi_node("n1", {D: 2}), *MINE, *attached), USER).node_name
        == "n1"
    )
    same = attachment(driver=D, volume="pv")
    assert codes(cluster(node("n1"), csi_node("n1", {D: 1}), *MINE, same), USER)


def test_an_unbound_claim_counts_by_its_class() -> None:
    world = (
        *(node("n1"), csi_node("n1", {D: 1}), *holders("a")),
        *(storage_class("fast", provisioner=D), claim(class_name="fast")),
    )

    assert "node(s) exceed max volume count (driver disk.example)" in said(*world)


@pytest.mark.parametrize(
    ("csi_nodes", "fits"),
    [
        pytest.param([csi_node("n1", {"ebs.csi.aws.com": 0})], False, id="migrated"),
        pytest.param([], True, id="no-csi-node"),
    ],
)
def test_a_disk_of_a_former_plugin_counts_for_its_csi_driver(
    csi_nodes: list[Any], fits: bool
) -> None:
    by_claim = (claim(volume="pv"), volume(awsElasticBlockStore={"volumeID": "vol-1"}))
    inline = {"volumes": [{"name": "d", "awsElasticBlockStore": {"volumeID": "vol-1"}}]}
    by_class = (storage_class("ebs", provisioner="kubernetes.io/aws-ebs"), claim(class_name="ebs"))

    assert bool(codes_of(*csi_nodes, *by_claim)) is not fits
    assert bool(codes_of(*csi_nodes, user=pod("p", spec=inline))) is not fits
    assert bool(codes_of(*csi_nodes, *by_class)) is not fits


def test_a_disk_that_is_not_counted_has_no_limit() -> None:
    world = (
        *(csi_node("n1", {"file.csi.azure.com": 0}), claim(class_name="azure")),
        storage_class("azure", provisioner="kubernetes.io/azure-file"),
    )

    assert not codes_of(*world)


def codes_of(*objects: Any, user: Any = USER) -> set[str]:
    decision = cluster(node("n1"), *objects)
    try:
        placed(decision, user)
    except AssertionError:
        return {code.name for code in codes(decision, user)}
    return set()


def test_node_without_the_driver_is_rejected_if_the_driver_says_so() -> None:
    required = csi_driver(D, required=True)

    assert said(node("n1"), required, *MINE) == (
        "0/1 nodes are available: 1 disk.example CSI driver is not installed on the node."
    )
    assert (
        placed(cluster(node("n1"), required, *MINE, csi_node("n1", {D: None})), USER).node_name
        == "n1"
    )
    assert placed(cluster(node("n1"), csi_driver(D), *MINE), USER).node_name == "n1"


# --- zones ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("labels", "fits"),
    [
        pytest.param({ZONE: "a"}, True, id="its-zone"),
        pytest.param({ZONE: "b"}, True, id="the-other-zone-of-a-set"),
        pytest.param({ZONE: "c"}, False, id="another-zone"),
        pytest.param({REGION: "r"}, False, id="a-region-and-no-zone"),
        pytest.param({}, True, id="no-topology"),
        pytest.param(
            {"failure-domain.beta.kubernetes.io/zone": "a"}, False, id="only-the-old-label"
        ),
    ],
)
def test_the_zone_label_of_a_volume_names_the_nodes(labels: dict[str, str], fits: bool) -> None:
    world = cluster(node("n1", labels=labels), claim(volume="pv"), volume(labels={ZONE: "a__b"}))

    if fits:
        assert placed(world, USER).node_name == "n1"
    else:
        assert sentence(refused(world, USER).diagnosis) == (
            "0/1 nodes are available: 1 node(s) had no available volume zone (claim data; volume"
            " pv)."
        )


def test_old_label_of_a_volume_is_compared_with_the_nodes_new_one() -> None:
    old = volume(labels={"failure-domain.beta.kubernetes.io/zone": "a"})

    assert (
        placed(cluster(node("n1", labels={ZONE: "a"}), claim(volume="pv"), old), USER).node_name
        == "n1"
    )
    assert codes(cluster(node("n1", labels={ZONE: "b"}), claim(volume="pv"), old), USER)


def test_nodes_of_different_zones_are_told_apart() -> None:
    state = cluster(
        node("n1", labels={ZONE: "a"}),
        node("n2", labels={ZONE: "b"}),
        claim(volume="pv"),
        volume(labels={ZONE: "b"}),
    )

    assert placed(state, pod("p", spec=uses("data"))).node_name == "n2"
