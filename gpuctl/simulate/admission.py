"""Admission as in a cluster: the webhook's selectors, the scheduler's decision, the patch.

The selectors come from the configuration that is registered with API servers.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, NamedTuple

import msgspec

from gpuctl.simulate.manifests import Raw
from scheduler.config import Config
from scheduler.decide.admission.admit import Rules, admit, reserve
from scheduler.model.admission import AdmissionDecision
from scheduler.model.pods.pod import Pod
from scheduler.model.selector import LabelSelector, matches_labels
from scheduler.state.cache.cluster import Cluster
from scheduler.state.reservations import Reservations
from webhook.mutate import pod_mutation
from webhook.mutate.json_patch import apply
from webhook.webhook_configuration import ENVIRONMENT_ENTRY, FALLBACK_ENTRY, webhook_configuration

OWN_NAMESPACE: Final = "gpu-scheduler-system"
#: The API server sets this label on every namespace.
NAME_LABEL: Final = "kubernetes.io/metadata.name"


class Reviewed(NamedTuple):
    """The pod after its review; ``passed`` lists the tiers that were not tried, with the reason."""

    raw: Raw
    outcome: pod_mutation.Outcome
    passed: tuple[str, ...] = ()


class Admission:
    """The webhook, and the capacity that it reserves."""

    def __init__(self, config: Config) -> None:
        self.reservations = Reservations(config.pipeline().reach)
        self._name = config.scheduler_name
        self._is_registered = config.webhook.enabled
        self._webhook = pod_mutation.Config(scheduler_name=config.scheduler_name)
        self._rules = Rules(
            pipeline=config.pipeline(),
            scope=config.fallback.scope,
            ladders=config.fallback.parsed(),
        )
        self._selectors = _selectors(config)

    def review(
        self,
        raw: Raw,
        pod: Pod,
        cluster: Cluster,
        waiting: Iterable[Iterable[Pod]],
        now: float,
        number: int,
    ) -> Reviewed:
        """The pod after admission, and the review's outcome; ``number`` makes reservation ids."""
        is_ours = pod.scheduler_name == self._name
        request = pod_mutation.Request(namespace=pod.namespace, scope="ours" if is_ours else "any")
        if not self._is_called(pod, cluster, ENVIRONMENT_ENTRY if is_ours else FALLBACK_ENTRY):
            return Reviewed(raw, pod_mutation.Outcome())
        passed: tuple[str, ...] = ()
        answer: AdmissionDecision | None = None
        case = pod_mutation.PodMutation(raw, request, self._webhook)
        if case.needs_answer:
            decided = admit(
                cluster, self.reservations, waiting, pod, request.scope, self._rules, now=now
            )
            answer = decided.answer
            # A tier of the configured ladder that no node has is not worth a warning.
            passed = tuple(
                f"{' '.join(attempt.tiers)} {attempt.text}"
                for attempt in decided.tried
                if attempt.text and attempt.result != "absent"
            )
            if decided.is_reserved:
                answer = reserve(self.reservations, decided, f"r-{number:06d}", now)
        outcome = case.outcome(answer)
        return Reviewed(apply(raw, outcome.patch), outcome, passed)

    def _is_called(self, pod: Pod, cluster: Cluster, entry: str) -> bool:
        labels = {**cluster.namespace(pod.namespace).labels, NAME_LABEL: pod.namespace}
        return self._is_registered and matches_labels(self._selectors[entry], labels)


def _selectors(config: Config) -> dict[str, LabelSelector]:
    registered: dict[str, Any] = webhook_configuration(
        ca_bundle=b"",
        scheduler_name=config.scheduler_name,
        own_namespace=OWN_NAMESPACE,
        url="https://127.0.0.1",
        scope=config.fallback.scope,
    )
    return {
        each["name"]: msgspec.convert(each["namespaceSelector"], LabelSelector)
        for each in registered["webhooks"]
    }
