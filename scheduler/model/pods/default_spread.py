"""kube-scheduler's system default constraints, by which replicas are spread softly.

They hold for pods that have no constraint and no GPU, and are controlled by a ReplicaSet, a
StatefulSet or a ReplicationController (kube-scheduler: podtopologyspread/common.go
buildDefaultConstraints). kube-scheduler reads the selectors of these objects and of Services. That
would need four more watches; here the replicas of a pod are those with the same labels, but for
the labels that differ between the replicas of one workload.
"""

from __future__ import annotations

from typing import Final

from scheduler.model import well_known
from scheduler.model.pods.pod import Pod
from scheduler.model.pods.pod_affinity import PodSelector, PodSet, SpreadConstraint
from scheduler.model.selector import Requirement

#: Label of the node, and maxSkew.
DEFAULTS: Final = ((well_known.HOSTNAME, 3), (well_known.ZONE, 5))
CONTROLLERS: Final = ("ReplicaSet", "ReplicationController", "StatefulSet")
#: Labels that controllers write, with another value on each replica or each revision.
OF_ONE_REPLICA: Final = frozenset(
    (
        "statefulset.kubernetes.io/pod-name",
        "apps.kubernetes.io/pod-index",
        "controller-revision-hash",
    )
)


def default_constraints(pod: Pod) -> tuple[SpreadConstraint, ...]:
    """The constraints of a pod that has none."""
    if pod.spread or pod.gpu_requests or pod.owner is None:
        return ()
    pairs = [pair for pair in pod.labels_key if pair[0] not in OF_ONE_REPLICA]
    if pod.owner.word not in CONTROLLERS or not pairs:
        return ()
    selector = PodSelector(tuple(Requirement(key, "In", (value,)) for key, value in pairs))
    replicas = PodSet(selector, (pod.namespace,))
    return tuple(
        SpreadConstraint(topology_key=key, max_skew=skew, is_hard=False, pods=replicas)
        for key, skew in DEFAULTS
    )
