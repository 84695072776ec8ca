"""Our side of the comparison: the product's decoders, cluster state and decisions.

The live run feeds it from real watches, the replay from recorded steps; both through the same
``WatchSource`` and ``ClusterCache``.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import msgspec

from scheduler.controllers.cluster_cache import ClusterCache
from scheduler.decide import best_fit
from scheduler.decide.post_filter import post_filter
from scheduler.decide.schedule_one import schedule_one
from scheduler.decide.view import beside_nominated
from scheduler.framework.budget import Budget
from scheduler.framework.decision import Decision, Preemption, Rejection
from scheduler.framework.pipeline import Pipeline
from scheduler.framework.plugin import PostFilterContext, Refuse
from scheduler.framework.settings import Settings
from scheduler.model import well_known
from scheduler.model.pods.pod import Pod
from scheduler.model.reasons.reason import with_numbers
from scheduler.plugins import default_pipeline
from scheduler.plugins.preemption.importance import Candidate, best
from scheduler.plugins.preemption.plugin import find_candidates
from scheduler.report.containment import Containment
from scheduler.report.metrics import Metrics
from scheduler.state.cache.cluster import Cluster
from scheduler.state.event import Event
from scheduler.watch.informers import every
from scheduler.watch.reflector import WatchSource
from tests.differential.answers import OurAnswer, Victims, named_nodes
from tests.differential.dra.allocations import our_allocations

NAMESPACE: Final = "default"
#: Every watched kind but those of our own controllers.
SOURCES: Final[dict[str, WatchSource[Event]]] = {
    one.kind: one for one in every(NAMESPACE, migrations=False) if "gpu-scheduler" not in one.path
}
PIPELINE: Final = default_pipeline(Settings(preemption="all"))
_UNLIMITED: Final = 10**9


class OurSide:
    """The state of one scheduler that never binds."""

    def __init__(self, pipeline: Pipeline = PIPELINE) -> None:
        self.cluster = Cluster(pipeline.scheduler_name, pipeline.maps_allow)
        self._pipeline = pipeline
        containment = Containment(Metrics(well_known.SCHEDULER_NAME))
        self._cache = ClusterCache(self.cluster, containment, lambda: 0.0)

    def handle(self, event: Event) -> None:
        """Fold an event of a watch."""
        self._cache.handle(event, 0.0)

    def see(self, kind: str, manifest: dict[str, Any], *, is_gone: bool = False) -> None:
        """Fold an object as the watch would send it."""
        self.handle(SOURCES[kind].decode(msgspec.json.encode(manifest), is_gone))

    def pod(self, uid: str) -> Pod | None:
        """A pod that was seen."""
        return self.cluster.pods.get(uid)

    def answer(self, uid: str) -> OurAnswer:
        """Decide a pod that was seen."""
        pod, pipeline = self.cluster.pods[uid], self._pipeline
        decision = schedule_one(self.cluster, pod, pipeline, Budget(_UNLIMITED))
        view = beside_nominated(self.cluster, pod)
        filtered = pipeline.pre_filter(view, pod)
        nodes = [one.node for one in view.candidates() if one.node is not None]
        names = frozenset(one.name for one in nodes)
        if isinstance(filtered, Refuse):
            why = (filtered.reason.text,)
            return OurAnswer(
                feasible=frozenset(), rejected=dict.fromkeys(names, why), decision=decision
            )
        _, reasons = best_fit.scan(
            view.candidates(), pod, Budget(_UNLIMITED), pipeline, filtered.bound
        )
        texts = {name: tuple(map(with_numbers, every)) for name, every in reasons.items()}
        candidates = self._candidates(decision)
        feasible = names - texts.keys()
        return OurAnswer(
            candidates={
                one.node_name: Victims(_names(one.victims), one.violations) for one in candidates
            },
            best=tuple(one.node_name for one in best(candidates)) if candidates else (),
            feasible=feasible,
            rejected=texts,
            decision=decision,
            named=named_nodes(pod),
            claims=our_allocations(view, pod, nodes, feasible),
        )

    def _candidates(self, decision: Decision) -> list[Candidate]:
        """Every node on which pods could be preempted, as the plugin finds them."""
        found: list[Candidate] = []

        def note(context: PostFilterContext) -> Rejection | None:
            found.extend(find_candidates(context)[0])
            return None

        if isinstance(decision, Preemption):
            plugins = tuple(
                msgspec.structs.replace(one, post_filter=note if one.post_filter else None)
                for one in self._pipeline.plugins
            )
            pipeline = msgspec.structs.replace(self._pipeline, plugins=plugins)
            rejection = Rejection(
                pod=decision.pod,
                diagnosis=decision.diagnosis,
                node_name=decision.node_name,
                candidates=decision.candidates,
            )
            post_filter(self.cluster, pipeline, rejection, Budget(_UNLIMITED))
        return found


def _names(pods: Iterable[Pod]) -> str:
    """The names of pods in the sequence."""
    return " ".join(sorted(pod.name.partition("-")[0] for pod in pods))
