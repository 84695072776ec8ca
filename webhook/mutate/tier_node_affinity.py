"""Restricts a pod to the nodes on which its tier was granted (``scheduler.model.mig.tier_nodes``).

The tier was granted on nodes with certain labels or GPU memory. So the labels are added to the
pod's nodeSelector, the memory to every term of its required node affinity, and an annotation
records the additions.
"""

from __future__ import annotations

from typing import Any, Final

from scheduler.model import well_known
from scheduler.model.mig.tier_nodes import TierNodes
from webhook.mutate import raw_pod
from webhook.mutate.pod_draft import PodDraft

_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_TERMS: Final = "nodeSelectorTerms"
_EXPRESSIONS: Final = "matchExpressions"


def bind(draft: PodDraft, where: TierNodes) -> None:
    """Restrict the pod to these nodes, which are not all."""
    spec = raw_pod.spec(draft.pod)
    selector = raw_pod.mapping(spec.get("nodeSelector"))
    labels = tuple((key, value) for key, value in where.labels if selector.get(key) != value)
    changed = dict(spec)
    if labels:
        changed["nodeSelector"] = {**selector, **dict(labels)}
    memory_mib = where.memory_mib
    if memory_mib:
        affinity = _narrowed(raw_pod.mapping(spec.get("affinity")), where)
        memory_mib = memory_mib if affinity != spec.get("affinity") else 0
        changed["affinity"] = affinity
    added = TierNodes(labels, memory_mib)
    if added:
        draft.pod = {**draft.pod, "spec": changed}
        draft.annotate({well_known.TIER_NODES: added.text})
        draft.log.append(f"Pod {draft.key} has its tier on nodes with {added.text}")


def _narrowed(affinity: dict[str, Any], where: TierNodes) -> dict[str, Any]:
    wanted = where.requirement
    expression = {"key": wanted.key, "operator": wanted.operator, "values": list(wanted.values)}
    of_nodes = raw_pod.mapping(affinity.get("nodeAffinity"))
    required = of_nodes.get(_REQUIRED)
    if required is None:
        terms: list[Any] = [{_EXPRESSIONS: [expression]}]
    else:
        listed = raw_pod.mapping(required).get(_TERMS)
        given = listed if isinstance(listed, list) else []
        terms = [_with(term, expression) for term in given]
    narrowed = {**of_nodes, _REQUIRED: {**raw_pod.mapping(required), _TERMS: terms}}
    return {**affinity, "nodeAffinity": narrowed}


def _with(term: Any, expression: dict[str, Any]) -> Any:
    """A term with one more condition; an empty term matches no node and stays unchanged."""
    if not isinstance(term, dict):
        return term
    listed = term.get(_EXPRESSIONS)
    given = listed if isinstance(listed, list) else []
    if expression in given or not (given or term.get("matchFields")):
        return term
    return {**term, _EXPRESSIONS: [*given, expression]}
