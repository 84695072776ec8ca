"""Objects from files, put into the simulator in the order in which a cluster would see them.

    nodes, namespaces, limits, classes     what is there
    pods with a uid or a node              they passed admission before: they hold, or wait
    pods and workloads                     created in the order of the input

A StatefulSet that starts its pods one by one gets no further than its first pod that waits.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec

from gpuctl import packing_report
from gpuctl.apiserver_defaults import Priorities, node_with_status
from gpuctl.decode import to_namespace, to_node, to_pod, to_quota
from gpuctl.manifests import Document, object_of, text_of
from gpuctl.simulation_result import Row, Verdict, to_row
from gpuctl.simulator import Simulator
from gpuctl.workload_expansion import EXPANDERS, Planned, bare, expand
from scheduler.config import Config
from scheduler.state.cache.cluster import Cluster

KINDS: Final = {
    "Node": "v1",
    "Namespace": "v1",
    "ResourceQuota": "v1",
    "LimitRange": "v1",
    "Pod": "v1",
    "PriorityClass": "scheduling.k8s.io/v1",
    "StatefulSet": "apps/v1",
    "Deployment": "apps/v1",
    "ReplicaSet": "apps/v1",
    "Job": "batch/v1",
}

Owner = tuple[str, str, str]


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """What came out: a row per pod in decision order, the cluster afterwards, remarks.

    ``packings`` say how well what is cut to order was filled where it is not enough.
    """

    rows: list[Row]
    cluster: Cluster
    remarks: list[str]
    packings: list[str]


def simulate(
    documents: list[Document],
    config: Config,
    namespace: str = "default",
    on_pod: Callable[[int], None] = lambda total: None,
    now: float = 0.0,
) -> Report:
    """Play the input through; ``on_pod`` is told after each pod how many there are.

    ``now`` is Unix time, by which nodes that say when they were created are new or old.
    """
    known, remarks = _sorted(documents)
    simulator = Simulator(config)
    for document in known["Node"]:
        simulator.add_node(to_node(node_with_status(_named(document))), now)
    for document in known["Namespace"]:
        simulator.add_namespace(to_namespace(_named(document)))
    for document in known["ResourceQuota"]:
        quota = to_quota(_named(document))
        at = _namespace(document, namespace)
        simulator.add_quota(msgspec.structs.replace(quota, namespace=at))
    for document in known["LimitRange"]:
        simulator.add_limit_range(_namespace(_named(document), namespace), document)
    there = [document for document in known["Pod"] if _is_there(document)]
    _add(simulator, [pod for pod in there if pod.spec.get("nodeName")], namespace)
    before = packing_report.pools(simulator.cluster)
    _add(simulator, [pod for pod in there if not pod.spec.get("nodeName")], namespace)
    simulator.decide_due()
    planned, more = _planned(documents, namespace, {_owner(pod, namespace) for pod in there})
    late = _create(simulator, planned, Priorities(known["PriorityClass"]), namespace, on_pod)
    rows = [to_row(verdict) for verdict in simulator.verdicts.values()]
    rows += [_not_created(each, namespace) for each in late]
    told = packing_report.told(before, simulator.cluster, simulator.verdicts)
    return Report(rows=rows, cluster=simulator.cluster, remarks=remarks + more, packings=told)


def _add(simulator: Simulator, pods: list[Document], namespace: str) -> None:
    for document in pods:
        simulator.add_existing(to_pod(_with_identity(document, namespace), document))


def _sorted(documents: list[Document]) -> tuple[dict[str, list[Document]], list[str]]:
    """The documents by kind, and a remark about those that are of no use here."""
    known: dict[str, list[Document]] = {kind: [] for kind in KINDS}
    skipped: dict[str, int] = {}
    for document in documents:
        if _is_known(document):
            known[document.kind].append(document)
        else:
            skipped[document.kind] = skipped.get(document.kind, 0) + 1
    if not skipped:
        return known, []
    counts = ", ".join(f"{count} {kind}" for kind, count in sorted(skipped.items()))
    return known, [f"skipped, because the simulator does not play it: {counts}"]


def _is_known(document: Document) -> bool:
    wanted, given = KINDS.get(document.kind), document.api_version
    if wanted is None or wanted == given:
        return wanted is not None
    if not given:
        raise document.mistake("apiVersion", f"is missing; write apiVersion: {wanted}")
    if given.rpartition("/")[0] == wanted.rpartition("/")[0]:
        raise document.mistake("apiVersion", f"{given} has no {document.kind}; write {wanted}")
    return False


def _named(document: Document) -> Document:
    if not document.name:
        raise document.mistake("metadata.name", "is missing; give the object a name")
    return document


def _is_there(document: Document) -> bool:
    return bool(document.metadata.get("uid") or document.spec.get("nodeName"))


def _with_identity(document: Document, namespace: str) -> dict[str, object]:
    meta = _named(document).metadata
    at = _namespace(document, namespace)
    uid = text_of(meta.get("uid")) or f"{at}/{document.name}"
    return {**document.raw, "metadata": {**meta, "namespace": at, "uid": uid}}


def _namespace(document: Document, default: str) -> str:
    return text_of(document.metadata.get("namespace")) or default


def _owner(pod: Document, namespace: str) -> Owner | None:
    """The controller of a pod; for a ReplicaSet of a Deployment, the Deployment."""
    at = _namespace(pod, namespace)
    for reference in pod.metadata.get("ownerReferences") or ():
        owner = object_of(reference)
        if owner.get("controller") is True:
            kind, name = text_of(owner.get("kind")), text_of(owner.get("name"))
            digest = object_of(pod.metadata.get("labels")).get("pod-template-hash")
            if kind == "ReplicaSet" and digest and name.endswith(f"-{digest}"):
                return at, "Deployment", name.removesuffix(f"-{digest}")
            return at, kind, name
    return None


def _planned(
    documents: list[Document], namespace: str, there: set[Owner | None]
) -> tuple[list[Planned], list[str]]:
    """The pods that are going to be created, and remarks about workloads that are running."""
    planned: list[Planned] = []
    remarks: list[str] = []
    for document in documents:
        if document.kind == "Pod" and _is_known(document) and not _is_there(document):
            planned.append(bare(_named(document)))
        elif document.kind in EXPANDERS and _is_known(document):
            at = _namespace(_named(document), namespace)
            if (at, document.kind, document.name) in there:
                remarks.append(
                    f"{document.kind} {at}/{document.name}: its pods are in the input, so its"
                    " template is not expanded"
                )
            elif not document.metadata.get("ownerReferences"):
                planned += expand(document, at)
    return planned, remarks


def _create(
    simulator: Simulator,
    planned: list[Planned],
    priorities: Priorities,
    namespace: str,
    on_pod: Callable[[int], None],
) -> list[Planned]:
    """Create the pods, those that wait for another one when that runs; returns who never could."""

    def create(one: Planned) -> None:
        at = _namespace(one.document, namespace)
        priority = priorities.of(object_of(one.raw.get("spec")), one.document, one.prefix)
        simulator.create(one, at, priority)
        on_pod(len(planned))

    waiting = planned
    while True:
        late: list[Planned] = []
        for one in waiting:
            if one.after is None or _runs(simulator, one, namespace):
                create(one)
            else:
                late.append(one)
        if not simulator.retry() and len(late) == len(waiting):
            return late
        waiting = late


def _runs(simulator: Simulator, one: Planned, namespace: str) -> bool:
    return (_namespace(one.document, namespace), one.after) in simulator.running


def _not_created(one: Planned, namespace: str) -> Row:
    reason = (
        f"not created yet: {one.document.kind} {one.document.name} starts its pods one by one"
        f" (podManagementPolicy: OrderedReady) and {one.after} does not run"
    )
    pod = msgspec.structs.replace(to_pod(one.raw, one.document, one.prefix), name=one.name)
    pod = msgspec.structs.replace(pod, namespace=_namespace(one.document, namespace))
    return to_row(Verdict(pod=pod, asked=pod.gpu_requests, reason=reason))
