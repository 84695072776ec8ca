"""A user of ArgoCD: a repository with our charts, the files of ``argocd/``, and what comes of them.

The files are applied with the repository's address in them, without a registry, and with nothing
else changed unless a step says so.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import yaml

from tests.e2e.containers import Json
from tests.e2e.delivered import CHECK_NAMESPACE, CHECK_PODS, NAMESPACE, PODS, Check, Scheduler
from tests.leftovers import API_KINDS, KINDS, left_since
from tools.controlplane import ControlPlane
from tools.controlplane.client import wait_until
from tools.controlplane.gitops import ArgoCD, Repository
from tools.product import merged

ADDRESS: Final = "https://git.example.com/gpu-scheduler.git"
#: In front of the images, which the node has without a registry.
REGISTRY: Final = "registry.example.com/"
PROJECT: Final = "gpu-scheduler-project.yaml"
COMPLETE: Final = "gpu-scheduler-complete-applicationset.yaml"
CLUSTERS: Final = "gpu-scheduler-clusters-applicationset.yaml"
STAGES: Final = "gpu-scheduler-stages-applicationset.yaml"
CLUSTER: Final = "local-cluster-secret.yaml"
SCHEDULER: Final = "local-cluster-gpu-scheduler"
CHECKER: Final = "local-cluster-gpu-test-service"
CHECK: Final = "gpu-test-service-gpu-scheduler-check"
LEASE: Final = "lease.coordination.k8s.io/gpu-scheduler"
#: The chart and the namespace of each Application.
PLACES: Final = {
    SCHEDULER: ("charts/gpu-scheduler", NAMESPACE),
    CHECKER: ("charts/gpu-scheduler-check", CHECK_NAMESPACE),
}


@dataclass(frozen=True, slots=True)
class Story:
    """The participants of the delivery."""

    plane: ControlPlane
    argo: ArgoCD
    repository: Repository
    scheduler: Scheduler
    check: Check
    before: set[str]

    def apply(self, name: str, *, without: str = "") -> None:
        """Apply a file of ``argocd/``; of the complete set maybe all but one component."""
        text = (self.repository.directory / "argocd" / name).read_text()
        whole = yaml.safe_load(text.replace(ADDRESS, self.repository.url).replace(REGISTRY, ""))
        if without:
            listed = whole["spec"]["generators"][0]["list"]
            listed["elements"] = [
                each for each in listed["elements"] if each["component"] != without
            ]
        self.plane.kubectl("apply", "-f", "-", input=yaml.safe_dump(whole))

    def delete(self, name: str, *, orphan: bool = False) -> None:
        """Delete the object of a file of ``argocd/``; its Applications may stay without it."""
        path = self.repository.directory / "argocd" / name
        words = ("--cascade=orphan",) if orphan else ()
        self.plane.kubectl("delete", "-f", str(path), *words)

    def change(self, chart: str, values: Mapping[str, Any], why: str) -> str:
        """Commit other values of a chart; the commit."""

        def over(text: str) -> str:
            return yaml.safe_dump(merged(yaml.safe_load(text), values), sort_keys=False)

        return self.repository.edit(f"charts/{chart}/values.yaml", over, why)

    def settled(self) -> None:
        """Wait until both Applications are at the repository's end."""
        for name in (SCHEDULER, CHECKER):
            self.argo.settled(name, self.repository.head)

    def wait_for_owner(self, name: str, owner: str) -> Json:
        """Wait until an Application belongs to a set; it, compared now, as it must be."""

        def is_owned() -> bool:
            meta = (self.argo.application(name) or {"metadata": {}})["metadata"]
            return [each["name"] for each in meta.get("ownerReferences", [])] == [owner]

        wait_until(is_owned, what=f"{name} to belong to {owner}")
        seen: Json = self.argo.refresh(name)
        notes = {each["type"] for each in seen["status"].get("conditions", [])}
        assert notes <= {"ExcludedResourceWarning"}, seen["status"]["conditions"]
        spec = seen["spec"]
        assert spec["project"] == "gpu-scheduler"
        assert (spec["source"]["path"], spec["destination"]["namespace"]) == PLACES[name]
        return seen

    def versions(self) -> list[str]:
        """Each object of the product that ArgoCD looks after, with its version."""
        columns = "KIND:.kind,NAME:.metadata.name,VERSION:.metadata.resourceVersion"
        words = ("--all-namespaces", "--no-headers", "-o", f"custom-columns={columns}")
        kinds = KINDS.replace("leases,", "")  # the election writes it every two seconds
        found = self.plane.kubectl("get", kinds, *words).splitlines()
        return [line for line in found if "gpu-scheduler" in line]

    def wait_for_the_end(self) -> None:
        """Wait until nothing runs, and nothing is left but the API kinds and the Lease."""
        expected = sorted(API_KINDS | {LEASE})

        def left() -> list[str]:
            return sorted(left_since(self.plane, self.before))

        # The pods go last but one; until then there is no need to list every kind again and again.
        for path in (PODS, CHECK_PODS):
            gone = f"{path} to be empty"
            self.plane.client.wait_for(
                path, lambda seen: not seen["items"], what=gone, timeout_s=180
            )
        wait_until(lambda: left() == expected, what="the rest to be gone", timeout_s=180, last=left)

    def remove(self) -> None:
        """Whatever a step has left: its Applications first, since they bring everything back."""
        words = ("--ignore-not-found", "--timeout=120s")
        applications = ("applicationsets,applications", "--all", "--namespace=argocd")
        self.plane.kubectl("delete", *applications, *words, timeout_s=240)
        self.plane.kubectl("delete", *API_KINDS, *words)
        self.plane.kubectl("delete", "namespace", NAMESPACE, CHECK_NAMESPACE, *words, timeout_s=240)
