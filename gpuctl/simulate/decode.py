"""Decodes objects from files into the scheduler's model, with the scheduler's own decoders.

Common errors, and input that the API server would reject, are reported with their path. Everything
else is left to the scheduler's decoders, so that a file has the same meaning in both.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, Protocol, TypeVar

import msgspec

from gpuctl.input_error import InputError
from gpuctl.simulate.manifests import Document, Raw, object_of
from scheduler.model import resources
from scheduler.model.limits import GANG_MEMBERS_MAX
from scheduler.model.node import Namespace, Node
from scheduler.model.pods.gang import PodGroup
from scheduler.model.pods.pod import Pod
from scheduler.model.quantity import QuantityError
from scheduler.model.quota import Quota
from scheduler.watch.decode import nodes, pods
from scheduler.watch.decode.api_types import Amounts
from scheduler.watch.decode.groups import api_groups, coscheduling
from scheduler.watch.decode.quotas import resource_quotas

T = TypeVar("T")
Decoded = TypeVar("Decoded", covariant=True)

_AT: Final = re.compile(r"(?P<problem>.*?)(?: - at `\$\.?(?P<path>.*)`)?")
_TYPES: Final = re.compile(r"Expected `(?P<wanted>[^`]+)`, got `(?P<found>[^`]+)`")
_WORDS: Final = {
    "str": "a text",
    "int": "a number",
    "bool": "true or false",
    "array": "a list",
    "object": "an object",
}
_QUOTE: Final = ("int", "bool", "float")
_SIDES: Final = ("limits", "requests")
#: Of which project a PodGroup is; scheduler-plugins has the same kind.
_COSCHEDULING: Final = "scheduling.x-k8s.io/"
_BOUNDS: Final = ("min", "max", "default", "defaultRequest")


class Decodes(Protocol[Decoded]):
    """A decoder of JSON."""

    def decode(self, content: bytes, /) -> Decoded:
        """The object; a ValidationError, or a ValueError, if it cannot be read."""


class LimitItem(msgspec.Struct, frozen=True, rename="camel"):
    """An entry of a LimitRange as in the file."""

    type: str
    min: Amounts | None = None
    max: Amounts | None = None
    default: Amounts | None = None
    default_request: Amounts | None = None


class _LimitSpec(msgspec.Struct, frozen=True):
    limits: tuple[LimitItem, ...]


class _LimitRange(msgspec.Struct, frozen=True):
    spec: _LimitSpec


_LIMIT_RANGE: Final = msgspec.json.Decoder(_LimitRange)


def to_node(document: Document) -> Node:
    """The model's node."""
    _check_texts(document, object_of(document.raw.get("metadata")), "metadata")
    try:
        return nodes.to_node(decoded(nodes.NODE, document.raw, document, ""))
    except QuantityError as error:
        status = object_of(document.raw.get("status"))
        raise _quantity_error(
            document, status, "status.", ("allocatable", "capacity"), error
        ) from None


def to_namespace(document: Document) -> Namespace:
    """The model's namespace."""
    _check_texts(document, object_of(document.raw.get("metadata")), "metadata")
    return nodes.to_namespace(decoded(nodes.NAMESPACE, document.raw, document, ""))


def to_quota(document: Document) -> Quota:
    """The model's quota."""
    try:
        return resource_quotas.to_quota(decoded(resource_quotas.QUOTA, document.raw, document, ""))
    except QuantityError as error:
        raise _quantity_error(document, document.spec, "spec.", ("hard",), error) from None


def to_limits(document: Document) -> tuple[LimitItem, ...]:
    """The entries of a LimitRange, with valid amounts."""
    items = decoded(_LIMIT_RANGE, document.raw, document, "").spec.limits
    for position, item in enumerate(document.spec["limits"]):
        bad = _first_bad(item, _BOUNDS)
        if bad is not None:
            where, problem = bad
            raise document.error(f"spec.limits[{position}].{where}", problem)
    return items


def to_pod_group(document: Document, namespace: str) -> PodGroup:
    """The model's PodGroup, of the API server or of scheduler-plugins."""
    is_plugin = document.api_version.startswith(_COSCHEDULING)
    decoder = coscheduling.POD_GROUPS if is_plugin else api_groups.POD_GROUPS
    raw = {**document.raw, "metadata": {**document.metadata, "namespace": namespace}}
    group = decoded(decoder, raw, document)
    if (group.minimum or 0) > GANG_MEMBERS_MAX:
        path = "spec.minMember" if is_plugin else "spec.schedulingPolicy.gang.minCount"
        raise document.error(path, f"is {group.minimum}; at most {GANG_MEMBERS_MAX} is possible")
    return group


def to_pod(raw: Raw, document: Document, prefix: str = "") -> Pod:
    """The model's pod; ``prefix`` is the pod's path in its document (a template)."""
    _check_texts(document, object_of(raw.get("metadata")), f"{prefix}metadata")
    if not raw.get("spec", {}).get("containers"):
        raise document.error(f"{prefix}spec.containers", "is empty; a pod needs a container")
    try:
        pod = pods.to_pod(decoded(pods.POD, raw, document, prefix))
    except QuantityError as error:
        raise _bad_quantity(raw, document, prefix, error) from None
    return pod


def decoded(decoder: Decodes[T], raw: Raw, document: Document, prefix: str = "") -> T:
    """An object of a document; ``prefix`` is its path there."""
    try:
        return decoder.decode(msgspec.json.encode(raw))
    except msgspec.ValidationError as error:
        found = _AT.fullmatch(str(error))
        path = found["path"] if found else None
        problem = _in_words(found["problem"] if found else str(error))
        raise document.error(f"{prefix}{path or 'object'}", problem) from None
    except (ValueError, OverflowError, RecursionError) as error:
        raise document.error(f"{prefix}object", f"cannot be read: {str(error)[:200]}") from None


def _in_words(problem: str) -> str:
    """msgspec's message about types, in YAML's terms."""
    types = _TYPES.fullmatch(problem)
    if types is None:
        return problem.replace("`", '"')
    options = [_WORDS.get(word, word) for word in types["wanted"].split(" | ") if word != "null"]
    advice = "; put it in quotes" if types["found"] in _QUOTE and "a text" in options else ""
    return (
        f"expected {' or '.join(options)}, found {_WORDS.get(types['found'], types['found'])}"
        f"{advice}"
    )


def _check_texts(document: Document, metadata: Raw, path: str) -> None:
    """Labels and annotations must be strings; YAML turns some into numbers and booleans."""
    for part in ("labels", "annotations"):
        for key, value in object_of(metadata.get(part)).items():
            if not isinstance(value, str):
                shown = msgspec.json.encode(value).decode()
                raise document.error(
                    f"{path}.{part}[{key}]", f"{shown[:40]} is not a text; put it in quotes"
                )


def _bad_quantity(raw: Raw, document: Document, prefix: str, error: QuantityError) -> InputError:
    spec = object_of(raw.get("spec"))
    for path, holder in _holders(spec):
        found = _first_bad(holder, _SIDES)
        if found is not None:
            where, problem = found
            return document.error(f"{prefix}spec.{path}{where}", problem)
    return _quantity_error(document, spec, f"{prefix}spec.", ("overhead",), error)


def _quantity_error(
    document: Document, holder: Raw, path: str, sides: tuple[str, ...], error: QuantityError
) -> InputError:
    where, problem = _first_bad(holder, sides) or ("", str(error))
    return document.error(f"{path}{where}".rstrip("."), problem)


def _first_bad(holder: Raw, sides: tuple[str, ...]) -> tuple[str, str] | None:
    for side in sides:
        for name, amount in object_of(holder.get(side)).items():
            try:
                if resources.amount(name, amount) < 0:
                    return f"{side}[{name}]", f"{amount} is negative"
            except QuantityError as error:
                return f"{side}[{name}]", str(error)
    return None


def _holders(spec: Raw) -> Iterator[tuple[str, Raw]]:
    """Each holder of requests and limits in a pod's spec, with its path."""
    for path, container in _containers(spec):
        yield f"{path}.resources.", object_of(container.get("resources"))
    yield "resources.", object_of(spec.get("resources"))


def _containers(spec: Raw) -> Iterator[tuple[str, Raw]]:
    for field in ("initContainers", "containers"):
        for position, container in enumerate(spec.get(field) or ()):
            yield f"{field}[{position}]", object_of(container)
