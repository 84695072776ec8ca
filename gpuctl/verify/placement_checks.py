"""Checks with test pods: placement, labels, taints, maps and explanations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from gpuctl.doctor.finding import Finding, fail, ok, skip
from gpuctl.verify.hosts import Host, workload_taints
from gpuctl.verify.trial import Trial
from scheduler.model import well_known
from scheduler.model.reasons.reason import IMPOSSIBLE

GPU: Final = well_known.GPU
#: More than any node has, and fewer than are read of one pod (POD_DEVICES_MAX).
IMPOSSIBLE_COUNT: Final = 1000
NO_ROOM: Final = "no ready node has a free nvidia.com/gpu"


def with_room(hosts: Sequence[Host], count: int = 1) -> list[Host]:
    """The ready nodes with so many free GPUs."""
    return [host for host in hosts if host.is_ready and host.free.get(GPU, 0) >= count]


async def check_place(trial: Trial, hosts: Sequence[Host]) -> Finding:
    """A pod with one GPU is placed, and its container sees one GPU."""
    if not with_room(hosts):
        return skip("place", NO_ROOM)
    await trial.create("place", {GPU: "1"}, command=("nvidia-smi", "-L"))
    node = await trial.bound("place")
    if node is None:
        return fail("place", await trial.message("place"), "gpuctl doctor")
    took = f"1-GPU pod on {node} after {trial.seconds['place'][-1]:.1f} s"
    if any(host.name == node and host.is_simulated for host in hosts):
        return ok("place", f"{took}; a simulated node runs no container")
    log = await trial.log("place")
    if log is None:
        why = f"{took}; nvidia-smi -L did not succeed there: {await trial.trouble('place')}"
        return fail("place", why, "--image IMAGE names one that the nodes can pull")
    seen = sum(line.startswith("GPU ") for line in log.splitlines())
    if seen != 1:
        return fail("place", f"{took}; nvidia-smi sees {seen} GPUs", "check the device plugin")
    return ok("place", f"{took}; nvidia-smi sees 1 GPU")


async def check_affinity(trial: Trial, hosts: Sequence[Host]) -> Finding:
    """A pod with node affinity for each GPU type is placed on a node of that type."""
    kinds = {host.kind: host for host in with_room(hosts) if host.kind}
    if not kinds:
        return skip("affinity", "no free node has the label gpu-type or nvidia.com/gpu.product")
    for number, (kind, host) in enumerate(sorted(kinds.items())[:4]):
        key = "gpu-type" if host.labels.get("gpu-type") == kind else well_known.GPU_PRODUCT
        term = {"matchExpressions": [{"key": key, "operator": "In", "values": [kind]}]}
        required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
        name = f"affinity-{number}"
        await trial.create(name, {GPU: "1"}, affinity={"nodeAffinity": required})
        node = await trial.bound(name)
        if node is None:
            return fail("affinity", f"{kind}: {await trial.message(name)}", "gpuctl doctor")
        if all(one.name != node or one.kind != kind for one in hosts):
            return fail("affinity", f"a pod that requires {key}={kind} is on {node}", "")
        await trial.clear()
    return ok("affinity", f"pods reach {', '.join(sorted(kinds)[:4])} by node affinity")


async def check_taints(trial: Trial, hosts: Sequence[Host]) -> Finding:
    """A tainted GPU node refuses a pod without GPUs and without a toleration."""
    host = next((one for one in hosts if one.is_ready and workload_taints(one)), None)
    if host is None:
        advice = "kubectl taint nodes -l nvidia.com/gpu=true dedicated=gpu:NoSchedule"
        return skip("taints", "no node with GPUs has a taint", advice)
    made = await trial.create("taint", tolerations=[], nodeSelector=only(host))
    keys = {one.get("key") for one in made["spec"].get("tolerations") or ()}
    if all(taint.key in keys for taint in workload_taints(host)):
        return skip("taints", f"admission adds the tolerations of {host.name} to pods")
    message = await trial.rejected("taint")
    if message is None or "taint" not in message:
        says = f"a pod without a toleration is not refused by the taint of {host.name}"
        return fail("taints", says, "gpuctl doctor")
    return ok("taints", f"{host.name} refuses pods without a toleration")


async def check_toleration(trial: Trial, hosts: Sequence[Host]) -> Finding:
    """A GPU pod with the toleration of a tainted node is placed there."""
    host = next((one for one in with_room(hosts) if workload_taints(one)), None)
    if host is None:
        return skip("toleration", "no tainted node has a free nvidia.com/gpu")
    tolerations = [
        {"key": one.key, "operator": "Exists", "effect": one.effect}
        for one in workload_taints(host)
    ]
    limits = {GPU: "1"}
    await trial.create("tolerated", limits, tolerations=tolerations, nodeSelector=only(host))
    if await trial.bound("tolerated") is None:
        return fail("toleration", await trial.message("tolerated"), "gpuctl doctor")
    return ok("toleration", f"a GPU pod that tolerates the taint is on {host.name}")


async def check_explain(trial: Trial, _hosts: Sequence[Host]) -> Finding:
    """A pod that no node can ever take says so, with numbers."""
    await trial.create("impossible", {GPU: str(IMPOSSIBLE_COUNT)})
    message = await trial.rejected("impossible")
    if message is None:
        return fail("explain", "no answer about a pod that cannot start", "gpuctl doctor")
    if IMPOSSIBLE not in message or str(IMPOSSIBLE_COUNT) not in message:
        return fail("explain", f"the answer has no number: {message}", "update gpu-scheduler")
    return ok("explain", message.partition(IMPOSSIBLE)[2].rstrip("."))


async def check_honours(trial: Trial, hosts: Sequence[Host]) -> Finding:
    """A map with a GPU index gets that GPU where the scheduler assigns indexes."""
    indexed = [host for host in with_room(hosts) if host.labels.get(well_known.NUMBERED)]
    host = next((one for one in indexed if not one.holders and one.replicas == 1), None)
    if host is None:
        says = "no free node assigns GPUs by index: a map chooses node and count there"
        return skip("honours", says, "docs/maps.md")
    index = host.free[GPU] - 1
    given = {well_known.MAP: f"0={host.name}:{index}"}
    await trial.create("map-0", {GPU: "1"}, annotations=given)
    if await trial.bound("map-0") is None:
        return fail("honours", await trial.message("map-0"), "docs/maps.md")
    devices = await trial.seen(
        "map-0", lambda pod: (pod["metadata"].get("annotations") or {}).get(well_known.DEVICES)
    )
    if devices != f"gpu:{index}":
        return fail("honours", f"the map asked for GPU {index}, the pod has {devices}", "")
    return ok("honours", f"the map asked for GPU {index} of {host.name}, and the pod has it")


def only(host: Host) -> dict[str, str]:
    """A nodeSelector for one node."""
    return {well_known.HOSTNAME: host.labels.get(well_known.HOSTNAME, host.name)}
