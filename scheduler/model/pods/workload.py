"""The workload of a pod: the Deployment, for example, and not one of its ReplicaSets.

Pods of one workload may share a device if their own map lines say so, and count as siblings for the
indexes of a map. A pod names its controlling owner. The owner's own controller is derived only if
the owner's name agrees with the labels that this controller sets on pods. So a label alone joins no
pod to another workload, and pods of two namespaces are never joined.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from scheduler.model import well_known
from scheduler.model.pods.pod_parts import Owner

#: The controllers of ReplicaSets, and the label with the end of a ReplicaSet's name.
_TEMPLATE_HASHES: Final = (
    ("Deployment", well_known.POD_TEMPLATE_HASH),
    ("Rollout.argoproj.io", well_known.ROLLOUT_TEMPLATE_HASH),
)


def workload_of(owner: Owner, labels: Mapping[str, str]) -> str:
    """The top of the pod's owners, by word and name; with its uid where it is the direct owner.

    ReplicaSet web-6bd69b846c -> Deployment/web
    ReplicaSet web-7f8c9d     -> Rollout.argoproj.io/web
    Job train-workers-0       -> JobSet.jobset.x-k8s.io/train
    StatefulSet lws-1         -> LeaderWorkerSet.leaderworkerset.x-k8s.io/lws
    PodClique inf-0-decode    -> PodCliqueSet.grove.io/inf
    """
    return _above(owner, labels) or f"{owner.word}/{owner.name}/{owner.uid}"


def _above(owner: Owner, labels: Mapping[str, str]) -> str:
    word, name = owner.word, owner.name
    if word == "ReplicaSet":
        for kind, key in _TEMPLATE_HASHES:
            template = labels.get(key)
            if template and name.endswith("-" + template):
                return f"{kind}/{name.removesuffix('-' + template)}"
    elif word == "Job":
        above = labels.get(well_known.JOBSET_NAME, "")
        part, job = labels.get(well_known.JOBSET_PART, ""), labels.get(well_known.JOBSET_JOB, "")
        if above and name == f"{above}-{part}-{job}":
            return f"JobSet.jobset.x-k8s.io/{above}"
    elif word == "StatefulSet":
        above, group = labels.get(well_known.LWS_NAME, ""), labels.get(well_known.LWS_GROUP, "")
        if above and name in (above, f"{above}-{group}"):
            return f"LeaderWorkerSet.leaderworkerset.x-k8s.io/{above}"
    elif word == "PodClique.grove.io":
        above, replica = (
            labels.get(well_known.GROVE_SET, ""),
            labels.get(well_known.GROVE_REPLICA, "0"),
        )
        if above and name.startswith(f"{above}-{replica}-"):
            return f"PodCliqueSet.grove.io/{above}"
    return ""
