"""Which pods name which claim: a claim is allocated by one scheduler only."""

from __future__ import annotations

from scheduler.model.pods.pod import Pod


class ClaimUsers:
    """The living pods of each claim, with their names and schedulers."""

    def __init__(self) -> None:
        self._users: dict[str, dict[str, tuple[str, str]]] = {}

    def of_another_scheduler(self, key: str, pod: Pod) -> str:
        """The name of a pod that names the claim and has another scheduler; empty if none has."""
        users = self._users.get(key, {})
        others = (name for name, scheduler in users.values() if scheduler != pod.scheduler_name)
        return min(others, default="")

    def of(self, key: str) -> tuple[str, ...]:
        """The uids of the living pods that name a claim."""
        return tuple(self._users.get(key, ()))

    def add(self, pod: Pod) -> None:
        """A pod was created or changed."""
        for name in pod.resource_claims.names:
            users = self._users.setdefault(f"{pod.namespace}/{name}", {})
            users[pod.uid] = (pod.name, pod.scheduler_name)

    def remove(self, pod: Pod) -> None:
        """A pod was deleted, or has ended."""
        for name in pod.resource_claims.names:
            key = f"{pod.namespace}/{name}"
            users = self._users.get(key)
            if users is not None and users.pop(pod.uid, None) is not None and not users:
                del self._users[key]
