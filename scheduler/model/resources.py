"""Effective requests of one pod on a node.

Mirrors ``k8s.io/component-helpers/resource/helpers.go`` (PodRequests): the app containers and the
sidecars add up; an ordinary init container runs alone beside the sidecars started before it, so it
only raises the maximum; pod-level values replace; overhead is added last. Amounts are integers in
the base unit: milli for cpu, whole units for everything else.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from scheduler.model import quantity, well_known

Amounts = dict[str, int]

#: Resources that ``spec.resources`` (KEP-2837) may set for the whole pod.
POD_LEVEL = ("cpu", "memory")
HUGEPAGES = "hugepages-"
#: What a container without a request counts in scores (``pkg/scheduler/util/pod_resources.go``).
SCORED_DEFAULTS = {"cpu": 100, "memory": 200 * 2**20}
NO_SCORE_EXTRA = (0, 0)
#: Resources that can change while the pod runs.
RESIZABLE = ("cpu", "memory")


def amount(resource: str, text: str | int | float) -> int:
    """One quantity in the base unit of its resource; QuantityError if it is invalid."""
    if resource == well_known.CPU:
        return quantity.milli_value(text)
    return quantity.value(text)


def amounts(requests: Mapping[str, str | int | float] | None) -> Amounts:
    """A whole requests map in base units."""
    if not requests:
        return {}
    return {resource: amount(resource, text) for resource, text in requests.items()}


def add(total: Amounts, other: Mapping[str, int]) -> None:
    """Add ``other`` to ``total`` in place."""
    for resource, value in other.items():
        total[resource] = total.get(resource, 0) + value


def held(
    requested: Mapping[str, int],
    allocated: Mapping[str, int],
    actual: Mapping[str, int],
    *,
    is_infeasible: bool,
) -> Amounts:
    """The resources that a container on a node holds during an in-place resize (KEP-1287).

    The maximum of its request, the allocated and the actual resources; an infeasible resize does
    not count.
    """
    if not allocated and not actual:
        return dict(requested)
    result: Amounts = dict(allocated)
    parts = (actual,) if is_infeasible else (actual, requested)
    for part in parts:
        for resource, value in part.items():
            result[resource] = max(result.get(resource, 0), value)
    # Devices cannot be resized and older kubelets leave them out of the status.
    return {**{r: v for r, v in requested.items() if r not in RESIZABLE}, **result}


def effective(
    regular: Iterable[Mapping[str, int]],
    init: Sequence[tuple[Mapping[str, int], bool]],
    pod_level: Mapping[str, int] | None = None,
    overhead: Mapping[str, int] | None = None,
) -> Amounts:
    """The pod's requests; ``init`` has (requests, is a sidecar) in order of declaration."""
    result: Amounts = {}
    for requests in regular:
        add(result, requests)
    for requests, is_sidecar in init:
        if is_sidecar:
            add(result, requests)
    running: Amounts = {}
    peak: Amounts
    for requests, is_sidecar in init:
        if is_sidecar:
            add(running, requests)
            peak = running
        else:
            peak = {**running}
            add(peak, requests)
        for resource, value in peak.items():
            result[resource] = max(result.get(resource, 0), value)
    for resource, value in (pod_level or {}).items():
        if resource in POD_LEVEL or resource.startswith(HUGEPAGES):
            result[resource] = value
    add(result, overhead or {})
    return result


def score_extra(
    regular: Sequence[Mapping[str, int]],
    init: Sequence[tuple[Mapping[str, int], bool]],
    pod_level: Mapping[str, int],
    *,
    is_placed: bool,
) -> tuple[int, int]:
    """What kube-scheduler's LeastAllocated adds to the effective requests of cpu and memory.

    A container without a request counts with ``SCORED_DEFAULTS``. The pod-level requests of the pod
    that is scheduled do not count (``noderesources/resource_allocation.go``); those of placed pods
    do, and then only what no container requests is added (``pkg/scheduler/framework/types.go``).
    """
    if not init and not pod_level:  # an ordinary pod
        if all("cpu" in requests and "memory" in requests for requests in regular):
            return NO_SCORE_EXTRA
        lacking_cpu = sum("cpu" not in requests for requests in regular)
        lacking_memory = sum("memory" not in requests for requests in regular)
        return lacking_cpu * SCORED_DEFAULTS["cpu"], lacking_memory * SCORED_DEFAULTS["memory"]
    containers = (*regular, *(requests for requests, _ in init))
    is_complete = all(SCORED_DEFAULTS.keys() <= requests.keys() for requests in containers)
    if is_complete and (is_placed or not pod_level):
        return NO_SCORE_EXTRA
    found = effective(regular, init, pod_level)
    defaults = SCORED_DEFAULTS
    if is_placed and any(resource in pod_level for resource in POD_LEVEL):
        defaults = {r: value for r, value in defaults.items() if r not in found}
    scored = effective(
        [{**defaults, **requests} for requests in regular],
        [({**defaults, **requests}, is_sidecar) for requests, is_sidecar in init],
        pod_level if is_placed else None,
    )
    cpu, memory = (scored.get(r, 0) - found.get(r, 0) for r in SCORED_DEFAULTS)
    return cpu, memory
