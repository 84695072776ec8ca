"""The kind ``sources``: as ``volumes``, with volumes that come in other ways.

Generic ephemeral volumes, volumes and claims that name each other in advance, block devices, and
disks of the former in-tree plugins: as volumes of claims, and inline in pods. ``local`` and NFS
volumes have no driver.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import msgspec

from tests.differential.generate import storage, volumes
from tests.differential.generate.draws import Draws
from tests.differential.generate.nodes import LABELS
from tests.differential.sequence import NodeForm, Sequence, SetNode, SetObject, Step, Workload

Json = dict[str, Any]

KIND: Final = "sources"
BETA_ZONE: Final = "failure-domain.beta.kubernetes.io/zone"
#: The plugins that a node's kubelet has switched over to CSI.
MIGRATED: Final = "storage.alpha.kubernetes.io/migrated-plugins"
_DISKS: Final = ("d1", "d2", "d3")
#: The class of an in-tree plugin.
_CLASS: Final = "in-tree"


class _Plugin(NamedTuple):
    """``zone`` is the node label with the zone of its CSI driver."""

    name: str
    driver: str
    zone: str = ""


#: By the field of a volume.
IN_TREE: Final = {
    "awsElasticBlockStore": _Plugin(
        "kubernetes.io/aws-ebs", "ebs.csi.aws.com", "topology.ebs.csi.aws.com/zone"
    ),
    "azureDisk": _Plugin(
        "kubernetes.io/azure-disk", "disk.csi.azure.com", "topology.disk.csi.azure.com/zone"
    ),
    "cinder": _Plugin(
        "kubernetes.io/cinder",
        "cinder.csi.openstack.org",
        "topology.cinder.csi.openstack.org/zone",
    ),
    "gcePersistentDisk": _Plugin(
        "kubernetes.io/gce-pd", "pd.csi.storage.gke.io", "topology.gke.io/zone"
    ),
    "portworxVolume": _Plugin("kubernetes.io/portworx-volume", "pxd.portworx.com"),
}


def sequence(seed: int) -> Sequence:
    """The sequence of a seed."""
    base = volumes.drawn(KIND, seed)
    draws = Draws(f"{KIND} {seed}")
    in_tree = {"metadata": {"name": _CLASS}, "provisioner": IN_TREE["gcePersistentDisk"].name}
    objects = [SetObject("storageclasses", {**in_tree, **_DELAYED})]
    for one in base.objects:
        objects += _other(draws, one)
    return msgspec.structs.replace(
        base,
        nodes=tuple(_labelled(draws, one) for one in base.nodes),
        objects=tuple(objects),
        workloads=tuple(_with_sources(draws, one) for one in base.workloads),
        steps=tuple(_changed(draws, one) for one in base.steps),
    )


_DELAYED: Final = {"volumeBindingMode": "WaitForFirstConsumer"}


def _changed(draws: Draws, step: Step) -> Step:
    match step:
        case SetNode(form):
            return SetNode(_labelled(draws, form))
        case SetObject():
            return _other(draws, step)[0]
    return step


def _labelled(draws: Draws, form: NodeForm) -> NodeForm:
    """Some of the labels that drivers give a node in a zone."""
    zone = form.labels.get(storage.ZONE)
    keys = [BETA_ZONE, *(one.zone for one in IN_TREE.values() if one.zone)]
    labels = {key: zone for key in keys if zone and draws.chance(0.6)}
    return msgspec.structs.replace(form, labels={**form.labels, **labels})


# --- objects --------------------------------------------------------------------------------------


def _other(draws: Draws, one: SetObject) -> list[SetObject]:
    """The object in another form, with those that belong to it."""
    manifest = msgspec.json.decode(msgspec.json.encode(one.manifest))
    more: list[SetObject] = []
    match one.kind:
        case "csinodes":
            _migrate(draws, manifest)
        case "persistentvolumes":
            _change_volume(draws, manifest)
        case "persistentvolumeclaims" if "volumeName" not in manifest["spec"]:
            more = _change_claim(draws, manifest)
    return [SetObject(one.kind, manifest), *more]


def _migrate(draws: Draws, manifest: Json) -> None:
    """A node of which some in-tree plugins are migrated; their drivers have limits."""
    migrated = [one for one in IN_TREE.values() if draws.chance(0.6)]
    manifest["metadata"]["annotations"] = {MIGRATED: ",".join(one.name for one in migrated)}
    for one in IN_TREE.values():
        if draws.chance(0.6):
            limit = {"count": draws.number(1, 3)}
            keys = [one.zone] if one.zone else []
            driver = {"name": one.driver, "nodeID": "n", "topologyKeys": keys, "allocatable": limit}
            manifest["spec"]["drivers"].append(driver)


def _change_volume(draws: Draws, manifest: Json) -> None:
    """Another source, other zone labels, a block device."""
    spec, labels = manifest["spec"], manifest["metadata"]["labels"]
    if draws.chance(0.25):
        spec["volumeMode"] = "Block"
    if draws.chance(0.3):
        return
    del spec["csi"]
    if draws.chance(0.2):
        spec["nfs"] = {"server": "nfs.example.com", "path": f"/{manifest['metadata']['name']}"}
        return
    field = draws.one(tuple(IN_TREE))
    spec[field] = _disk(draws, field, "")
    if manifest["status"]["phase"] != "Bound":
        # kube-scheduler gives such a volume by its own node affinity and then refuses the one that
        # its driver knows (``checkBindings``), with the claim bound to it.
        labels.pop(storage.ZONE, None)
        return
    if draws.chance(0.6):
        spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": _zone_terms(draws)}}
    labels.pop(storage.ZONE, None)
    if draws.chance(0.4):
        # The zones of a GCE disk have to be in one region.
        several = () if field == "gcePersistentDisk" else ("z1__z2",)
        labels[draws.one((storage.ZONE, BETA_ZONE))] = draws.one((*LABELS["zone"], *several))


def _zone_terms(draws: Draws) -> list[Json]:
    key = draws.one((storage.ZONE, storage.ZONE, BETA_ZONE, "zone"))
    return [
        {
            "matchExpressions": [
                {"key": key, "operator": "In", "values": draws.some(LABELS["zone"], number)}
            ]
        }
        for number in draws.one(((1,), (2,), (1, 1)))
    ]


def _disk(draws: Draws, field: str, of_pod: str) -> Json:
    """The source; few disks, so that pods and volumes share them."""
    name = draws.one(_DISKS)
    match field:
        case "gcePersistentDisk":
            found: Json = {"pdName": name}
        case "azureDisk":
            uri = f"/subscriptions/s/{name}"
            found = {"diskName": name, "diskURI": uri, "kind": "Managed"}
        case "awsElasticBlockStore":
            found = {"volumeID": draws.one((f"vol-{name}", f"aws://z1/vol-{name}"))}
        case _:
            found = {"volumeID": name}
    if of_pod and draws.chance(0.4):
        found["readOnly"] = True
    return found


def _change_claim(draws: Draws, manifest: Json) -> list[SetObject]:
    """A claim that waits: for a block device, for a volume that it names, or one that is kept for
    it."""
    meta, spec = manifest["metadata"], manifest["spec"]
    if draws.chance(0.25):
        spec["volumeMode"] = "Block"
    if draws.chance(0.1):
        spec["storageClassName"] = _CLASS
    if draws.chance(0.12):
        spec["volumeName"] = draws.one(("v0", "v1", "pv-absent"))
    elif draws.chance(0.35):
        key = f"{meta['namespace']}/{meta['name']}"
        kept = storage.volume(draws, f"kept-{meta['namespace']}-{meta['name']}", key)
        kept.manifest["status"]["phase"] = "Available"
        kept.manifest["spec"]["storageClassName"] = spec["storageClassName"]
        _change_volume(draws, kept.manifest)
        if draws.chance(0.7):
            kept.manifest["spec"].pop("volumeMode", None)
            kept.manifest["spec"]["volumeMode"] = spec.get("volumeMode", "Filesystem")
        return [kept]
    return []


# --- pods -----------------------------------------------------------------------------------------


def _with_sources(draws: Draws, workload: Workload) -> Workload:
    """The pod template with an ephemeral volume, disks, or both, beside its claims."""
    found = list(workload.spec.get("volumes", ()))
    if not found:
        return workload
    if draws.chance(0.3):
        found = [one for one in found if "persistentVolumeClaim" in one][:1]
        found += [_ephemeral(draws, number) for number in range(draws.one((1, 1, 2)))]
    if draws.chance(0.35):
        found += [_inline(draws, number) for number in range(draws.one((1, 1, 2)))]
    if draws.chance(0.3):
        found = [one for one in found if "persistentVolumeClaim" not in one]
    return msgspec.structs.replace(workload, spec={**workload.spec, "volumes": found})


def _ephemeral(draws: Draws, number: int) -> Json:
    name = draws.one(("wait", "wait", "wait-z1", "capacity", "local", "now", _CLASS))
    spec = storage.claim("-/-", name, draws.one(("1Gi", "2Gi")), "ReadWriteOnce").manifest["spec"]
    if draws.chance(0.2):
        spec["volumeMode"] = "Block"
    names = (f"e{number}",) * 8 + (("late", "taken") if number == 0 else ())
    return {"name": draws.one(names), "ephemeral": {"volumeClaimTemplate": {"spec": spec}}}


def _inline(draws: Draws, number: int) -> Json:
    """A disk that the pod names itself."""
    fields = (*IN_TREE, "awsElasticBlockStore", "gcePersistentDisk", "iscsi", "rbd")
    field = draws.one(fields)
    if field == "iscsi":
        target = {"targetPortal": "192.0.2.1", "iqn": f"iqn.2026-01.com.example:{number}", "lun": 0}
        source: Json = {**target, "readOnly": draws.chance(0.5)}
    elif field == "rbd":
        monitors = draws.some(("m1", "m2", "m3"), draws.number(1, 2))
        source = {"monitors": monitors, "pool": "rbd", "image": draws.one(("i1", "i2"))}
        source["readOnly"] = draws.chance(0.5)
    else:
        source = _disk(draws, field, "pod")
        if field == "cinder" or field == "portworxVolume":
            source.pop("readOnly", None)
    return {"name": f"disk{number}", field: source}
