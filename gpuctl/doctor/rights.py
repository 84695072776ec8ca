"""What the scheduler's account must be allowed: the rules of ``cluster/rbac.yaml``, as questions.

Those of ``cluster/rbac-moves.yaml`` are needed only where pods are moved. A test holds them
together. What only the chart adds (the certificate's Secrets, relabelling) is not asked for: it
depends on the values.
"""

from __future__ import annotations

from gpuctl.doctor.facts import Right

_EVERYWHERE = (
    ("", "nodes namespaces pods resourcequotas", "get list watch"),
    ("", "pods/binding bindings", "create"),
    ("", "pods", "delete"),
    ("", "pods/status", "patch"),
    ("events.k8s.io", "events", "create"),
    ("gpu-scheduler.io", "devices", "assign"),
)
_AT_HOME = (
    ("coordination.k8s.io", "leases", "create"),
    ("gpu-scheduler.io", "migcuts", "list watch create patch"),
)
_OF_MOVES = (
    ("", "pods/eviction", "create"),
    ("apps", "deployments replicasets statefulsets", "get"),
    ("batch", "jobs", "get"),
    ("policy", "poddisruptionbudgets", "list"),
)
_OF_MOVES_AT_HOME = (
    ("gpu-scheduler.io", "migrules", "list watch create delete"),
    ("gpu-scheduler.io", "migrules/status", "patch"),
)
_LEASE = ("coordination.k8s.io", "leases", "get update")


def rights(namespace: str, lease: str) -> list[Right]:
    """Every right, of a scheduler in this namespace with a Lease of this name."""
    everywhere = [one for row in _EVERYWHERE for one in _questions(row)]
    at_home = [one for row in _AT_HOME for one in _questions(row, namespace)]
    return [*everywhere, *at_home, *_questions(_LEASE, namespace, lease)]


def rights_of_moves(namespace: str) -> list[Right]:
    """Those that only moves need, of a scheduler in this namespace."""
    everywhere = [one for row in _OF_MOVES for one in _questions(row)]
    return everywhere + [one for row in _OF_MOVES_AT_HOME for one in _questions(row, namespace)]


def _questions(row: tuple[str, str, str], namespace: str = "", name: str = "") -> list[Right]:
    group, resources, verbs = row
    found = []
    for full in resources.split():
        resource, _, subresource = full.partition("/")
        found += [
            Right(
                verb=verb,
                resource=resource,
                group=group,
                subresource=subresource,
                namespace=namespace,
                name=name,
            )
            for verb in verbs.split()
        ]
    return found
