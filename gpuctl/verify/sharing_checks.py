"""Checks with several test pods: time-slicing, preemption and the fallback to a smaller slice.

Preemption is tried only on a node without other pods' GPUs, which test pods of the lowest priority
fill: of all pods there, one of them is preempted.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from gpuctl.doctor.finding import Finding, fail, ok, skip
from gpuctl.verify.hosts import Host
from gpuctl.verify.placement_checks import GPU, only, with_room
from gpuctl.verify.result import PriorityLevel
from gpuctl.verify.trial import Trial
from gpuctl.verify.trial_namespace import LOWEST
from scheduler.model import well_known
from scheduler.model.granted_tier import STEPPED_DOWN
from scheduler.model.mig.profile import nominal_mib

#: At most so many test pods fill a node or share a GPU.
PODS_MAX: Final = 8


async def check_sharing(trial: Trial, hosts: Sequence[Host]) -> Finding:
    """More pods than GPUs run on a node with time-slicing."""
    shared = [host for host in with_room(hosts, 2) if host.replicas > 1]
    if not shared:
        return skip(
            "sharing", "no node with free time-sliced GPUs", "docs/fakegpu.md, Time-slicing"
        )
    host = max(shared, key=lambda one: (min(one.free[GPU], PODS_MAX), one.name))
    count = min(host.free[GPU], PODS_MAX)
    names = [f"shared-gpu-pod-{number}" for number in range(1, count + 1)]
    for name in names:
        await trial.create(name, {GPU: "1"}, nodeSelector=only(host))
        if await trial.bound(name, "share") is None:
            return fail("sharing", f"{name}: {await trial.message(name)}", "gpuctl doctor")
    gpus = host.capacity[GPU] // host.replicas
    return ok("sharing", f"{count} pods share {gpus} GPUs of {host.name}")


async def check_preemption(
    trial: Trial, hosts: Sequence[Host], levels: Sequence[PriorityLevel]
) -> Finding:
    """A pod of high priority gets the GPUs of a pod of the lowest priority."""
    high = next((level for level in levels if level.preempts and level.value > LOWEST), None)
    if high is None:
        return skip("preemption", "no PriorityClass preempts")
    empty = [host for host in with_room(hosts) if not host.holders and host.free == host.offered]
    if not empty:
        return skip("preemption", "each node has GPUs of other pods, which would be preempted")
    host = min(empty, key=lambda one: (one.free[GPU], one.name))
    return await _preempt_on(host, trial, high.name)


async def _preempt_on(host: Host, trial: Trial, high: str) -> Finding:
    """Fill an empty node with test pods, then ask for the GPUs of one of them."""
    # Where a container may not have several shares, several pods fill the node.
    each = 1 if host.replicas > 1 else host.free[GPU]
    names = [f"low-priority-gpu-{number}" for number in range(host.free[GPU] // each)]
    if len(names) > PODS_MAX:
        return skip("preemption", f"the smallest empty node has {host.free[GPU]} shares")
    limits = {GPU: str(each)}
    for name in names:
        await trial.create(name, limits, nodeSelector=only(host))
        if await trial.bound(name) is None:
            return fail("preemption", f"{name}: {await trial.message(name)}", "gpuctl doctor")
    top = "high-priority-gpu"
    await trial.create(top, limits, priorityClassName=high, nodeSelector=only(host))
    if await trial.bound(top, "preempt") is None:
        advice = "value preemption.enabled of the chart gpu-scheduler"
        return fail("preemption", await trial.message(top), advice)
    ended = len(names) - len([name for name in names if await trial.is_there(name)])
    if ended != 1:
        return fail("preemption", f"{ended} pods ended for one pod", "gpuctl why")
    took = trial.seconds["preempt"][-1]
    says = f"{high} took the GPU of the lowest priority on {host.name} after {took:.1f} s"
    return ok("preemption", says)


async def check_fallback(trial: Trial, hosts: Sequence[Host], *, fill: bool) -> Finding:
    """A pod whose MIG instance is not free gets the next one of its ladder, and an event.

    Only with ``fill``: test pods take all free instances of a profile meanwhile.
    """
    pair = _tiers(hosts)
    if pair is None:
        return skip("fallback", "no two MIG profiles with free instances, at most 8 of the larger")
    (large, count), small = pair
    if not fill:
        profile = well_known.mig_profile(large)
        says = f"not tried: test pods would take all free {profile} ({count}) meanwhile"
        return skip("fallback", says, "gpuctl verify --fill, while no other pod needs them")
    return await _step_down(trial, large, count, small)


async def _step_down(trial: Trial, large: str, count: int, small: str) -> Finding:
    """Fill a profile with test pods, then create one more with a ladder."""
    for number in range(count):
        name = f"filler-{number}"
        await trial.create(name, {large: "1"})
        if await trial.bound(name) is None:
            return fail("fallback", f"{name}: {await trial.message(name)}", "gpuctl doctor")
    ladder = "->".join(map(well_known.mig_profile, (large, small)))
    given = {well_known.MIG_FALLBACK: ladder}
    created = await trial.create("stepped", {large: "1"}, annotations=given)
    limits = created["spec"]["containers"][0]["resources"]["limits"]
    if small not in limits:
        return fail("fallback", f"{ladder}: the pod still asks for {', '.join(limits)}", "webhook?")
    if await trial.bound("stepped") is None:
        return fail("fallback", await trial.message("stepped"), "gpuctl doctor")
    if not await trial.event("stepped", STEPPED_DOWN):
        return fail("fallback", f"{ladder}: no event {STEPPED_DOWN}", "update gpu-scheduler")
    return ok("fallback", f"{ladder}: the pod got the smaller instance, and an event says so")


def _tiers(hosts: Sequence[Host]) -> tuple[tuple[str, int], str] | None:
    """The larger of two free MIG profiles with its free instances, and the smaller one."""
    free: dict[str, int] = {}
    for host in hosts:
        for resource, count in host.free.items():
            if host.is_ready and well_known.is_mig(resource) and count > 0:
                free[resource] = free.get(resource, 0) + count
    ordered = sorted(free, key=nominal_mib)
    for large in ordered[1:]:
        if free[large] <= PODS_MAX:
            return (large, free[large]), ordered[0]
    return None
