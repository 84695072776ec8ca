"""Checks the nodes: taints and advertised devices. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from gpuctl.doctor.facts import Facts, Node, Taint, Unread
from gpuctl.doctor.finding import Finding, fail, listed, ok, unread, warn
from scheduler.model import well_known
from scheduler.model.selector import CONDITION_TAINTS, HARD_EFFECTS

DRIVER = "gpu.nvidia.com"
#: The taint of the chart's ``nodePartition``.
TAINT = "nvidia.com/gpu=gpu-scheduler:NoSchedule"


def on_nodes(facts: Facts) -> Iterable[Finding]:
    """Findings about taints, devices and device plugins."""
    if isinstance(facts.nodes, Unread):
        yield unread("nodes", facts.nodes)
        return
    served = _served(facts)
    with_gpus = [
        node
        for node in facts.nodes
        if node.gpus or any(node.offers.values()) or node.name in served
    ]
    yield _readiness(with_gpus)
    given = () if isinstance(facts.mutation, Unread) else facts.mutation.tolerates
    yield _taints(with_gpus, given)
    yield from _devices(with_gpus, served)
    yield _gpus(with_gpus)
    yield _advertisers(with_gpus, facts, served)
    yield _numbers(facts)
    yield from _partition(with_gpus, served)
    yield from _unready(with_gpus)


def _served(facts: Facts) -> set[str]:
    """The nodes whose GPUs a DRA driver publishes; empty if unknown."""
    slices = () if isinstance(facts.dra, Unread) else facts.dra.slices
    return {one.node for one in slices if one.driver == DRIVER}


def _readiness(nodes: list[Node]) -> Finding:
    if not nodes:
        return warn(
            "nodes",
            "no node offers or announces a GPU; only maps can be placed",
            "unless a DRA driver serves the GPUs (docs/dra.md): install a"
            " device plugin, or fake GPUs: docs/fakegpu.md",
        )
    away = [node.name for node in nodes if node.is_cordoned or not node.is_ready]
    if len(away) == len(nodes):
        return fail("nodes", "no node with GPUs takes pods", f"look at {listed(away)}")
    if away:
        return warn(
            "nodes", f"cordoned or not ready: {listed(away)}", "kubectl uncordon, or repair"
        )
    return ok("nodes", f"{len(nodes)} with GPUs take pods")


def _taints(nodes: list[Node], given: tuple[str, ...]) -> Finding:
    tainted: dict[str, list[str]] = {}
    for node in nodes:
        for taint in filter(_keeps_away, node.taints):
            if str(taint) not in given:
                tainted.setdefault(str(taint), []).append(node.name)
    if not tainted:
        return ok("taints", "none that pods would have to tolerate")
    worst, where = max(tainted.items(), key=lambda item: len(item[1]))
    text = f"{len(where)} of {len(nodes)} GPU nodes have {worst}"
    advice = f"pods need a toleration of {listed(sorted(tainted))}, or remove the taint"
    return warn("taints", text, advice)


def _keeps_away(taint: Taint) -> bool:
    return taint.effect in HARD_EFFECTS and not taint.key.startswith(CONDITION_TAINTS)


def _devices(nodes: list[Node], served: set[str]) -> Iterable[Finding]:
    bare = [node.name for node in nodes if not any(node.capacity.values())]
    silent = [name for name in bare if name not in served]
    by_dra = [name for name in bare if name in served]
    if silent:
        yield fail(
            "devices",
            f"GPUs by label, none advertised: {listed(silent)}",
            "look at the device plugin's pod there: kubectl get pods -A -o wide "
            f"--field-selector spec.nodeName={silent[0]}",
        )
    if by_dra:
        yield ok("devices", f"GPUs by the DRA driver {DRIVER}: {listed(by_dra)}")
    if not bare:
        sums: dict[str, int] = {}
        for node in nodes:
            for resource, count in node.offers.items():
                sums[resource] = sums.get(resource, 0) + count
        shown = [f"{count} {resource}" for resource, count in sorted(sums.items()) if count]
        yield ok("devices", f"advertised: {', '.join(shown) or 'none'}")


def _gpus(nodes: list[Node]) -> Finding:
    """GPUs that exist and that no pod gets: failed, or not allocatable."""
    flawed = [node for node in nodes if node.flaw]
    if flawed:
        first = flawed[0]
        return warn(
            "gpus",
            f"invalid annotation {well_known.UNUSABLE_DEVICES} on"
            f" {listed([node.name for node in flawed])}: {first.flaw}; no GPU is assigned there",
            f"kubectl annotate node {first.name} {well_known.UNUSABLE_DEVICES}- and write it again,"
            " for example as 0,3",
        )
    failed = [
        f"{node.name} (GPU {', '.join(map(str, node.failed))})" for node in nodes if node.failed
    ]
    ill = [
        f"{node.name} ({held} of {node.capacity[resource]} {resource})"
        for node in nodes
        for resource, held in sorted(node.offers.items())
        if held < node.capacity.get(resource, 0)
    ]
    parts = [f"failed: {listed(failed)}"] if failed else []
    parts += [f"unhealthy devices are not allocatable: {listed(ill)}"] if ill else []
    if parts:
        return warn("gpus", "; ".join(parts), "look for XID errors in the node's kernel log")
    return ok("gpus", "all GPUs are allocatable, none is marked as failed")


def _advertisers(nodes: list[Node], facts: Facts, served: set[str]) -> Finding:
    """Each GPU must have one allocator; two of them would allocate it twice."""
    plugins = () if isinstance(facts.plugins, Unread) else facts.plugins
    for node in nodes:
        here = [plugin.name for plugin in plugins if node.name in plugin.nodes]
        if len(here) > 1:
            return fail(
                "advertisers",
                f"node {node.name} has several device plugins: {listed(here)}",
                "leave one of them on each node (nodeSelector), or remove the others",
            )
    both = [n.name for n in nodes if n.name in served and any(map(_is_device, n.offers.items()))]
    if both:
        return fail(
            "advertisers",
            f"the device plugin and the DRA driver {DRIVER} both offer the GPUs of {listed(both)}",
            "switch one of them off there: the same GPU would be given to two pods",
        )
    if isinstance(facts.plugins, Unread):
        return unread("advertisers", facts.plugins)
    found = listed([plugin.name for plugin in plugins]) or "no DaemonSet of a device plugin"
    return ok("advertisers", f"one at most for each GPU: {found}")


def _numbers(facts: Facts) -> Finding:
    """The label of index-assigned nodes, against the GPUs that kubelets assigned."""
    wrong = facts.misnumbered
    if isinstance(wrong, Unread):
        return unread("numbers", wrong)
    if not wrong:
        return ok("numbers", f"no pod contradicts the label {well_known.NUMBERED}=numbered")
    where = [one.node for one in wrong]
    return fail(
        "numbers",
        f"the label {well_known.NUMBERED}=numbered is wrong on {listed(where)}: {wrong[0].why}",
        f"kubectl label node {where[0]} {well_known.NUMBERED}- and recreate the pods placed "
        "meanwhile",
    )


def _partition(nodes: list[Node], served: set[str]) -> Iterable[Finding]:
    """Whether another scheduler can allocate the devices of the nodes that DRA serves."""
    by_dra = [
        node
        for node in nodes
        if node.name in served and not any(map(_is_device, node.offers.items()))
    ]
    free = [node.name for node in by_dra if not any(map(_keeps_away, node.taints))]
    if free:
        yield warn(
            "partition",
            f"no taint keeps the pods of other schedulers from the devices of {listed(free)}",
            f"two schedulers can allocate one device; kubectl taint node {free[0]} {TAINT}, with"
            " nodePartition.enabled of the chart (docs/dra.md), or let no other scheduler use them",
        )
    elif by_dra:
        yield ok("partition", f"a taint keeps other pods from the {len(by_dra)} nodes of {DRIVER}")


def _unready(nodes: list[Node]) -> Iterable[Finding]:
    """Nodes that cluster-autoscaler takes for unready (kubernetes/autoscaler#8095): they have the
    cloud's label of GPUs, and no whole GPU; it does not know the names of MIG instances.
    """
    found = [
        node
        for node in nodes
        if node.cloud_label
        and not node.offers.get(well_known.GPU)
        and any(map(well_known.is_mig, filter(node.offers.get, node.offers)))
    ]
    if found:
        yield warn(
            "autoscaler",
            f"cluster-autoscaler takes {listed([node.name for node in found])} for unready, and may"
            f" add no node to their group: label {found[0].cloud_label}, MIG instances, and no"
            f" {well_known.GPU}",
            "leave one GPU of each node whole, use the MIG strategy single, or give such nodes a"
            " group of fixed size (docs/autoscalers.md)",
        )


def _is_device(offer: tuple[str, int]) -> bool:
    resource, count = offer
    return well_known.is_gpu_device(resource) and count > 0
