"""Random storage: classes, drivers, volumes and claims in every state that a pod can meet.

There is no volume controller but that of the live run (``live/volume_controller``), so claims are
created bound, or wait for their first consumer.
"""

from __future__ import annotations

from typing import Any, Final

from tests.differential.generate.draws import Draws
from tests.differential.generate.nodes import LABELS
from tests.differential.sequence import SetObject

Json = dict[str, Any]

DRIVERS: Final = ("csi.example.com", "cap.example.com")
#: Storage class -> provisioner and further fields.
CLASSES: Final[dict[str, tuple[str, Json]]] = {
    "wait": (DRIVERS[0], {}),
    "wait-z1": (
        DRIVERS[0],
        {"allowedTopologies": [{"matchLabelExpressions": [{"key": "zone", "values": ["z1"]}]}]},
    ),
    "capacity": (DRIVERS[1], {}),
    "local": ("kubernetes.io/no-provisioner", {}),
    "now": (DRIVERS[0], {"volumeBindingMode": "Immediate"}),
}
ZONE: Final = "topology.kubernetes.io/zone"
BOUND: Final = {"pv.kubernetes.io/bind-completed": "yes"}
_MODES: Final = ("ReadWriteOnce", "ReadWriteOnce", "ReadWriteOnce", "ReadWriteOncePod")
_SIZES: Final = ("1Gi", "2Gi", "5Gi")


def shared(draws: Draws, names: tuple[str, ...]) -> list[SetObject]:
    """Classes, drivers, and what drivers say of nodes and zones."""
    found = [SetObject("storageclasses", _class(name)) for name in CLASSES]
    for name in DRIVERS:
        spec = {"attachRequired": False, "storageCapacity": name == DRIVERS[1]}
        found.append(SetObject("csidrivers", {"metadata": {"name": name}, "spec": spec}))
    found += [csi_node(draws, name) for name in names if draws.chance(0.7)]
    found += [capacity(draws, number) for number in range(draws.number(0, 4))]
    return found


def _class(name: str) -> Json:
    provisioner, more = CLASSES[name]
    return {
        "metadata": {"name": name},
        "provisioner": provisioner,
        "volumeBindingMode": "WaitForFirstConsumer",
        **more,
    }


def csi_node(draws: Draws, name: str) -> SetObject:
    """The drivers of a node and how many volumes of each it can attach."""
    drivers = [
        {
            "name": driver,
            "nodeID": name,
            "topologyKeys": ["zone"],
            "allocatable": {"count": draws.number(1, 3)},
        }
        for driver in DRIVERS
        if draws.chance(0.8)
    ]
    return SetObject("csinodes", {"metadata": {"name": name}, "spec": {"drivers": drivers}})


def capacity(draws: Draws, number: int) -> SetObject:
    """What a driver can still provision in a zone."""
    manifest: Json = {
        "metadata": {"name": f"capacity{number}", "namespace": "default"},
        "storageClassName": draws.one(("capacity", "capacity", "wait")),
        "nodeTopology": {"matchLabels": {"zone": draws.one(LABELS["zone"])}},
        "capacity": draws.one(("1Gi", "3Gi", "9Gi")),
    }
    if draws.chance(0.3):
        manifest["maximumVolumeSize"] = draws.one(("1Gi", "3Gi"))
    return SetObject("csistoragecapacities", manifest)


def volume(
    draws: Draws, name: str, claim: str = "", class_name: str = "", mode: str = ""
) -> SetObject:
    """A volume; with ``claim`` it is bound to that."""
    spec: Json = {
        "capacity": {"storage": draws.one(_SIZES)},
        "accessModes": [mode or draws.one(_MODES)],
        "storageClassName": class_name or draws.one(("local", "local", "wait")),
        "persistentVolumeReclaimPolicy": "Retain",
        "csi": {"driver": draws.one((DRIVERS[0], *DRIVERS)), "volumeHandle": name},
    }
    if draws.chance(0.5):
        spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": [_term(draws)]}}
    labels: Json = {}
    if draws.chance(0.3):
        labels[ZONE] = draws.one((*LABELS["zone"], "z1__z2"))
    if claim:
        namespace, _, claim_name = claim.partition("/")
        spec["claimRef"] = {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "namespace": namespace,
            "name": claim_name,
        }
    meta = {"name": name, "labels": labels}
    phase = "Bound" if claim else draws.one(("Available", "Available", "Available", "Released"))
    return SetObject(
        "persistentvolumes", {"metadata": meta, "spec": spec, "status": {"phase": phase}}
    )


def _term(draws: Draws) -> Json:
    key = draws.one(("zone", "zone", "rack", "disk"))
    values = draws.some(LABELS[key], draws.number(1, 2))
    return {"matchExpressions": [{"key": key, "operator": "In", "values": values}]}


def claims(draws: Draws, namespace: str, name: str) -> list[SetObject]:
    """A claim, and the volume that it is bound to if it is."""
    kind = draws.number(0, 19)
    key, mode = f"{namespace}/{name}", draws.one(_MODES)
    if kind < 9:
        bound = volume(draws, f"pv-{namespace}-{name}", key, "wait", mode)
        return [
            claim(key, "wait", "1Gi", mode, volume_name=bound.manifest["metadata"]["name"]),
            bound,
        ]
    if kind == 9:
        return [claim(key, "now", "1Gi", mode)]
    if kind == 10:
        # Bound to a volume that is not there.
        return [claim(key, "wait", "1Gi", mode, volume_name="pv-absent")]
    return [
        claim(key, draws.one(("wait", "wait-z1", "capacity", "local")), draws.one(_SIZES), mode)
    ]


def claim(key: str, class_name: str, size: str, mode: str, volume_name: str = "") -> SetObject:
    """A claim in a state."""
    namespace, _, name = key.partition("/")
    spec: Json = {
        "accessModes": [mode],
        "storageClassName": class_name,
        "resources": {"requests": {"storage": size}},
    }
    meta: Json = {"name": name, "namespace": namespace}
    if volume_name:
        spec["volumeName"] = volume_name
        meta["annotations"] = dict(BOUND)
    phase = "Bound" if volume_name else "Pending"
    manifest = {"metadata": meta, "spec": spec, "status": {"phase": phase}}
    return SetObject("persistentvolumeclaims", manifest)


def attachment(draws: Draws, number: int, node: str, volume_name: str) -> SetObject:
    """A volume that is attached to a node."""
    spec = {
        "attacher": draws.one(DRIVERS),
        "nodeName": node,
        "source": {"persistentVolumeName": volume_name},
    }
    return SetObject("volumeattachments", {"metadata": {"name": f"attached{number}"}, "spec": spec})
