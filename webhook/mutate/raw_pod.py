"""A pod as decoded JSON; unknown fields are preserved.

Typed models would drop fields of newer API versions, so the webhook keeps the received JSON. Any
field may be missing, null or of a wrong type; reading never fails, and the API server's validation
rejects invalid objects later. A change returns a new pod that shares unchanged parts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from scheduler.model import quantity, well_known
from scheduler.model.pods.pod_parts import Owner, owner_of

RawPod = dict[str, Any]
RawContainer = dict[str, Any]

_INIT = "initContainers"
_REGULAR = "containers"


class ContainerRef(NamedTuple):
    """One container and its place in the pod; init containers come first, in the order of
    execution.
    """

    field: str
    position: int
    container: RawContainer

    @property
    def name(self) -> str:
        """The container's name, empty if the pod has none there."""
        return text(self.container.get("name"))

    @property
    def is_init(self) -> bool:
        """Whether the container is listed below ``initContainers`` (sidecars are)."""
        return self.field == _INIT

    @property
    def ends_early(self) -> bool:
        """Whether the container is an init container that ends before the others start."""
        return self.is_init and self.container.get("restartPolicy") != "Always"


def mapping(value: object) -> dict[str, Any]:
    """The value if it is an object, else an empty object."""
    return value if isinstance(value, dict) else {}


def text(value: object) -> str:
    """The value if it is a text, else an empty text."""
    return value if isinstance(value, str) else ""


def metadata(pod: RawPod) -> dict[str, Any]:
    """``metadata``, or an empty object."""
    return mapping(pod.get("metadata"))


def spec(pod: RawPod) -> dict[str, Any]:
    """``spec``, or an empty object."""
    return mapping(pod.get("spec"))


def annotations_of(pod: RawPod) -> dict[str, str]:
    """The annotations that are texts."""
    return _texts(metadata(pod).get("annotations"))


def labels_of(pod: RawPod) -> dict[str, str]:
    """The labels that are texts."""
    return _texts(metadata(pod).get("labels"))


def _texts(value: object) -> dict[str, str]:
    return {key: item for key, item in mapping(value).items() if isinstance(item, str)}


def controller(pod: RawPod) -> Owner | None:
    """The controlling owner; None for a bare pod."""
    owners = metadata(pod).get("ownerReferences")
    for owner in owners if isinstance(owners, list) else []:
        if mapping(owner).get("controller") is True:
            return owner_of(
                *(text(owner.get(key)) for key in ("apiVersion", "kind", "name", "uid"))
            )
    return None


def has_claim_template(pod: RawPod) -> bool:
    """Whether a ResourceClaim is created for the pod alone."""
    listed = spec(pod).get("resourceClaims")
    return isinstance(listed, list) and any(
        isinstance(one, dict) and bool(one.get("resourceClaimTemplateName")) for one in listed
    )


def slots(pod: RawPod) -> Iterator[ContainerRef]:
    """Every init container and container, in order of declaration."""
    for field in (_INIT, _REGULAR):
        listed = spec(pod).get(field)
        for position, container in enumerate(listed if isinstance(listed, list) else []):
            if isinstance(container, dict):
                yield ContainerRef(field, position, container)


def with_container(pod: RawPod, slot: ContainerRef, container: RawContainer) -> RawPod:
    """The pod with another container in that place."""
    if container is slot.container:
        return pod
    listed = list(spec(pod)[slot.field])
    listed[slot.position] = container
    return {**pod, "spec": {**spec(pod), slot.field: listed}}


def with_annotations(pod: RawPod, changes: Mapping[str, str | None]) -> RawPod:
    """The pod with these annotations set; None removes one."""
    before = mapping(metadata(pod).get("annotations"))
    after = {key: value for key, value in before.items() if changes.get(key, "") is not None}
    after.update((key, value) for key, value in changes.items() if value is not None)
    if after == before:
        return pod
    return {**pod, "metadata": {**metadata(pod), "annotations": after}}


def resources(container: RawContainer, side: str) -> dict[str, Any]:
    """``resources.limits`` or ``resources.requests`` of a container."""
    return mapping(mapping(container.get("resources")).get(side))


def requested(container: RawContainer, resource: str) -> str | int | None:
    """The quantity of a device resource as written, if the API accepts it.

    Extended resources need a limit; a request, if given, must be equal. Any other combination, and
    an amount of zero or less, is None and stays unchanged.
    """
    limit = resources(container, "limits").get(resource)
    request = resources(container, "requests").get(resource, limit)
    amount = count(limit) or 0
    return limit if amount > 0 and amount == count(request) else None


def count(written: object) -> int | None:
    """A quantity in whole units; None if it is missing or invalid."""
    if not isinstance(written, str | int | float):
        return None
    try:
        return quantity.value(written)
    except quantity.QuantityError:
        return None


def mig_resources(container: RawContainer) -> list[str]:
    """The requested MIG resources of a container, sorted."""
    limits = resources(container, "limits")
    return sorted(r for r in limits if well_known.is_mig(r) and requested(container, r) is not None)


def names_mig(container: RawContainer) -> bool:
    """Whether a MIG resource is named, also with an invalid amount."""
    return _names(container, well_known.is_mig)


def uses_devices(container: RawContainer) -> bool:
    """Whether a plugin or a claim provides the container's devices, which are numbered from 0
    inside.
    """
    has_claims = bool(mapping(container.get("resources")).get("claims"))
    return has_claims or _names(container, well_known.is_gpu_device)


def _names(container: RawContainer, is_it: Callable[[str], bool]) -> bool:
    return any(
        is_it(resource) and count(written) != 0
        for side in ("limits", "requests")
        for resource, written in resources(container, side).items()
    )
