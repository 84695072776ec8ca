"""What keeps a pod that is rejected from preempting others: asked on request only.

A decision needs none of this, and a walk over the pods of many nodes costs too much for each.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Final

import msgspec

from scheduler.framework.budget import SearchBudget
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
from scheduler.plugins.preemption.possible_victims import spared_because, spared_with_group
from scheduler.state.parts import Parts

#: Pods that are looked at in one part.
PART: Final = 2_000


class Hindrance(msgspec.Struct, frozen=True, kw_only=True):
    """``barred`` is why the pod itself preempts no pod (empty: it may), and ``candidate`` the node
    and the victims if it might; ``unhelpful`` has the reasons of the nodes that would not take it
    then either.
    """

    barred: str = ""
    candidate: Candidate | None = None
    unhelpful: Mapping[str, Reasons] = {}


def hindrance(context: PostFilterContext) -> Hindrance | None:
    """What keeps the pod from preempting; None if preemption is off or could not help."""
    if is_out_of_question(context):
        return None
    pod, view = context.rejection.pod, context.view
    barred = NEVER if pod.never_preempts else ""
    if not barred and view.preemptions.is_exhausted(pod.uid):
        barred = EXHAUSTED
    if not barred:
        return Hindrance(unhelpful=context.rejection.unhelpful)
    found, unhelpful = find_candidates(context)
    return Hindrance(
        barred=barred,
        candidate=importance.best(found)[0] if found else None,
        unhelpful=unhelpful,
    )


def spared_pods(context: PostFilterContext, work: SearchBudget) -> Parts[Mapping[str, int]]:
    """The number of pods that may not go by cause, on the nodes where the end of pods could help.

    Each pod is a step, and the state may change between two parts.
    """
    view, rejection = context.view, context.rejection
    names = rejection.candidates or [
        name for name, reasons in rejection.diagnosis.nodes.items() if is_resolvable(reasons)
    ]
    counts: Counter[str] = Counter()
    steps = 0
    for at, name in enumerate(names):
        if work.is_spent:
            work.leave_out(len(names) - at)
            break
        node_info = view.at(name)
        pods = node_info.pods.values() if node_info is not None else ()
        for pod, _ in pods:
            cause = spared_because(pod, rejection.pod, context.settings)
            if not cause and pod.group:
                cause = spared_with_group(view, pod, rejection.pod, context.settings)
            if cause:
                counts[cause] += 1
        steps += work.part(len(pods))
        if steps >= PART:
            yield steps
            steps = 0
    yield steps
    return counts
