"""The fields of pods that concern devices."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from fakegpu import names, pod_claims
from fakegpu.api_types import Amounts, Meta
from fakegpu.node import utilization
from fakegpu.node.pod_devices import ClaimRef, Need, PodUse
from scheduler.model import quantity
from scheduler.model import well_known as words
from scheduler.model.gpu.device import Devices, parse_devices
from scheduler.model.timestamps import epoch


class _Resources(msgspec.Struct, frozen=True):
    requests: Amounts | None = None
    limits: Amounts | None = None
    claims: tuple[pod_claims.InContainer, ...] | None = None


class _Container(msgspec.Struct, frozen=True, rename="camel"):
    name: str
    resources: _Resources | None = None
    restart_policy: str | None = None


class _PodSpec(msgspec.Struct, frozen=True, rename="camel"):
    node_name: str = ""
    containers: tuple[_Container, ...] = ()
    init_containers: tuple[_Container, ...] | None = None
    resource_claims: tuple[pod_claims.InPod, ...] | None = None


class _PodStatus(msgspec.Struct, frozen=True, rename="camel"):
    phase: str = "Pending"
    start_time: str | None = None
    resource_claim_statuses: tuple[pod_claims.InPod, ...] | None = None
    extended_resource_claim_status: pod_claims.ExtendedStatus | None = None


class _Pod(msgspec.Struct, frozen=True):
    metadata: Meta
    spec: _PodSpec
    status: _PodStatus = _PodStatus()


class PodFacts(msgspec.Struct, frozen=True):
    """A pod with a node and devices."""

    node: str
    use: PodUse


_POD = msgspec.json.Decoder(_Pod)


def pod(reservations: str) -> Callable[[bytes], tuple[str, PodFacts | None]]:
    """A decoder of pods by uid; ``reservations`` is the namespace of reservation pods."""

    def decode(content: bytes) -> tuple[str, PodFacts | None]:
        wire = _POD.decode(content)
        use = _use(wire, reservations)
        return wire.metadata.uid, PodFacts(wire.spec.node_name, use) if use else None

    return decode


def _use(wire: _Pod, reservations: str) -> PodUse | None:
    meta = wire.metadata
    labels, annotations = meta.labels or {}, meta.annotations or {}
    marks = (
        f"{names.SHARED_GROUP}={labels.get(names.SHARED_GROUP, '')}",
        f"{names.SHARED_INDEX}={annotations.get(names.SHARED_INDEX, '')}",
    )
    marked = annotations.get(names.RESERVED_INDEX, "")
    is_running = wire.status.phase == "Running"
    shares = tuple(mark for mark in marks if not mark.endswith("="))
    reservation: tuple[str, ...] = ()
    if meta.namespace == reservations:
        reservation = (*shares, *([f"{names.SHARED_INDEX}={marked}"] if marked else ()), meta.uid)
        shares = ()
    claims = _claims(wire)
    claimed = pod_claims.resources(wire.status.extended_resource_claim_status)
    needs = tuple(one for one in _needs(wire.spec) if (one.container, one.resource) not in claimed)
    if not (needs or shares or claims) or wire.status.phase in ("Succeeded", "Failed"):
        return None
    return PodUse(
        uid=meta.uid,
        namespace=meta.namespace,
        name=meta.name,
        created=meta.creation_timestamp or "",
        is_running=is_running,
        needs=needs,
        claims=claims,
        chosen=parse_devices(annotations.get(words.DEVICES, "")) or Devices(),
        load=utilization.utilization(wire.status.phase, meta.name, annotations, labels),
        group=_group(wire),
        timeline=utilization.parse_timeline(annotations.get(names.TIMELINE, ""))
        if is_running
        else None,
        started=epoch(wire.status.start_time or ""),
        fraction=utilization.parse_fraction(annotations.get(names.FRACTION, "1")),
        shares=shares,
        reservation=reservation,
        marked=marked,
    )


def _group(wire: _Pod) -> str:
    """The PodGroup that determines the pod's utilization; an empty text if the pod itself does."""
    meta = wire.metadata
    name = (meta.annotations or {}).get(names.POD_GROUP, "")
    if not name or utilization.declared_utilization(
        wire.status.phase, meta.name, meta.annotations, meta.labels
    ):
        return ""
    return f"{meta.namespace}/{name}"


class _GroupSpec(msgspec.Struct, frozen=True, rename="camel"):
    priority_class_name: str = ""


class _PodGroup(msgspec.Struct, frozen=True):
    metadata: Meta
    spec: _GroupSpec = _GroupSpec()


_GROUP = msgspec.json.Decoder(_PodGroup)


def group(content: bytes) -> tuple[str, str | None]:
    """A PodGroup's priority class, by ``namespace/name``."""
    wire = _GROUP.decode(content)
    return f"{wire.metadata.namespace}/{wire.metadata.name}", wire.spec.priority_class_name


def _needs(spec: _PodSpec) -> tuple[Need, ...]:
    """The devices of each container; an init container only holds those that no later one gets."""
    first = spec.init_containers or ()
    running = [*spec.containers, *(one for one in first if one.restart_policy == "Always")]
    found: list[Need] = []
    totals: dict[str, int] = {}
    for container in running:
        for resource, count in _requested(container).items():
            found.append(Need(container.name, resource, count))
            totals[resource] = totals.get(resource, 0) + count
    for container in first:
        if container.restart_policy != "Always":
            for resource, count in _requested(container).items():
                more = count - totals.get(resource, 0)
                if more > 0:
                    found.append(Need(container.name, resource, more))
                    totals[resource] = count
    return tuple(found)


def _claims(wire: _Pod) -> tuple[ClaimRef, ...]:
    spec, status = wire.spec, wire.status
    if not spec.resource_claims and status.extended_resource_claim_status is None:
        return ()
    containers = [
        (one.name, (one.resources.claims if one.resources else None) or ())
        for one in (*spec.containers, *(spec.init_containers or ()))
    ]
    made = status.resource_claim_statuses or ()
    extended = status.extended_resource_claim_status
    return pod_claims.refs(containers, spec.resource_claims or (), made, extended)


def _requested(container: _Container) -> dict[str, int]:
    wanted = container.resources or _Resources()
    amounts = {**(wanted.limits or {}), **(wanted.requests or {})}
    prefix = f"{words.GPU.partition('/')[0]}/"
    return {
        name: count
        for name, amount in amounts.items()
        if name.startswith(prefix) and (count := quantity.value(amount)) > 0
    }
