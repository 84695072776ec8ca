"""Storage objects as short arrays in recordings, and back.

An object that its array does not give back exactly is written whole.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

Json = dict[str, Any]

ZONE: Final = "topology.kubernetes.io/zone"
SELECTED: Final = "volume.kubernetes.io/selected-node"
COMPLETED: Final = "pv.kubernetes.io/bind-completed"
#: In place of a zone where a volume has no field for labels.
NO_LABELS: Final = "-"


class _Form(NamedTuple):
    """The values of an object, and the object with these values."""

    short: Callable[[Json], list[Any]]
    whole: Callable[..., Json]


def shortened(kind: str, manifest: Json) -> Json | list[Any]:
    """The array of an object, or the object."""
    form = _FORMS.get(kind)
    if form is None:
        return manifest
    try:
        values = form.short(manifest)
        while values and not values[-1]:
            del values[-1]
        return values if form.whole(*values) == manifest else manifest
    except LookupError:
        return manifest


def whole(kind: str, recorded: Json | list[Any]) -> Json:
    """The object of an array."""
    return _FORMS[kind].whole(*recorded) if isinstance(recorded, list) else recorded


def short_volume(volume: Json) -> Json | str:
    """A pod's volume; the name of its claim where both have one name."""
    return volume["name"] if volume == whole_volume(volume["name"]) else volume


def whole_volume(recorded: Json | str) -> Json:
    """The pod's volume again."""
    if isinstance(recorded, str):
        return {"name": recorded, "persistentVolumeClaim": {"claimName": recorded}}
    return recorded


# --- claims and volumes ---------------------------------------------------------------------------


def _short_claim(one: Json) -> list[Any]:
    meta, spec = one["metadata"], one["spec"]
    return [
        f"{meta['namespace']}/{meta['name']}",
        *(spec["storageClassName"], spec["resources"]["requests"]["storage"]),
        *(spec["accessModes"][0], spec.get("volumeName", "")),
        meta.get("annotations", {}).get(SELECTED, ""),
        spec.get("volumeMode", ""),
    ]


def _claim(
    key: str, class_name: str, size: str, mode: str, volume: str = "", node: str = "", as_: str = ""
) -> Json:
    namespace, _, name = key.partition("/")
    annotations = {SELECTED: node} if node else {}
    spec: Json = {
        "accessModes": [mode],
        "storageClassName": class_name,
        "resources": {"requests": {"storage": size}},
    }
    if volume:
        annotations[COMPLETED] = "yes"
        spec["volumeName"] = volume
    if as_:
        spec["volumeMode"] = as_
    meta: Json = {"name": name, "namespace": namespace}
    if annotations:
        meta["annotations"] = annotations
    return {
        "metadata": meta,
        "spec": spec,
        "status": {"phase": "Bound" if volume else "Pending"},
    }


def _short_persistent_volume(one: Json) -> list[Any]:
    meta, spec = one["metadata"], one["spec"]
    claim = spec.get("claimRef")
    return [
        *(meta["name"], spec["storageClassName"], spec["capacity"]["storage"]),
        *(spec["accessModes"][0], spec["csi"]["driver"], one["status"]["phase"]),
        f"{claim['namespace']}/{claim['name']}" if claim else "",
        _named_values(spec["nodeAffinity"]) if "nodeAffinity" in spec else {},
        meta["labels"].get(ZONE, "") if "labels" in meta else NO_LABELS,
        spec.get("volumeMode", ""),
    ]


def _named_values(affinity: Json) -> dict[str, list[str]]:
    [term] = affinity["required"]["nodeSelectorTerms"]
    return {one["key"]: one["values"] for one in term["matchExpressions"]}


def _persistent_volume(
    name: str,
    class_name: str,
    size: str,
    mode: str,
    driver: str,
    phase: str,
    claim: str = "",
    terms: dict[str, list[str]] | None = None,
    zone: str = "",
    as_: str = "",
) -> Json:
    spec: Json = {
        "capacity": {"storage": size},
        "accessModes": [mode],
        "storageClassName": class_name,
        "persistentVolumeReclaimPolicy": "Retain",
        "csi": {"driver": driver, "volumeHandle": name},
    }
    if claim:
        namespace, _, claim_name = claim.partition("/")
        spec["claimRef"] = {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "namespace": namespace,
            "name": claim_name,
        }
    if terms:
        wanted = [{"key": k, "operator": "In", "values": v} for k, v in terms.items()]
        spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": [{"matchExpressions": wanted}]}}
    if as_:
        spec["volumeMode"] = as_
    meta: Json = {"name": name}
    if zone != NO_LABELS:
        meta["labels"] = {ZONE: zone} if zone else {}
    return {"metadata": meta, "spec": spec, "status": {"phase": phase}}


# --- what drivers and classes say -----------------------------------------------------------------


def _short_class(one: Json) -> list[Any]:
    topologies = one.get("allowedTopologies")
    zones = topologies[0]["matchLabelExpressions"][0]["values"] if topologies else []
    is_delayed = one["volumeBindingMode"] == "WaitForFirstConsumer"
    mode = "" if is_delayed else one["volumeBindingMode"]
    return [one["metadata"]["name"], one["provisioner"], zones, mode]


def _class(name: str, provisioner: str, zones: list[str] | None = None, mode: str = "") -> Json:
    found: Json = {
        "metadata": {"name": name},
        "provisioner": provisioner,
        "volumeBindingMode": mode or "WaitForFirstConsumer",
    }
    if zones:
        expressions = [{"key": "zone", "values": zones}]
        found["allowedTopologies"] = [{"matchLabelExpressions": expressions}]
    return found


def _driver(name: str, publishes: bool = False) -> Json:
    spec = {"attachRequired": False, "storageCapacity": publishes}
    return {"metadata": {"name": name}, "spec": spec}


def _short_csi_node(one: Json) -> list[Any]:
    drivers = one["spec"]["drivers"]
    return [
        one["metadata"]["name"],
        {driver["name"]: driver["allocatable"]["count"] for driver in drivers},
    ]


def _csi_node(name: str, limits: dict[str, int] | None = None) -> Json:
    drivers = [
        {
            "name": driver,
            "nodeID": name,
            "topologyKeys": ["zone"],
            "allocatable": {"count": count},
        }
        for driver, count in (limits or {}).items()
    ]
    return {"metadata": {"name": name}, "spec": {"drivers": drivers}}


def _short_capacity(one: Json) -> list[Any]:
    return [
        *(one["metadata"]["name"], one["storageClassName"]),
        *(one["nodeTopology"]["matchLabels"]["zone"], one["capacity"]),
        one.get("maximumVolumeSize", ""),
    ]


def _capacity(name: str, class_name: str, zone: str, free: str, largest: str = "") -> Json:
    found: Json = {
        "metadata": {"name": name, "namespace": "default"},
        "storageClassName": class_name,
        "nodeTopology": {"matchLabels": {"zone": zone}},
        "capacity": free,
    }
    return {**found, "maximumVolumeSize": largest} if largest else found


_FORMS: Final = {
    "persistentvolumeclaims": _Form(_short_claim, _claim),
    "persistentvolumes": _Form(_short_persistent_volume, _persistent_volume),
    "storageclasses": _Form(_short_class, _class),
    "csidrivers": _Form(
        lambda one: [one["metadata"]["name"], one["spec"]["storageCapacity"]], _driver
    ),
    "csinodes": _Form(_short_csi_node, _csi_node),
    "csistoragecapacities": _Form(_short_capacity, _capacity),
}
