"""The ResourceQuotas that limit GPUs, by namespace."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from scheduler.model import resources
from scheduler.model.pods.pod import Pod
from scheduler.model.quota import Quota


class Quotas:
    """All that there are; ``known`` by namespace and name."""

    def __init__(self) -> None:
        self.known: dict[str, dict[str, Quota]] = {}

    def every(self) -> Iterator[Quota]:
        """Each of them."""
        return (quota for of_one in self.known.values() for quota in of_one.values())

    def upsert(self, quota: Quota) -> None:
        """A quota's newest state; one without GPU limits is as good as none."""
        of_one = self.known.setdefault(quota.namespace, {})
        of_one.pop(quota.name, None)
        if quota.hard:
            of_one[quota.name] = quota
        if not of_one:
            del self.known[quota.namespace]

    def replace(self, quotas: Iterable[Quota]) -> None:
        """All quotas there are."""
        self.known.clear()
        for quota in quotas:
            self.upsert(quota)

    def refusal(self, pod: Pod, admitted: Iterable[Pod]) -> str | None:
        """Why a quota would refuse the pod; ``admitted`` are pods that no quota may show yet."""
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
