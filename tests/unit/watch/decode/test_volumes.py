"""Storage objects and the volumes of pods, as they come over the wire."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from scheduler.model import well_known
from scheduler.model.selector import Requirement, Term
from scheduler.model.volumes.claim import Claim
from scheduler.model.volumes.csi_volume import AZURE, CINDER, EBS, GCE, PORTWORX, CsiVolume
from scheduler.model.volumes.persistent_volume import ClaimRef, PersistentVolume
from scheduler.model.volumes.pod_volumes import NO_VOLUMES, ClaimUse
from scheduler.model.volumes.storage import CsiNode
from scheduler.state import event as ev
from scheduler.watch.decode import csi as csi_objects
from scheduler.watch.decode import volumes
from tests.builders import pod
from tests.storage import (
    BOUND,
    HOSTNAME,
    SELECTED,
    ZONE,
    attachment,
    capacity,
    claim,
    claim_json,
    csi,
    csi_driver,
    csi_node,
    storage_class,
    uses,
    volume,
    volume_json,
)

GI = 2**30


def test_a_claim_keeps_what_decisions_read() -> None:
    assert claim(storage="1.5Gi", selected="n1", owner="uid-p") == Claim(
        namespace="team",
        name="data",
        uid="uid-data",
        version="1",
        class_name="local",
        access_modes=("ReadWriteOnce",),
        request=3 * GI // 2,
        phase="Pending",
        selected_node="n1",
        owner_uid="uid-p",
    )


@pytest.mark.parametrize(
    ("more", "is_bound"),
    [
        pytest.param({"volume": "pv"}, True, id="bound"),
        pytest.param({}, False, id="no-volume"),
        pytest.param({"volumeName": "pv"}, False, id="a-volume-in-advance"),
    ],
)
def test_a_claim_is_bound_once_the_controller_says_so(more: Any, is_bound: bool) -> None:
    assert claim(**more).is_bound is is_bound


def test_the_old_annotation_names_the_class_first() -> None:
    body = claim_json(class_name="new")
    old = {well_known.BETA_STORAGE_CLASS: "old", SELECTED: "", BOUND: "yes"}
    body["metadata"]["annotations"] = old
    event: Any = volumes.CLAIMS.event(msgspec.json.encode(body), False)

    assert (event.item.class_name, event.item.selected_node) == ("old", "")


def test_a_volume_keeps_what_decisions_read() -> None:
    term = Term((Requirement(HOSTNAME, "In", ("n1",)),))
    found = volume(host="n1", for_claim="team/data", claim_uid="u", storage="2Gi", **csi("d", "h"))

    assert found == PersistentVolume(
        name="pv",
        uid="uid-pv",
        version="1",
        class_name="local",
        capacity=2 * GI,
        access_modes=("ReadWriteOnce",),
        phase="Bound",
        claim=ClaimRef("team", "data", "u"),
        required_terms=(term,),
        csi=CsiVolume("d", "h"),
    )


@pytest.mark.parametrize(
    ("source", "labels", "expected"),
    [
        pytest.param(
            {"awsElasticBlockStore": {"volumeID": "aws://us-1a/vol-1"}},
            {},
            (EBS, "vol-1"),
            id="ebs",
        ),
        pytest.param({"cinder": {"volumeID": "c"}}, {}, (CINDER, "c"), id="cinder"),
        pytest.param({"portworxVolume": {"volumeID": "p"}}, {}, (PORTWORX, "p"), id="portworx"),
        pytest.param({"azureDisk": {"diskURI": "u"}}, {}, (AZURE, "u"), id="azure"),
        pytest.param(
            {"azureDisk": {"diskURI": "u", "kind": "Shared"}}, {}, (AZURE, ""), id="shared"
        ),
        pytest.param(
            {"gcePersistentDisk": {"pdName": "d"}},
            {ZONE: "us-1-a"},
            (GCE, "projects/UNSPECIFIED/zones/us-1-a/disks/d"),
            id="gce-in-a-zone",
        ),
        pytest.param(
            {"gcePersistentDisk": {"pdName": "d"}},
            {ZONE: "us-1-a__us-1-b"},
            (GCE, "projects/UNSPECIFIED/regions/us-1/disks/d"),
            id="gce-in-a-region",
        ),
        pytest.param(
            {"gcePersistentDisk": {"pdName": "d"}},
            {},
            (GCE, "projects/UNSPECIFIED/zones/UNSPECIFIED/disks/d"),
            id="gce-anywhere",
        ),
    ],
)
def test_an_in_tree_disk_has_the_name_of_its_csi_driver(
    source: Any, labels: Any, expected: Any
) -> None:
    found = volume(labels=labels, **source)
    plugin, handle = expected

    assert found.plugin == plugin
    assert found.csi == (CsiVolume(plugin.driver, handle) if handle else None)


@pytest.mark.parametrize(
    ("labels", "zone", "expected"),
    [
        pytest.param({}, "a", [(EBS.zone_key, ("a",))], id="its-affinity"),
        pytest.param({ZONE: "b__a"}, "", [(EBS.zone_key, ("a", "b"))], id="its-label"),
        pytest.param({ZONE: "b"}, "a", [(EBS.zone_key, ("a",))], id="affinity-before-label"),
        pytest.param({}, "", None, id="none"),
    ],
)
def test_a_migrated_volume_has_the_topology_of_its_driver(
    labels: Any, zone: str, expected: Any
) -> None:
    found = volume(labels=labels, zone=zone, awsElasticBlockStore={"volumeID": "vol-1"})
    terms = found.translated_terms
    told = None if terms is None else [(r.key, r.values) for r in terms[0].match_expressions]

    assert told == expected


def test_zones_of_a_volume_are_read_from_its_labels() -> None:
    found = volume(labels={ZONE: "a__b", "topology.kubernetes.io/region": "a____"})

    assert found.zones == ((ZONE, frozenset("ab")),)


def test_a_class_with_topologies() -> None:
    found = storage_class("fast", provisioner="x", zones=["a", "b"])

    assert (found.is_delayed, found.provisions) == (True, True)
    assert [found.admits({ZONE: zone}) for zone in "abc"] == [True, True, False]
    assert not storage_class().provisions


def test_a_csi_node_keeps_limits_and_migrated_plugins() -> None:
    found = csi_node(
        "n1", {"a": 3, "b": None}, migrated="kubernetes.io/aws-ebs,kubernetes.io/cinder"
    )

    assert found == CsiNode(
        name="n1",
        limits={"a": 3, "b": None},
        migrated=frozenset(("kubernetes.io/aws-ebs", "kubernetes.io/cinder")),
    )


def test_the_largest_volume_is_the_more_exact_capacity() -> None:
    assert capacity(free="9Gi", largest="2Gi").largest == 2 * GI
    assert capacity(free="9Gi").largest == 9 * GI
    assert capacity().largest is None
    assert capacity(zone="a").nodes.matches({ZONE: "a"})
    assert not capacity().nodes.matches({})


def test_small_objects() -> None:
    assert csi_driver("d", capacity=True).has_capacity
    assert attachment(driver="d", volume="pv").volume_name == "pv"


def test_what_cannot_be_read_of_a_claim_is_said() -> None:
    body = msgspec.json.encode(claim_json(storage="much"))
    event: Any = volumes.CLAIMS.event(body, False)

    assert "is not a quantity" in event.item.unread
    assert event.item.key == "team/data"


def test_unreadable_object_of_another_kind_counts_as_deleted() -> None:
    body = b'{"metadata": {"name": "c", "namespace": "x"}, "capacity": "much"}'

    event: Any = csi_objects.CAPACITIES.event(body, False)

    assert event.key == "x/c"
    listed: Any = csi_objects.CAPACITIES.listed([msgspec.Raw(body)])
    assert listed.items == ()


def test_a_deleted_object_is_known_by_its_key() -> None:
    gone = volumes.VOLUMES.event(msgspec.json.encode(volume_json()), True)

    assert gone == ev.StorageDeleted(PersistentVolume, "pv")


# --- pods -----------------------------------------------------------------------------------------


def test_a_pod_keeps_its_claims_in_their_order() -> None:
    found = pod("p", spec=uses("data", "logs", ephemeral=["scratch"]))

    assert found.volumes.claims == (
        ClaimUse("data"),
        ClaimUse("logs"),
        ClaimUse("p-scratch", is_ephemeral=True),
    )
    assert found.claims == ("team/data", "team/logs", "team/p-scratch")


def test_a_pod_without_claims_and_disks_has_no_volumes() -> None:
    spec = {"volumes": [{"name": "t", "projected": {}}, {"name": "f", "azureFile": {}}]}

    assert pod(spec=spec).volumes is NO_VOLUMES


def disk(**source: Any) -> Any:
    """The one disk of a pod."""
    (found,) = pod(spec={"volumes": [{"name": "d", **source}]}).volumes.disks
    return found


@pytest.mark.parametrize(
    ("one", "other", "excludes"),
    [
        pytest.param(
            {"gcePersistentDisk": {"pdName": "d"}},
            {"gcePersistentDisk": {"pdName": "d", "readOnly": True}},
            True,
            id="gce-one-writes",
        ),
        pytest.param(
            {"gcePersistentDisk": {"pdName": "d", "readOnly": True}},
            {"gcePersistentDisk": {"pdName": "d", "readOnly": True}},
            False,
            id="gce-both-read",
        ),
        pytest.param(
            {"awsElasticBlockStore": {"volumeID": "v", "readOnly": True}},
            {"awsElasticBlockStore": {"volumeID": "v", "readOnly": True}},
            True,
            id="ebs-even-if-both-read",
        ),
        pytest.param({"iscsi": {"iqn": "i"}}, {"iscsi": {"iqn": "i", "lun": 1}}, True, id="iscsi"),
        pytest.param(
            {"rbd": {"monitors": ["a", "b"], "pool": "p", "image": "i"}},
            {"rbd": {"monitors": ["b", "c"], "pool": "p", "image": "i"}},
            True,
            id="rbd-one-monitor-in-common",
        ),
        pytest.param(
            {"rbd": {"monitors": ["a"], "pool": "p", "image": "i"}},
            {"rbd": {"monitors": ["c"], "pool": "p", "image": "i"}},
            False,
            id="rbd-other-monitors",
        ),
        pytest.param(
            {"cinder": {"volumeID": "v"}}, {"cinder": {"volumeID": "v"}}, False, id="cinder"
        ),
    ],
)
def test_disks_exclude_each_other(one: Any, other: Any, excludes: bool) -> None:
    assert disk(**one).excludes(disk(**other)) is excludes


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        pytest.param(
            {"gcePersistentDisk": {"pdName": "d"}},
            CsiVolume(GCE.driver, "projects/UNSPECIFIED/zones/UNSPECIFIED/disks/d"),
            id="gce",
        ),
        pytest.param(
            {"awsElasticBlockStore": {"volumeID": "aws:///vol-1"}},
            CsiVolume(EBS.driver, "vol-1"),
            id="ebs",
        ),
        pytest.param({"awsElasticBlockStore": {"volumeID": "aws://z/disk"}}, None, id="no-ebs-id"),
        pytest.param({"iscsi": {"iqn": "i"}}, None, id="iscsi"),
    ],
)
def test_an_inline_disk_counts_as_a_csi_volume(source: Any, expected: Any) -> None:
    assert disk(**source).csi == expected
