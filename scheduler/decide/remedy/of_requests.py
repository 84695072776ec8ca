"""Smaller or other requests, for a pod whose nodes have too little of a resource free."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from scheduler.decide.remedy.edit import Edit, EditKind, Trial, request, with_requests
from scheduler.decide.remedy.rejected import RejectedPod
from scheduler.framework.view import View
from scheduler.model import well_known
from scheduler.model.mig.profile import nominal_mib, size_key
from scheduler.model.pods.pod import Pod
from scheduler.model.pods.pod_variants import with_resources

#: Amounts that are tried, and other profiles.
AMOUNTS_MAX: Final = 3
PROFILES_MAX: Final = 6


def less(rejected: RejectedPod) -> Iterator[Trial]:
    """What a node has free, most of it first; then another profile or a whole GPU."""
    found: dict[tuple[tuple[str, int], ...], float] = {}
    for there in rejected.nodes.values():
        if all(one.code == "INSUFFICIENT" and 0 < one.have < one.need for one in there):
            share = min(one.have / one.need for one in there)
            amounts = tuple(sorted((one.resource, one.have) for one in there))
            found[amounts] = share
    for amounts in sorted(found, key=lambda one: (len(one), -found[one], one))[:AMOUNTS_MAX]:
        yield from _request(rejected.pod, dict(amounts))
    short = {one.resource for one in rejected.refusals if one.code == "INSUFFICIENT"}
    yield from _other_profiles(rejected.view, rejected.pod, short)


def _other_profiles(view: View, pod: Pod, short: set[str]) -> Iterator[Trial]:
    """Another resource for the one that is short; the largest below it first."""
    if well_known.WANTED_MEMORY in pod.annotations:
        return  # the webhook chooses the resource
    for resource in sorted(short & pod.gpu_requests.keys()):
        asked = nominal_mib(resource)
        others = [
            one
            for one in view.nodes.offers.resources()
            if well_known.is_gpu_device(one)
            and one not in pod.requests
            and not (asked and nominal_mib(one) > asked)
        ]
        others.sort(key=lambda one: (not nominal_mib(one), -nominal_mib(one), size_key(one)))
        for other in others[:PROFILES_MAX]:
            text = f"request {other} instead of {resource}"
            edit = Edit(kind=EditKind.REPLACE, field=resource, value=other, text=text)
            yield Trial((edit,), with_resources(pod, {resource: other}))


def fewer_in_one_container(rejected: RejectedPod) -> Iterator[Trial]:
    """Fewer devices: one less, half, one."""
    pod = rejected.pod
    for resource, count in sorted(pod.gpu_requests.items()):
        for amount in dict.fromkeys((count - 1, count // 2, 1)):
            if 0 < amount < count:
                yield from _request(pod, {resource: amount})


def fewer_instances(rejected: RejectedPod) -> Iterator[Trial]:
    """One MIG instance less of one profile."""
    pod = rejected.pod
    for resource in sorted(pod.gpu_requests, key=size_key):
        count = pod.gpu_requests[resource]
        if count > 1 or len(pod.gpu_requests) > 1:
            yield from _request(pod, {resource: count - 1})


def _request(pod: Pod, amounts: Mapping[str, int]) -> Iterator[Trial]:
    changed = with_requests(pod, amounts)
    if changed is not None:
        had = pod.requests
        edits = tuple(request(one, n, had=had.get(one, 0)) for one, n in amounts.items())
        yield Trial(edits, changed)
