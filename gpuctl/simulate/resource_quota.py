"""Applies ResourceQuotas of GPUs as the API server does.

The usage is counted from the pods in the simulation, as the quota controller does. The usage in a
quota's status is ignored, because the input may lack pods that it counts.
"""

from __future__ import annotations

import msgspec

from scheduler.model import resources
from scheduler.model.pods.pod import Pod
from scheduler.model.quota import REQUESTS, Quota
from scheduler.state.cache.cluster import Cluster


def count(cluster: Cluster, namespace: str) -> None:
    """Recount the usage of the quotas in a namespace."""
    for quota in tuple(cluster.quotas.known.get(namespace, {}).values()):
        used: resources.Amounts = {}
        for pod in filter(quota.counts, cluster.pods.values()):
            resources.add(used, {r: pod.requests.get(r, 0) for r in quota.hard})
        cluster.quotas.upsert(msgspec.structs.replace(quota, used=used))


def refusal(cluster: Cluster, pod: Pod) -> str | None:
    """The API server's message if this pod exceeds a quota, else None."""
    for _, quota in sorted(cluster.quotas.known.get(pod.namespace, {}).items()):
        if quota.counts(pod) and quota.refusal(pod, {}) is not None:
            return _message(quota, pod)
    return None


def _message(quota: Quota, pod: Pod) -> str:
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
