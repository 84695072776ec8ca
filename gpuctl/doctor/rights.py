"""The rights that the scheduler's account needs: the rules of ``cluster/rbac.yaml``.

Migrations of pods also need those of ``cluster/rbac-migrations.yaml``, and preemption those of
``cluster/rbac-preemption.yaml``. A test compares them with these tables. Rights that only the chart
adds (Secrets of the certificate, relabelling) are not checked, because they depend on the values.
"""

from __future__ import annotations

from gpuctl.doctor.facts import Right

_EVERYWHERE = (
    ("", "nodes namespaces pods resourcequotas", "get list watch"),
    ("", "persistentvolumes persistentvolumeclaims", "list watch patch"),
    (
        "storage.k8s.io",
        "storageclasses csinodes csidrivers csistoragecapacities volumeattachments",
        "list watch",
    ),
    ("resource.k8s.io", "resourceslices deviceclasses devicetaintrules", "list watch"),
    ("scheduling.x-k8s.io", "podgroups", "list watch"),
    ("scheduling.k8s.io", "podgroups", "list watch"),
    ("scheduling.k8s.io", "podgroups/status", "patch"),
    ("jobset.x-k8s.io", "jobsets", "get"),
    ("ray.io", "rayclusters", "get"),
    ("kubeflow.org", "mpijobs", "get"),
    ("resource.k8s.io", "resourceclaims", "get list watch create patch update delete"),
    ("resource.k8s.io", "resourceclaims/status resourceclaims/binding", "patch"),
    ("", "pods/binding bindings", "create"),
    ("", "pods", "delete"),
    ("", "pods/status", "patch"),
    ("events.k8s.io", "events", "create list"),
    ("gpu-scheduler.io", "devices", "assign"),
)
_IN_NAMESPACE = (
    ("coordination.k8s.io", "leases", "create"),
    ("gpu-scheduler.io", "migpartitions", "list watch create patch"),
    ("gpu-scheduler.io", "migcuts", "list"),
)
_OF_MIGRATIONS = (
    ("", "pods/eviction", "create"),
    ("apps", "deployments replicasets statefulsets", "get"),
    ("batch", "jobs", "get"),
    ("policy", "poddisruptionbudgets", "list"),
)
_OF_PREEMPTION = (("policy", "poddisruptionbudgets", "list watch"),)
_OF_MIGRATIONS_IN_NAMESPACE = (
    ("gpu-scheduler.io", "podmigrations", "list watch create delete"),
    ("gpu-scheduler.io", "podmigrations/status", "patch"),
    ("gpu-scheduler.io", "migrules", "list delete"),
)
_LEASE = ("coordination.k8s.io", "leases", "get update")


def rights(namespace: str, lease: str) -> list[Right]:
    """The rights of a scheduler in this namespace with a Lease of this name."""
    everywhere = [right for row in _EVERYWHERE for right in _questions(row)]
    in_namespace = [right for row in _IN_NAMESPACE for right in _questions(row, namespace)]
    return [*everywhere, *in_namespace, *_questions(_LEASE, namespace, lease)]


def rights_of_moves(namespace: str) -> list[Right]:
    """The additional rights for migrations of a scheduler in this namespace."""
    everywhere = [right for row in _OF_MIGRATIONS for right in _questions(row)]
    in_namespace = [
        right for row in _OF_MIGRATIONS_IN_NAMESPACE for right in _questions(row, namespace)
    ]
    return everywhere + in_namespace


def rights_of_preemption() -> list[Right]:
    """The additional rights for preemption."""
    return [right for row in _OF_PREEMPTION for right in _questions(row)]


def _questions(row: tuple[str, str, str], namespace: str = "", name: str = "") -> list[Right]:
    group, resources, verbs = row
    questions = []
    for full in resources.split():
        resource, _, subresource = full.partition("/")
        questions += [
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
    return questions
