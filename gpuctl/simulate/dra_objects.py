"""Objects of dynamic resource allocation in the input: devices, classes, claims and templates.

They are read by the scheduler's own decoders. What the API server would reject, and what the
scheduler could not read, is an error with its path.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, TypeVar

from gpuctl.simulate.decode import decoded
from gpuctl.simulate.manifests import Document, object_of, text_of
from scheduler.model.dra.cel.engine import SelectorError, compile_selector
from scheduler.model.dra.claim import ResourceClaim
from scheduler.model.dra.device_class import DeviceClass
from scheduler.model.dra.objects import DraObject
from scheduler.model.dra.resource_slice import ResourceSlice
from scheduler.watch.decode.dra import claims, classes, slices
from scheduler.watch.decode.object_decoder import ObjectDecoder

T = TypeVar("T")

TEMPLATE: Final = "ResourceClaimTemplate"
KINDS: Final = dict.fromkeys(
    ("ResourceSlice", "DeviceClass", "DeviceTaintRule", "ResourceClaim", TEMPLATE),
    "resource.k8s.io/v1",
)
#: Former versions of a kind that differ in nothing that is read.
OLDER: Final = {
    "DeviceTaintRule": ("resource.k8s.io/v1beta2", "resource.k8s.io/v1alpha3"),
}
_DECODERS: Final[dict[str, ObjectDecoder[Any]]] = {
    "ResourceSlice": slices.SLICES,
    "DeviceClass": classes.CLASSES,
    "DeviceTaintRule": slices.RULES,
    "ResourceClaim": claims.CLAIMS,
}


def to_object(document: Document, namespace: str) -> DraObject:
    """The model's object; ``namespace`` is used where a claim names none."""
    meta = {**document.metadata, "name": _name(document)}
    if document.kind == "ResourceClaim":
        meta["namespace"] = text_of(meta.get("namespace")) or namespace
        meta.setdefault("uid", f"{meta['namespace']}/{document.name}")
    found: DraObject = decoded(
        _DECODERS[document.kind], {**document.raw, "metadata": meta}, document
    )
    return _checked(document, found, "spec.")


def to_template(document: Document, namespace: str) -> ResourceClaim:
    """A claim as the template has it, with the namespace and the name of the template."""
    at = text_of(document.metadata.get("namespace")) or namespace
    meta = {**object_of(document.spec.get("metadata")), "namespace": at, "name": _name(document)}
    raw = {"metadata": meta, "spec": document.spec.get("spec", {})}
    found = decoded(claims.CLAIMS, raw, document, "spec.")
    return _checked(document, found, "spec.spec.")


def _name(document: Document) -> str:
    name = text_of(document.metadata.get("name"))
    if not name:
        raise document.error("metadata.name", "is missing; give the object a name")
    return name


def _checked(document: Document, found: T, path: str) -> T:
    for where, problem in _problems(found):
        raise document.error(path + where, problem)
    return found


def _problems(item: object) -> Iterator[tuple[str, str]]:
    """What the API server would reject: the path below ``spec``, and the problem."""
    match item:
        case ResourceSlice():
            yield from _slice_problems(item)
        case DeviceClass():
            yield from _selector_problems("", item.selectors)
        case ResourceClaim():
            yield from _claim_problems(item)


def _slice_problems(item: ResourceSlice) -> Iterator[tuple[str, str]]:
    if item.slice_count < 1:
        yield "pool.resourceSliceCount", "is missing; write the number of slices of the pool"
    if not item.nodes and not item.per_device_nodes:
        yield "nodeName", "is missing; write nodeName, or nodeSelector, allNodes: true or"
        " perDeviceNodeSelection: true"


def _claim_problems(item: ResourceClaim) -> Iterator[tuple[str, str]]:
    for at, request in enumerate(item.requests):
        path = f"devices.requests[{at}]"
        if not request.alternatives:
            yield path, "has neither exactly nor firstAvailable; write exactly: {deviceClassName}"
        for position, exact in enumerate(request.alternatives):
            inner = "exactly" if request.exactly is not None else f"firstAvailable[{position}]"
            if not exact.class_name:
                yield f"{path}.{inner}.deviceClassName", "is missing; name a DeviceClass"
            yield from _selector_problems(f"{path}.{inner}.", exact.selectors)


def _selector_problems(prefix: str, selectors: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    for at, text in enumerate(selectors):
        try:
            compile_selector(text)
        except SelectorError as error:
            yield f"{prefix}selectors[{at}].cel.expression", f"cannot be compiled: {error}"
