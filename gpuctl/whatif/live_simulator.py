"""The simulator with the live state in it."""

from __future__ import annotations

from typing import Final

from gpuctl.simulate import dra_objects
from gpuctl.simulate.engine import Simulator
from gpuctl.simulate.manifests import text_of
from gpuctl.whatif.live_state import LiveState
from scheduler.state import event as ev
from scheduler.state.cache.cluster import Assumption
from scheduler.state.snapshot import ClusterSnapshot

#: Rounds in which waiting pods are tried again; each places at least one.
ROUNDS_MAX: Final = 10_000


def simulator_of(live: LiveState) -> Simulator:
    """A simulator that continues from the state; pods that wait are decided on."""
    simulator = Simulator(live.config)
    state = live.state
    for node in state.nodes:
        simulator.add_node(node, live.now)
    for namespace in state.namespaces:
        simulator.add_namespace(namespace)
    for quota in state.quotas:
        simulator.add_quota(quota)
    for item in state.storage:
        simulator.add_event(ev.StorageUpdated(item))
    for dra_object in state.dra:
        simulator.add_dra_object(dra_object)
    simulator.add_event(ev.PartitionsReplaced(state.partitions))
    simulator.add_event(ev.BudgetsReplaced(state.budgets))
    for document in live.documents:
        space = text_of(document.metadata.get("namespace"))
        if document.kind == "LimitRange":
            simulator.add_limit_range(space, document)
        elif document.kind == dra_objects.TEMPLATE:
            simulator.claims.add_template(dra_objects.to_template(document, space))
    _avoid(simulator, state)
    _add_pods(simulator, state)
    settle(simulator)
    return simulator


def _avoid(simulator: Simulator, state: ClusterSnapshot) -> None:
    cluster = simulator.cluster
    for one in state.avoided:
        cluster.avoid(one.node_name, frozenset(one.scopes))
    for in_backoff in state.gpus_in_backoff:
        cluster.nodes.set_gpu_backoff(in_backoff.node_name, frozenset(in_backoff.gpus))
    for name in state.settled:
        cluster.nodes.settle(name)


def _add_pods(simulator: Simulator, state: ClusterSnapshot) -> None:
    """Pods on nodes first, as they hold what others may not get."""
    assumed = {one.pod.uid for one in state.assumed}
    for pod in state.pods:
        if pod.node_name and pod.uid not in assumed:
            simulator.add_existing(pod)
    for one in state.assumed:
        simulator.cluster.upsert_pod(one.pod)
        assumption = Assumption(one.node_name, one.devices, one.index, one.volumes, one.claims)
        simulator.cluster.assume(one.pod, assumption)
        simulator.running.add((one.pod.namespace, one.pod.name))
    for pod in state.pods:
        if not pod.node_name and pod.uid not in assumed:
            simulator.add_existing(pod)


def settle(simulator: Simulator) -> None:
    """Decide until no pod that waits can be placed."""
    simulator.decide_due()
    for _ in range(ROUNDS_MAX):
        if not simulator.retry():
            return
