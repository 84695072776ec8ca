"""Which node a pod with claims may go to, and what its claims get there."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler.framework.decision import BindVolumes, PendingPlacement, Placement
from scheduler.model.reasons.reason import sentence
from scheduler.model.volumes.volume_plan import Provision, StaticBinding
from scheduler.plugins.volumes.node_plan import VolumePlanner
from scheduler.plugins.volumes.pod_claims import PodClaims, claims_of
from tests.builders import cluster, codes, node, placed, pod, refused
from tests.storage import (
    HOSTNAME,
    ZONE,
    capacity,
    claim,
    csi_driver,
    csi_node,
    storage_class,
    uses,
    volume,
)

LOCAL = storage_class()
FAST = storage_class("fast", provisioner="x.example/y")
P = "x.example/y"


def host(name: str, zone: str = "", **more: Any) -> Any:
    """A node with the labels that kubelets write."""
    labels = {HOSTNAME: name} | ({ZONE: zone} if zone else {})
    return node(name, labels=labels, **more)


NODES = (host("n1", "a"), host("n2", "b"), host("n3", "b"))
USER = pod("p", spec=uses("data"))


def plan(*objects: Any, user: Any = USER) -> tuple[str, set[tuple[str, str]], set[str]]:
    """The node, which volume each claim gets, and the claims that are provisioned."""
    found = placed(cluster(*NODES, *objects), user)
    if found.volumes is None:
        return found.node_name, set(), set()
    bindings = {(one.claim.partition("/")[2], one.volume) for one in found.volumes.bindings}
    provisions = {one.claim.partition("/")[2] for one in found.volumes.provisions}
    return found.node_name, bindings, provisions


def said(*objects: Any, user: Any = USER) -> str:
    return sentence(refused(cluster(*NODES, *objects), user).diagnosis)


# --- bound claims ---------------------------------------------------------------------------------


def test_a_bound_volume_names_the_nodes() -> None:
    assert plan(claim(volume="pv"), volume(host="n2"))[0] == "n2"
    assert plan(claim(volume="pv"), volume(zone="a"))[0] == "n1"


def test_a_pod_with_bound_claims_is_bound_at_once() -> None:
    found = placed(cluster(*NODES, claim(volume="pv"), volume()), USER)

    assert type(found) is Placement


def test_two_bound_volumes_of_two_nodes_exclude_each_other() -> None:
    world = (
        claim("data", volume="pv"),
        volume(host="n1"),
        claim("logs", volume="other"),
        volume("other", host="n2"),
    )

    assert said(*world, user=pod("p", spec=uses("data", "logs"))) == (
        "0/3 nodes are available: 1 node(s) didn't match PersistentVolume's node affinity (claim"
        " logs; volume other), 2 node(s) didn't match PersistentVolume's node affinity (claim data;"
        " volume pv)."
    )


def test_a_migrated_disk_is_compared_by_the_topology_of_its_driver() -> None:
    """Its nodes have the label of the CSI driver, and the CSINode says that it is migrated."""
    disk = volume(zone="a", awsElasticBlockStore={"volumeID": "vol-1"})
    labels = {"topology.ebs.csi.aws.com/zone": "a"}
    world = cluster(
        node("n1", labels=labels),
        csi_node("n1", migrated="kubernetes.io/aws-ebs"),
        node("n2", labels=labels),
        claim(volume="pv"),
        disk,
    )

    assert placed(world, USER).node_name == "n1"


def test_a_volume_on_no_node_is_missing_for_an_ephemeral_claim() -> None:
    """VolumeZone does not look at ephemeral claims; VolumeBinding does, node by node."""
    user = pod("p", spec=uses(ephemeral=["scratch"]))

    assert (
        "3 node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s) (claim"
        " p-scratch; volume gone)"
    ) in said(claim("p-scratch", owner="team-p", volume="gone"), user=user)


# --- existing volumes -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("asked", "wrong"),
    [
        pytest.param({"storage": "2Gi"}, {"storage": "1Gi"}, id="smaller"),
        pytest.param({}, {"class_name": "fast"}, id="other-class"),
        pytest.param({"modes": ["ReadWriteMany"]}, {"modes": ["ReadWriteOnce"]}, id="modes"),
        pytest.param({"volumeMode": "Block"}, {}, id="mode"),
        pytest.param({"selector": {"matchLabels": {"a": "b"}}}, {}, id="selector"),
        pytest.param({"volumeAttributesClassName": "gold"}, {}, id="attributes-class"),
        pytest.param({}, {"volumeAttributesClassName": "gold"}, id="attributes-class-of-volume"),
        pytest.param({}, {"phase": "Released"}, id="released"),
        pytest.param({}, {"deleting": True}, id="deleting"),
        pytest.param({}, {"for_claim": "team/other"}, id="of-another-claim"),
        pytest.param({}, {"for_claim": "team/data", "claim_uid": "old"}, id="of-a-former-claim"),
    ],
)
def test_a_volume_that_does_not_fit_is_not_given(asked: Any, wrong: Any) -> None:
    assert codes(cluster(*NODES, LOCAL, FAST, claim(**asked), volume(host="n1", **wrong)), USER)
    assert "3 node(s) didn't find available persistent volumes to bind (claim data; class" in said(
        LOCAL, FAST, claim(**asked), volume(host="n1", **wrong)
    )


def test_the_smallest_fitting_volume_is_given() -> None:
    sizes = {"a": "5Gi", "b": "2Gi", "c": "1Gi", "d": "3Gi"}
    volumes = [volume(name, storage=size, host="n1") for name, size in sizes.items()]

    assert plan(LOCAL, claim(storage="2Gi"), *volumes) == ("n1", {("data", "b")}, set())


def test_a_volume_without_a_host_is_compared_with_the_local_ones() -> None:
    volumes = (volume("local", storage="3Gi", host="n1"), volume("anywhere", storage="2Gi"))

    assert plan(LOCAL, claim(), *volumes)[1] == {("data", "anywhere")}


def test_a_small_claim_does_not_take_the_large_volume() -> None:
    """Claims are served by size, whatever their order in the pod."""
    world = (
        LOCAL,
        claim("large", storage="5Gi"),
        claim("small", storage="1Gi"),
        volume("pv-5", storage="5Gi", host="n1"),
        volume("pv-9", storage="9Gi", host="n1"),
    )
    user = pod("p", spec=uses("large", "small"))

    assert codes(cluster(*NODES, *world[:-1]), user)
    assert plan(*world, user=user)[1] == {("small", "pv-5"), ("large", "pv-9")}


def test_a_claim_that_two_volumes_of_a_pod_name_gets_one_volume() -> None:
    volumes = (volume("one", host="n1"), volume("two", host="n1"))

    assert plan(LOCAL, claim(), *volumes, user=pod("p", spec=uses("data", "data")))[1] == {
        ("data", "one")
    }


def test_a_volume_that_is_promised_to_the_claim_is_its_only_one() -> None:
    """Its author named the claim; the phase and the selector are not compared."""
    promised = volume("promised", host="n2", for_claim="team/data", phase="Pending")
    other = volume("other", host="n1")

    assert plan(LOCAL, claim(), promised, other) == ("n2", {("data", "promised")}, set())


@pytest.mark.parametrize("place", [{"host": "n1"}, {"zone": "a"}], ids=["local", "in-a-zone"])
def test_a_volume_given_by_a_placement_is_given_to_no_other(place: dict[str, str]) -> None:
    state = cluster(*NODES, LOCAL, claim("data"), claim("more"), volume(**place))
    first = placed(state, USER)
    assert first.volumes is not None
    state.volumes.assume(USER.uid, first.volumes)

    assert codes(state, pod("q", spec=uses("more")))
    assert placed(state, pod("r", spec=uses("data"))).node_name == "n1"

    state.volumes.restore(USER.uid)
    assert placed(state, pod("q", spec=uses("more"))).node_name == "n1"


# --- provisioned volumes --------------------------------------------------------------------------


def test_a_claim_without_an_existing_volume_is_provisioned() -> None:
    found = placed(cluster(*NODES, FAST, claim(class_name="fast")), USER)

    assert isinstance(found, PendingPlacement)
    assert found.volumes is not None
    assert found.volumes.provisions == (Provision("team/data", "fast", P),)
    assert found.steps == (BindVolumes(found.volumes),)
    assert str(found.steps[0]) == (
        "PersistentVolumeClaims to be bound: data (class fast; provisioner x.example/y)"
    )


def test_an_existing_volume_goes_before_a_provisioned_one() -> None:
    found = plan(FAST, claim(class_name="fast"), volume(class_name="fast"))

    assert found[1:] == ({("data", "pv")}, set())


def test_allowed_topologies_name_the_nodes() -> None:
    zonal = storage_class("fast", provisioner=P, zones=["a"])

    assert plan(zonal, claim(class_name="fast"))[0] == "n1"
    others = cluster(*NODES[1:], zonal, claim(class_name="fast"))
    assert sentence(refused(others, USER).diagnosis) == (
        "0/2 nodes are available: 2 node(s) didn't find available persistent volumes to bind (claim"
        " data; class fast; provisioner x.example/y)."
    )


def test_a_class_without_a_provisioner_is_named_with_what_it_says() -> None:
    assert said(LOCAL, claim()) == (
        "0/3 nodes are available: 3 node(s) didn't find available persistent volumes to bind (claim"
        " data; class local; provisioner kubernetes.io/no-provisioner)."
    )


@pytest.mark.parametrize(
    ("free", "largest", "fits"),
    [
        pytest.param("5Gi", None, True, id="enough"),
        pytest.param("1Gi", None, False, id="too-little"),
        pytest.param("9Gi", "1Gi", False, id="no-volume-so-large"),
        pytest.param("1Gi", "5Gi", True, id="the-maximum-is-more-exact"),
        pytest.param(None, None, False, id="nothing-said"),
    ],
)
def test_published_capacity_names_the_nodes(free: Any, largest: Any, fits: bool) -> None:
    world = (
        FAST,
        csi_driver(P, capacity=True),
        claim(class_name="fast", storage="5Gi"),
        capacity(zone="a", free=free, largest=largest),
        capacity("other", class_name="other", zone="b", free="9Gi"),
    )

    if fits:
        assert plan(*world)[0] == "n1"
    else:
        assert said(*world) == (
            "0/3 nodes are available: 3 node(s) did not have enough free storage (claim data; class"
            " fast; provisioner x.example/y; needs 5Gi)."
        )


def test_capacity_that_the_driver_does_not_publish_is_not_asked_for() -> None:
    assert plan(FAST, csi_driver(P), claim(class_name="fast"))[2] == {"data"}


def test_the_node_that_is_selected_is_the_only_one() -> None:
    """Another attempt, or a scheduler before us, has asked the provisioner for it already."""
    world = (FAST, claim(class_name="fast", selected="n3"))

    assert plan(*world)[0] == "n3"
    assert said(*world, user=pod("p", spec=uses("data"), selector={HOSTNAME: "n1"})).count(
        "affinity/selector"
    )
    others = cluster(*NODES[:2], *world)
    assert sentence(refused(others, USER).diagnosis) == (
        "0/2 nodes are available: 2 node(s) didn't find available persistent volumes to bind (claim"
        " data; class fast; provisioner x.example/y; selected node n3)."
    )


def test_static_and_provisioned_claims_go_to_one_node() -> None:
    world = (LOCAL, FAST, claim("data"), claim("more", class_name="fast"), volume(host="n2"))

    assert plan(*world, user=pod("p", spec=uses("data", "more"))) == (
        "n2",
        {("data", "pv")},
        {"more"},
    )


def test_the_plan_has_the_words_for_people() -> None:
    assert str(StaticBinding("team/data", "pv", "local")) == "data (class local; volume pv)"


# --- maps -----------------------------------------------------------------------------------------


def test_a_map_and_a_bound_volume_that_disagree_are_one_reason() -> None:
    user = pod("p-0", map="0=n1:0", spec=uses("data"))
    world = (claim(volume="pv"), volume(host="n2"))

    assert (
        "node(s) didn't match PersistentVolume's node affinity: the map names node n1 and claim"
        " data is bound to volume pv (kubernetes.io/hostname In n2)"
    ) in said(*world, user=user)


def test_a_map_and_a_zone_that_disagree_are_one_reason() -> None:
    user = pod("p-0", map="0=n1:0", spec=uses("data"))

    assert (
        "node(s) had no available volume zone: the map names node n1 and claim data is bound to"
        " volume pv (topology.kubernetes.io/zone=b)"
    ) in said(claim(volume="pv"), volume(labels={ZONE: "b"}), user=user)


def test_a_mapped_pod_gets_volumes_of_the_node_of_its_map() -> None:
    user = pod("p-0", map="0=n2:0", spec=uses("data"))
    volumes = (volume("one", host="n1"), volume("two", host="n2", storage="9Gi"))

    assert plan(LOCAL, claim(), *volumes, user=user) == ("n2", {("data", "two")}, set())


# --- nodes that are alike -------------------------------------------------------------------------


@pytest.mark.parametrize(
    "objects",
    [
        pytest.param((claim(volume="pv"), volume(host="h", zone="b")), id="bound"),
        pytest.param((LOCAL, claim(), volume(host="h", zone="b")), id="local"),
        pytest.param((LOCAL, claim(), volume(zone="b")), id="in-a-zone"),
        pytest.param(
            (storage_class("fast", provisioner=P, zones=["b"]), claim(class_name="fast")),
            id="allowed-topologies",
        ),
        pytest.param(
            (
                FAST,
                csi_driver(P, capacity=True),
                capacity(zone="b", free="5Gi"),
                claim(class_name="fast"),
            ),
            id="capacity",
        ),
    ],
)
def test_nodes_that_differ_in_one_label_that_is_read_are_told_apart(objects: Any) -> None:
    """Both have one host name, as after a wrong label; the volume is in one zone."""
    labels = {HOSTNAME: "h", "rack": "r"}
    state = cluster(
        node("n1", labels={**labels, ZONE: "a"}), node("n2", labels={**labels, ZONE: "b"}), *objects
    )

    assert placed(state, USER).node_name == "n2"


def test_migrated_disk_is_compared_by_the_csi_node_of_each_node() -> None:
    labels = {"topology.ebs.csi.aws.com/zone": "a"}
    state = cluster(
        node("n1", labels=labels),
        node("n2", labels=labels),
        csi_node("n2", migrated="kubernetes.io/aws-ebs"),
        claim(volume="pv"),
        volume(zone="a", awsElasticBlockStore={"volumeID": "vol-1"}),
    )

    assert placed(state, USER).node_name == "n2"


@pytest.mark.parametrize("nodes", [NODES, NODES[::-1]], ids=["selected-last", "selected-first"])
def test_selected_node_has_an_answer_of_its_own(nodes: Any) -> None:
    state = cluster(*NODES, FAST, claim(class_name="fast", selected="n3"))
    claims = claims_of(state, USER)
    assert isinstance(claims, PodClaims)
    planner = VolumePlanner(state.volumes, claims)

    assert [one.name for one in nodes if not planner.on_node(one).reasons] == ["n3"]
