"""What keeps a pod that is rejected from preempting others: asked on request only.

A decision needs none of this, and a walk over the pods of many nodes costs too much for each.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import msgspec

from scheduler.framework.plugin import PostFilterContext, Reasons
from scheduler.model.reasons.reason import is_resolvable
from scheduler.plugins.preemption import importance
from scheduler.plugins.preemption.importance import Candidate
from scheduler.plugins.preemption.plugin import (
    EXHAUSTED,
    NEVER,
    find_candidates,
    is_out_of_question,
)
from scheduler.plugins.preemption.possible_victims import spared_because


class Hindrance(msgspec.Struct, frozen=True, kw_only=True):
    """``barred`` is why the pod itself preempts no pod (empty: it may), and ``candidate`` the node
    and the victims if it might; ``unhelpful`` has the reasons of the nodes that would not take it
    then either. ``spared`` counts the pods that may not go by cause, on the nodes where the end of
    pods could help.
    """

    barred: str = ""
    candidate: Candidate | None = None
    unhelpful: Mapping[str, Reasons] = {}
    spared: Mapping[str, int] = {}


def hindrance(context: PostFilterContext) -> Hindrance | None:
    """What keeps the pod from preempting; None if preemption is off or could not help."""
    if is_out_of_question(context):
        return None
    pod, view = context.rejection.pod, context.view
    barred = NEVER if pod.never_preempts else ""
    if not barred and view.preemptions.is_exhausted(pod.uid):
        barred = EXHAUSTED
    spared = _spared(context)
    if not barred:
        return Hindrance(unhelpful=context.rejection.unhelpful, spared=spared)
    found, unhelpful = find_candidates(context)
    return Hindrance(
        barred=barred,
        candidate=importance.best(found)[0] if found else None,
        unhelpful=unhelpful,
        spared=spared,
    )


def _spared(context: PostFilterContext) -> Counter[str]:
    view, rejection = context.view, context.rejection
    names = rejection.candidates or [
        name for name, reasons in rejection.diagnosis.nodes.items() if is_resolvable(reasons)
    ]
    counts: Counter[str] = Counter()
    for name in names:
        node_info = view.at(name)
        for pod, _ in node_info.pods.values() if node_info is not None else ():
            cause = spared_because(pod, rejection.pod, context.settings)
            if cause:
                counts[cause] += 1
    return counts
