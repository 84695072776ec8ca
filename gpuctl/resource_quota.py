"""ResourceQuotas as the API server would apply them, as far as they limit GPUs.

What is used is counted from the pods that exist, like the quota controller does; what a file says
of that is not believed, because the pods of the file are what there is.
"""

from __future__ import annotations

import msgspec

from scheduler.model import resources
from scheduler.model.pod import Pod
from scheduler.model.quota import REQUESTS, Quota
from scheduler.state.cache.cluster import Cluster


def count(cluster: Cluster, namespace: str) -> None:
    """Count anew what the quotas of a namespace have used."""
    for quota in tuple(cluster.quotas.known.get(namespace, {}).values()):
        used: resources.Amounts = {}
        for pod in filter(quota.counts, cluster.pods.values()):
            resources.add(used, {r: pod.requests.get(r, 0) for r in quota.hard})
        cluster.quotas.upsert(msgspec.structs.replace(quota, used=used))


def refusal(cluster: Cluster, pod: Pod) -> str | None:
    """The API server's words where a quota is above its limit with this pod; else None."""
    for _, quota in sorted(cluster.quotas.known.get(pod.namespace, {}).items()):
        if quota.counts(pod) and quota.refusal(pod, {}) is not None:
            return _words(quota, pod)
    return None


def _words(quota: Quota, pod: Pod) -> str:
    over = sorted(
        resource
        for resource, hard in quota.hard.items()
        if quota.used.get(resource, 0) + pod.requests.get(resource, 0) > hard
    )
    lists = (
        ",".join(f"{REQUESTS}{resource}={amounts.get(resource, 0)}" for resource in over)
        for amounts in (pod.requests, quota.used, quota.hard)
    )
    requested, used, limited = lists
    return f"exceeded quota: {quota.name}, requested: {requested}, used: {used}, limited: {limited}"
