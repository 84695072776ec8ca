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
    yield _advertisers(with_gpus, facts, served)
    yield _numbers(facts)
    yield from _partition(with_gpus, served)


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
    ill = [
        f"{node.name} ({held} of {node.capacity[resource]} {resource})"
        for node in nodes
        for resource, held in sorted(node.offers.items())
        if held < node.capacity.get(resource, 0)
    ]
    if ill:
        yield warn(
            "devices",
            f"unhealthy devices are not allocated: {listed(ill)}",
            "look for XID errors in the node's kernel log",
        )
    if not bare and not ill:
        sums: dict[str, int] = {}
        for node in nodes:
            for resource, count in node.offers.items():
                sums[resource] = sums.get(resource, 0) + count
        shown = [f"{count} {resource}" for resource, count in sorted(sums.items()) if count]
        yield ok("devices", f"advertised: {', '.join(shown) or 'none'}")


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


def _is_device(offer: tuple[str, int]) -> bool:
    resource, count = offer
    return well_known.is_gpu_device(resource) and count > 0
