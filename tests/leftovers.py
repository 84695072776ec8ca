"""What a release of our charts could leave behind in a cluster."""

from __future__ import annotations

from typing import Final

from tools.controlplane import ControlPlane

#: What a release can consist of; an older API server lacks some.
KINDS: Final = (
    "deployments,statefulsets,services,configmaps,secrets,serviceaccounts,leases,networkpolicies,"
    "poddisruptionbudgets,roles,rolebindings,clusterroles,clusterrolebindings,flowschemas,"
    "mutatingwebhookconfigurations,validatingadmissionpolicies,validatingadmissionpolicybindings,"
    "mutatingadmissionpolicies,mutatingadmissionpolicybindings,priorityclasses,"
    "customresourcedefinitions,horizontalpodautoscalers"
)
API_KINDS: Final = {
    "customresourcedefinition.apiextensions.k8s.io/podmigrations.gpu-scheduler.io",
    "customresourcedefinition.apiextensions.k8s.io/migpartitions.gpu-scheduler.io",
}


def everything(cp: ControlPlane) -> set[str]:
    """All objects that a release could leave behind, as kind/name."""
    served = {name.partition(".")[0] for name in cp.kubectl("api-resources", "-o", "name").split()}
    kinds = ",".join(kind for kind in KINDS.split(",") if kind in served)
    found = cp.kubectl("get", kinds, "--all-namespaces", "-o", "name").split()
    return {name for name in found if "/sh.helm.release" not in name}


def left_since(cp: ControlPlane, before: set[str]) -> set[str]:
    """What there is of the product now, and was not among everything before."""
    return {name for name in everything(cp) - before if "gpu-scheduler" in name}
