"""The ResourceQuotas that limit GPUs, by namespace."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from scheduler.model import resources
from scheduler.model.pods.pod import Pod
from scheduler.model.quota import Quota


class Quotas:
    """All ResourceQuotas; ``known`` by namespace and name."""

    def __init__(self) -> None:
        self.known: dict[str, dict[str, Quota]] = {}

    def every(self) -> Iterator[Quota]:
        """Every quota."""
        return (quota for of_one in self.known.values() for quota in of_one.values())

    def upsert(self, quota: Quota) -> None:
        """Fold a quota's newest state; one without GPU limits is removed."""
        of_one = self.known.setdefault(quota.namespace, {})
        of_one.pop(quota.name, None)
        if quota.hard:
            of_one[quota.name] = quota
        if not of_one:
            del self.known[quota.namespace]

    def replace(self, quotas: Iterable[Quota]) -> None:
        """Fold the whole list of quotas."""
        self.known.clear()
        for quota in quotas:
            self.upsert(quota)

    def refusal(self, pod: Pod, admitted: Iterable[Pod]) -> str | None:
        """The reason why a quota would reject the pod; ``admitted`` are pods that no quota status
        contains yet.
        """
        of_one = self.known.get(pod.namespace)
        if not of_one:
            return None
        others = tuple(admitted)
        for _, quota in sorted(of_one.items()):
            if not quota.counts(pod):
                continue
            pending: resources.Amounts = {}
            for other in filter(quota.counts, others):
                resources.add(pending, other.requests)
            problem = quota.refusal(pod, pending)
            if problem is not None:
                return problem
        return None
