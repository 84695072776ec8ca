"""A rejected pod for which edits are looked for."""

from __future__ import annotations

from collections.abc import Sequence

from scheduler.decide.explain import Refusal
from scheduler.framework.budget import SearchBudget
from scheduler.framework.view import View
from scheduler.model.pods.pod import Pod


class RejectedPod:
    """The pod, the refusals of its last decision, and the steps of the search.

    The nodes may have changed since the decision.
    """

    def __init__(
        self, view: View, pod: Pod, refusals: Sequence[Refusal], work: SearchBudget
    ) -> None:
        self.view = view
        self.pod = pod
        self.refusals = refusals
        self.work = work
        #: The refusals of each node; those of the pod itself are at the empty name.
        self.nodes: dict[str, list[Refusal]] = {}
        for one in refusals:
            self.nodes.setdefault(one.node, []).append(one)

    def nodes_with(self, code: str) -> list[str]:
        """The nodes that refuse the pod with this code."""
        return [one.node for one in self.refusals if one.code == code and one.node]
