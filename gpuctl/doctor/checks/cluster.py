"""Checks the API server, the leader, the clocks and other schedulers. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from gpuctl.doctor.facts import Facts, Leader, Unread
from gpuctl.doctor.finding import Finding, fail, listed, ok, unread, warn

#: The kubeVersion of the charts.
OLDEST = (1, 34)
KINDS = ("podmigrations", "migpartitions")
#: The server's Date header has a resolution of one second.
SKEW_WARN_S = 3.0
INSTALL = "helm install gpu-scheduler (docs/install.md)"
UPGRADE = "helm upgrade the chart (docs/upgrade.md)"


def on_cluster(facts: Facts) -> Iterable[Finding]:
    """Findings about the API server and the scheduler's objects in it."""
    yield _version(facts)
    yield _kinds(facts)
    yield _clock(facts)
    yield _leader(facts)
    yield _others(facts)
    yield _quotas(facts)


def _version(facts: Facts) -> Finding:
    found = facts.version
    if isinstance(found, Unread):
        return unread("kubernetes", found)
    text = ".".join(map(str, found))
    if found < OLDEST:
        oldest = ".".join(map(str, OLDEST))
        return fail("kubernetes", f"version {text}", f"the oldest supported version is {oldest}")
    return ok("kubernetes", f"version {text}")


def _kinds(facts: Facts) -> Finding:
    if isinstance(facts.kinds, Unread):
        return unread("kinds", facts.kinds)
    missing = [kind for kind in KINDS if kind not in facts.kinds]
    if missing:
        advice = INSTALL if facts.leader is None else UPGRADE
        return fail("kinds", f"not served: {listed(missing)} of gpu-scheduler.io/v1alpha1", advice)
    return ok("kinds", f"served: {listed(KINDS)}")


def _clock(facts: Facts) -> Finding:
    if isinstance(facts.clocks, Unread):
        return unread("clock", facts.clocks)
    behind = (facts.clocks.server - facts.clocks.here).total_seconds()
    if abs(behind) > SKEW_WARN_S:
        word = "behind" if behind > 0 else "ahead of"
        return warn(
            "clock",
            f"this machine is {abs(behind):.0f} s {word} the API server",
            "set the clock (NTP): ages and expiries shown here are wrong by that much",
        )
    return ok("clock", "this machine and the API server agree")


def _leader(facts: Facts) -> Finding:
    lease = facts.leader
    if isinstance(lease, Unread):
        return unread("leader", lease)
    where = (
        f"kubectl -n {facts.namespace} logs -l app.kubernetes.io/name=gpu-scheduler -c scheduler"
    )
    if lease is None:
        return fail(
            "leader",
            f"no Lease in {facts.namespace}: no scheduler is installed there",
            f"{INSTALL}; if it is in another namespace: --scheduler-namespace NS",
        )
    if not lease.holder or lease.renewed_at is None:
        return fail("leader", "no replica leads, so no pod is scheduled", where)
    return _renewed(facts, lease, where)


def _renewed(facts: Facts, lease: Leader, where: str) -> Finding:
    assert lease.renewed_at is not None, "the caller checked it"
    age_s = (facts.now + lease.read_after - lease.renewed_at).total_seconds()
    if age_s > lease.duration_s + SKEW_WARN_S:
        return fail("leader", f"{lease.holder} renewed its Lease {age_s:.0f} s ago", where)
    if age_s < -SKEW_WARN_S:
        return warn(
            "leader",
            f"the clock of {lease.holder} is {-age_s:.0f} s ahead of the API server",
            "set the clock of its node (NTP)",
        )
    return ok("leader", f"{lease.holder} leads")


def _others(facts: Facts) -> Finding:
    if isinstance(facts.schedulers, Unread):
        return unread("name", facts.schedulers)
    others = [space for space in facts.schedulers if space != facts.namespace]
    if others:
        return fail(
            "name",
            f"another scheduler called {facts.scheduler} leads in {listed(others)}",
            "give one of them another scheduler.name: both would place the same pods",
        )
    strangers = () if isinstance(facts.pods, Unread) else facts.pods.strangers
    if strangers:
        return warn(
            "name",
            f"pods of {facts.scheduler} were bound by another scheduler: {listed(strangers)}",
            "look for a kube-scheduler profile or another scheduler of that name",
        )
    return ok("name", f"no other scheduler binds pods of {facts.scheduler}")


def _quotas(facts: Facts) -> Finding:
    if isinstance(facts.quotas, Unread):
        return unread("quotas", facts.quotas)
    full = [
        f"{quota.namespace}/{quota.name} ({quota.used} of {quota.hard} {quota.resource})"
        for quota in facts.quotas
        if quota.used >= quota.hard
    ]
    if full:
        advice = "the API server rejects further pods there: raise the quota, or end pods"
        return warn("quotas", f"full: {listed(full)}", advice)
    return ok("quotas", f"{len(facts.quotas)} entries for GPUs, none full")
