"""Applies LimitRanges as the API server does: defaults before admission, bounds after it.

LimitRanger runs before the webhook, and again if the webhook changed the pod. It then adds a
default again that a smaller tier had replaced, and the webhook is called a second time.

Not simulated: ``maxLimitRequestRatio``, which GPUs cannot violate, and bounds of a whole pod on
resources other than GPUs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from gpuctl.simulate.decode import to_limits
from gpuctl.simulate.manifests import Document, Raw, object_of
from scheduler.model import resources, well_known
from scheduler.model.pods.pod import Pod
from scheduler.watch.decode.api_types import Amounts

_FIELDS: Final = ("initContainers", "containers")
#: Field of a container's resources -> its noun in messages, in the order of the checks.
_NOUNS: Final = {"requests": "request", "limits": "limit"}


class Limit(msgspec.Struct, frozen=True):
    """One entry of a LimitRange; only containers have defaults."""

    type: str
    least: Amounts
    most: Amounts
    default: Amounts
    default_request: Amounts


class LimitRanges:
    """The LimitRanges of the input, by namespace."""

    def __init__(self) -> None:
        self._known: dict[str, list[Limit]] = {}

    def add(self, namespace: str, document: Document) -> None:
        """Add a LimitRange, with the defaults that the API server derives."""
        for item in to_limits(document):
            least, most = item.min or {}, item.max or {}
            default = {**most, **(item.default or {})}
            request = {**least, **default, **(item.default_request or {})}
            limit = Limit(item.type, least, most, default, request)
            self._known.setdefault(namespace, []).append(limit)

    def filled(self, raw: Raw, namespace: str) -> Raw:
        """The pod, with defaults for missing requests and limits of its containers."""
        for limit in self._known.get(namespace, ()):
            if limit.type == "Container":
                spec = raw["spec"]
                changed = {
                    field: [_filled(container, limit) for container in spec[field]]
                    for field in _FIELDS
                    if isinstance(spec.get(field), list)
                }
                raw = {**raw, "spec": {**spec, **changed}}
        return raw

    def refusal(self, raw: Raw, pod: Pod) -> str | None:
        """The API server's message if the pod violates a bound, else None."""
        violations = [
            text
            for limit in self._known.get(pod.namespace, ())
            for held in _holders(limit.type, raw, pod)
            for text in _violations(limit, held)
        ]
        if len(violations) > 1:
            return f"[{', '.join(violations)}]"
        return violations[0] if violations else None


def _filled(container: Any, limit: Limit) -> Any:
    if not isinstance(container, dict):
        return container  # the decoder reports it
    held = object_of(container.get("resources"))
    sides: dict[str, Mapping[str, Any]] = {
        "limits": {**limit.default, **object_of(held.get("limits"))},
        "requests": {**limit.default_request, **object_of(held.get("requests"))},
    }
    given = {side: own for side, own in sides.items() if own}
    return {**container, "resources": {**held, **given}}


def _holders(kind: str, raw: Raw, pod: Pod) -> Iterator[Raw]:
    """The amounts that a bound applies to: each container's, or the sum of the pod's GPUs."""
    if kind == "Pod":
        gpus: Raw = dict(pod.gpu_requests)
        yield dict.fromkeys(_NOUNS, gpus)
    elif kind == "Container":
        for field in reversed(_FIELDS):
            for container in raw["spec"].get(field) or ():
                yield object_of(object_of(container).get("resources"))


def _violations(limit: Limit, held: Raw) -> Iterator[str]:
    for word, bounds, order in (
        ("minimum", limit.least, ("requests", "limits")),
        ("maximum", limit.most, ("limits", "requests")),
    ):
        for resource, bound in sorted(bounds.items()):
            if limit.type == "Pod" and not well_known.is_gpu_device(resource):
                continue
            head = f"{word} {resource} usage per {limit.type} is {bound}"
            found = [(side, object_of(held.get(side)).get(resource)) for side in order]
            if found[0][1] is None:
                yield f"{head}.  No {_NOUNS[order[0]]} is specified"
                continue
            for side, own in found:
                if own is not None and _is_beyond(resource, word, own, bound):
                    yield f"{head}, but {_NOUNS[side]} is {own}"
                    break


def _is_beyond(resource: str, word: str, own: Any, bound: Any) -> bool:
    amount, edge = resources.amount(resource, own), resources.amount(resource, bound)
    return amount < edge if word == "minimum" else amount > edge
