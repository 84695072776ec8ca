"""The decodable part of an invalid object: identity, node, and the remaining fields.

One field of the wrong type must not hide a pod that holds a GPU. So its parts are decoded
separately: undecodable ones are left out and listed in ``unread``, and decisions treat them as
unknown. Bytes without a name or a uid are no object: they do not come from an API server.
"""

from __future__ import annotations

from typing import Final, TypeVar

import msgspec

from scheduler.model.gpu.gpu_map import shown
from scheduler.model.json_bounds import UNREADABLE, shallow
from scheduler.model.node import Namespace, Node
from scheduler.model.pods.pod import Pod, Unread
from scheduler.model.quantity import QuantityError
from scheduler.watch.decode.api_types import Meta, OwnerReference, PodSpec, PodStatus, PodWire
from scheduler.watch.decode.pods import to_pod

S = TypeVar("S")
TEXT_MAX: Final = 200
_RAW: Final = msgspec.Raw(b"{}")
_NONE: Final = msgspec.Raw(b"null")


class NotAnObject(ValueError):
    """Bytes that are no API object: they have no name or no uid."""


class _Parts(msgspec.Struct, frozen=True):
    metadata: msgspec.Raw
    spec: msgspec.Raw = _RAW
    status: msgspec.Raw = _RAW


class _Identity(msgspec.Struct, frozen=True):
    name: str
    namespace: str = ""
    uid: str = ""


_PARTS: Final = msgspec.json.Decoder(_Parts)
_IDENTITY: Final = msgspec.json.Decoder(_Identity)


class _PlacementFields(msgspec.Struct, frozen=True, rename="camel"):
    node_name: str = ""
    scheduler_name: str = "default-scheduler"


class _PhaseField(msgspec.Struct, frozen=True):
    phase: str = "Pending"


def problem_text(problem: BaseException) -> str:
    """The problem in one short line."""
    return shown(" ".join(str(problem).split()), TEXT_MAX)


def pod(content: bytes, problem: BaseException) -> Pod:
    """The decodable part of an invalid pod; or NoObject."""
    content = shallow(content)
    whole = _read(msgspec.Raw(content), PodWire) if isinstance(problem, RecursionError) else None
    if whole is not None:  # only an ignored field was nested too deeply
        return to_pod(whole)
    parts, known = _parts(content)
    meta = _read(parts.metadata, Meta) or _meta(parts.metadata, known)
    spec, status = _read(parts.spec, PodSpec), _read(parts.status, PodStatus)
    where = _read(parts.spec, _PlacementFields) or _PlacementFields()
    how = _read(parts.status, _PhaseField) or _PhaseField()
    bare_status = PodStatus(phase=how.phase)
    bare_spec = PodSpec(node_name=where.node_name, scheduler_name=where.scheduler_name)
    text = problem_text(problem)
    if spec is not None and status is not None:
        try:
            found = to_pod(PodWire(meta, spec, status))
        except QuantityError as wrong:
            text = problem_text(wrong)
        else:
            return msgspec.structs.replace(found, unread=Unread(rest=text))
    found = to_pod(PodWire(meta, _without_amounts(spec or bare_spec), bare_status))
    return msgspec.structs.replace(found, unread=Unread(requests=text))


def node(content: bytes, problem: BaseException) -> Node:
    """An invalid node, which accepts no pods; or NoObject."""
    known = _parts(content)[1]
    return Node(name=known.name, uid=known.uid, unschedulable=True, unread=problem_text(problem))


def namespace(content: bytes, problem: BaseException) -> Namespace:
    """An invalid namespace, which allows nothing; or NoObject."""
    return Namespace(name=_parts(content)[1].name, unread=problem_text(problem))


def identity(content: bytes) -> tuple[str, str, str]:
    """Namespace, name and uid of an object; or NoObject."""
    known = _parts(content)[1]
    return known.namespace, known.name, known.uid


def _parts(content: bytes) -> tuple[_Parts, _Identity]:
    try:
        return _decoded(content)
    except UNREADABLE:  # perhaps an ignored field is nested too deeply
        try:
            return _decoded(shallow(content))
        except UNREADABLE as problem:
            raise NotAnObject(f"no object of the API: {problem_text(problem)}") from None


def _decoded(content: bytes) -> tuple[_Parts, _Identity]:
    parts = _PARTS.decode(content)
    return parts, _IDENTITY.decode(parts.metadata)


def _read(content: msgspec.Raw, kind: type[S]) -> S | None:
    try:
        return msgspec.json.decode(content, type=kind)
    except UNREADABLE:
        return None


def _meta(content: msgspec.Raw, known: _Identity) -> Meta:
    """The decodable part of the metadata.

    An annotation that is no text is read as empty, which is never a valid value: a pod that may
    have devices by it has unknown ones (``state/node_info``).
    """
    fields = _read(content, dict[str, msgspec.Raw]) or {}
    references = _read(fields.get("ownerReferences", _NONE), list[msgspec.Raw]) or []
    owners = (_read(one, OwnerReference) for one in references)
    return Meta(
        name=known.name,
        namespace=known.namespace,
        uid=known.uid,
        creation_timestamp=_read(fields.get("creationTimestamp", _NONE), str),
        deletion_timestamp=_read(fields.get("deletionTimestamp", _NONE), str),
        labels=_texts(fields.get("labels", _NONE)),
        annotations=_texts(fields.get("annotations", _NONE)),
        owner_references=tuple(owner for owner in owners if owner is not None),
    )


def _texts(content: msgspec.Raw) -> dict[str, str]:
    found = _read(content, dict[str, msgspec.Raw]) or {}
    return {key: _read(value, str) or "" for key, value in found.items()}


def _without_amounts(spec: PodSpec) -> PodSpec:
    bare = {
        field: tuple(msgspec.structs.replace(one, resources=None) for one in getattr(spec, field))
        for field in ("containers", "init_containers")
    }
    return msgspec.structs.replace(spec, resources=None, overhead=None, **bare)
