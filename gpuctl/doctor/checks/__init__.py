"""The checks: findings from facts, in the order of dependence. Pure."""

from __future__ import annotations

from gpuctl.doctor.checks.aggregated import on_aggregated
from gpuctl.doctor.checks.cluster import on_cluster
from gpuctl.doctor.checks.dra import on_dra
from gpuctl.doctor.checks.features import on_features
from gpuctl.doctor.checks.memory import on_memory
from gpuctl.doctor.checks.nodes import on_nodes
from gpuctl.doctor.checks.pods import on_pods
from gpuctl.doctor.checks.policies import on_guards
from gpuctl.doctor.checks.webhook import on_webhook
from gpuctl.doctor.facts import Facts
from gpuctl.doctor.finding import Finding, without_rights


def examine(facts: Facts) -> list[Finding]:
    """All findings for these facts."""
    findings = [
        *on_cluster(facts),
        *on_features(facts),
        *on_memory(facts),
        *on_guards(facts),
        *on_webhook(facts),
        *on_aggregated(facts),
        *on_nodes(facts),
        *on_dra(facts),
        *on_pods(facts),
    ]
    return without_rights(findings)
