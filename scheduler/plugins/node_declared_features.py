"""Pods that need a feature which not every node declares (kube-scheduler: nodedeclaredfeatures).

A node lists its features in ``status.declaredFeatures``; the pod's are inferred from its spec
(``model/pods/pod_fields.required_features``).
"""

from __future__ import annotations

from typing import Final

from scheduler.framework import pod_reads
from scheduler.framework.plugin import FITS, BoundFilter, Plugin, Reasons
from scheduler.framework.settings import Settings
from scheduler.framework.view import View
from scheduler.model.pods.pod import Pod
from scheduler.model.reasons.reason import Reason
from scheduler.model.reasons.reason_code import ReasonCode, RequeueCause
from scheduler.state.node_info import NodeInfo

DECLARED_FEATURES = ReasonCode(
    name="DECLARED_FEATURES",
    meaning="the node does not declare a feature that the pod requires",
    lifted_by=(RequeueCause.NODE, RequeueCause.POD),
    stage="NodeDeclaredFeatures",
    next_step="enable the feature gate on kubelets, or remove the field that requires the feature",
    words=(r"node\(s\) didn't match Pod's required features",),
)


def pre_filter(_view: View, pod: Pod, _settings: Settings) -> BoundFilter | None:
    """Require the pod's features of every node."""
    if not pod.required_features:
        return None
    required = frozenset(pod.required_features)

    def check(node_info: NodeInfo) -> Reasons:
        assert node_info.node is not None
        missing = required - node_info.node.declared_features
        return _missing(missing) if missing else FITS

    return BoundFilter(check, generation=0)  # it reads nothing but the node


def _missing(features: frozenset[str]) -> Reasons:
    text = f"node(s) didn't match Pod's required features ({', '.join(sorted(features))})"
    return (Reason(code=DECLARED_FEATURES, text=text, resolvable=False),)


PLUGIN: Final = Plugin(
    name="NodeDeclaredFeatures",
    skips_plain=True,
    reads=(pod_reads.READABLE,),
    codes=(DECLARED_FEATURES,),
    pre_filter=pre_filter,
)
