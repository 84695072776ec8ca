"""A real ArgoCD on a control plane of this package, and a git repository for it to follow."""

from tools.controlplane.gitops.argocd import ArgoCD
from tools.controlplane.gitops.repository import Repository

__all__ = ["ArgoCD", "Repository"]
