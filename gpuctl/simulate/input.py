"""Feeds objects from files into the simulator in the order of a cluster.

    nodes, namespaces, limits, classes,
    slices, claims, PodGroups              exist at the start
    pods with a uid or a node              passed admission before: running or pending
    pods and workloads                     created in the order of the input

A StatefulSet with OrderedReady stops at its first pending pod.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec

from gpuctl.simulate import dra_objects, packing_report, storage
from gpuctl.simulate.apiserver_defaults import Priorities, node_with_status
from gpuctl.simulate.decode import to_namespace, to_node, to_pod, to_pod_group, to_quota
from gpuctl.simulate.engine import Simulator
from gpuctl.simulate.manifests import Document, object_of, text_of
from gpuctl.simulate.result import Row, Verdict, to_row
from gpuctl.simulate.validation import unknown_fields
from gpuctl.simulate.validation.rejection import check_metadata, check_workload
from gpuctl.simulate.workload_expansion import EXPANDERS, PlannedPod, bare, expand
from scheduler.config import Config
from scheduler.state import event as ev
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
    "PodGroup": "scheduling.k8s.io/v1beta1",
    **storage.KINDS,
    **dra_objects.KINDS,
}

#: Other versions that are read, and the PodGroups of scheduler-plugins.
ALSO_READ: Final = {
    "PodGroup": ("scheduling.k8s.io/v1alpha3", "scheduling.x-k8s.io/v1alpha1"),
    **dra_objects.OLDER,
}

Owner = tuple[str, str, str]


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """The result: a row per pod in decision order, the final cluster, remarks.

    ``packings`` describe how full the GPUs of dynamic MIG are if pods wait for instances on them.
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
    """Simulate the input; ``on_pod`` is called after each pod with the total number of pods.

    ``now`` is Unix time; it gives nodes with a creationTimestamp their age.
    """
    known, remarks = by_kind(documents)
    remarks += unknown_fields.notes(document for document in documents if not _exists(document))
    simulator = Simulator(config)
    for document in known["Node"]:
        simulator.add_node(to_node(node_with_status(_named(document))), now)
    add_objects(simulator, known, namespace)
    existing = [document for document in known["Pod"] if _exists(document)]
    _add(simulator, [pod for pod in existing if pod.spec.get("nodeName")], namespace)
    before = packing_report.pools(simulator.cluster)
    _add(simulator, [pod for pod in existing if not pod.spec.get("nodeName")], namespace)
    simulator.decide_due()
    planned, more = _planned(documents, namespace, {_owner(pod, namespace) for pod in existing})
    late = create(simulator, planned, Priorities(known["PriorityClass"]), namespace, on_pod)
    rows = [to_row(verdict) for verdict in simulator.verdicts.values()]
    rows += [to_row(not_created(pod, namespace)) for pod in late]
    packings = packing_report.render(before, simulator.cluster, simulator.verdicts)
    remarks += [*more, *storage.remark(simulator.unknown_claims), *simulator.claims.remark()]
    return Report(rows=rows, cluster=simulator.cluster, remarks=remarks, packings=packings)


def add_objects(simulator: Simulator, known: dict[str, list[Document]], namespace: str) -> None:
    """Add the objects that are neither nodes nor pods."""
    for document in known["Namespace"]:
        simulator.add_namespace(to_namespace(_named(document)))
    for document in known["ResourceQuota"]:
        quota = to_quota(_named(document))
        at = _namespace(document, namespace)
        simulator.add_quota(msgspec.structs.replace(quota, namespace=at))
    for document in known["LimitRange"]:
        simulator.add_limit_range(_namespace(_named(document), namespace), document)
    for kind in storage.KINDS:
        for document in known[kind]:
            simulator.add_storage(storage.to_event(_named(document), namespace))
    for document in known["PodGroup"]:
        group = to_pod_group(_named(document), _namespace(document, namespace))
        simulator.add_event(ev.PodGroupUpdated(group))
    _add_dra(simulator, known, namespace)


def _add_dra(simulator: Simulator, known: dict[str, list[Document]], namespace: str) -> None:
    for kind in dra_objects.KINDS:
        for document in known[kind]:
            if kind == dra_objects.TEMPLATE:
                simulator.claims.add_template(dra_objects.to_template(document, namespace))
            else:
                simulator.add_dra_object(dra_objects.to_object(document, namespace))


def _add(simulator: Simulator, pods: list[Document], namespace: str) -> None:
    for document in pods:
        simulator.add_existing(to_pod(_with_identity(document, namespace), document))


def by_kind(documents: list[Document]) -> tuple[dict[str, list[Document]], list[str]]:
    """The documents by kind, and a remark on the kinds that are skipped."""
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
    return known, [f"skipped kinds that the simulator does not support: {counts}"]


def _is_known(document: Document) -> bool:
    wanted, given = KINDS.get(document.kind), document.api_version
    if wanted is None or wanted == given or given in ALSO_READ.get(document.kind, ()):
        return wanted is not None
    if not given:
        raise document.error("apiVersion", f"is missing; write apiVersion: {wanted}")
    if given.rpartition("/")[0] == wanted.rpartition("/")[0]:
        raise document.error("apiVersion", f"{given} is not read; write {wanted}")
    return False


def _named(document: Document) -> Document:
    if not document.name:
        raise document.error("metadata.name", "is missing; give the object a name")
    if not _exists(document):
        check_metadata(document)
    return document


def _exists(document: Document) -> bool:
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
    documents: list[Document], namespace: str, owners: set[Owner | None]
) -> tuple[list[PlannedPod], list[str]]:
    """The pods to create, and remarks on workloads whose pods exist (``owners``)."""
    planned: list[PlannedPod] = []
    remarks: list[str] = []
    for document in documents:
        if document.kind == "Pod" and _is_known(document) and not _exists(document):
            planned.append(bare(_named(document)))
        elif document.kind in EXPANDERS and _is_known(document):
            at = _namespace(_named(document), namespace)
            if (at, document.kind, document.name) in owners:
                remarks.append(
                    f"{document.kind} {at}/{document.name}: its pods are in the input, so its"
                    " template is not expanded"
                )
            elif not document.metadata.get("ownerReferences"):
                planned += expanded(document, at)
    return planned, remarks


def expanded(document: Document, namespace: str) -> list[PlannedPod]:
    """The pods of a workload; InputError where the API server would reject it or its template."""
    made = expand(document, namespace)
    for pod in made[:1]:
        to_pod(pod.raw, document, pod.prefix)
    if not _exists(document):
        check_workload(document)
    return made


def create(
    simulator: Simulator,
    planned: list[PlannedPod],
    priorities: Priorities,
    namespace: str,
    on_pod: Callable[[int], None],
) -> list[PlannedPod]:
    """Create the pods, each after its predecessor runs; returns the pods never created."""

    def create_one(pod: PlannedPod) -> None:
        at = _namespace(pod.document, namespace)
        priority = priorities.of(object_of(pod.raw.get("spec")), pod.document, pod.prefix)
        simulator.create(pod, at, priority)
        on_pod(len(planned))

    waiting = planned
    while True:
        late: list[PlannedPod] = []
        for pod in waiting:
            if pod.after is None or _predecessor_runs(simulator, pod, namespace):
                create_one(pod)
            else:
                late.append(pod)
        if not simulator.retry() and len(late) == len(waiting):
            return late
        waiting = late


def _predecessor_runs(simulator: Simulator, pod: PlannedPod, namespace: str) -> bool:
    return (_namespace(pod.document, namespace), pod.after) in simulator.running


def not_created(planned: PlannedPod, namespace: str) -> Verdict:
    """The verdict of a pod whose predecessor does not run."""
    document = planned.document
    reason = (
        f"not created yet: {document.kind} {document.name} starts its pods one by one"
        f" (podManagementPolicy: OrderedReady) and {planned.after} does not run"
    )
    pod = msgspec.structs.replace(
        to_pod(planned.raw, document, planned.prefix),
        name=planned.name,
        namespace=_namespace(document, namespace),
    )
    return Verdict(pod=pod, asked=pod.gpu_requests, reason=reason)
