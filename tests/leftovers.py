"""What a release of our charts could leave behind in a cluster."""

from __future__ import annotations

import http
import threading
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from tools.controlplane import ApiError, ControlPlane, ControlPlaneError, wait_until

REMIND_S: Final = 1.0
CRDS: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"

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


def wait_until_gone(cp: ControlPlane, left: Callable[[], Collection[str]]) -> None:
    """Wait until nothing is left, CustomResourceDefinitions among it."""

    def gone() -> bool:
        _remind(cp)
        return not left()

    wait_until(gone, what="everything to be gone", last=lambda: sorted(left()))


@contextmanager
def finalized_kinds(cp: ControlPlane) -> Iterator[None]:
    """The block deletes CustomResourceDefinitions and waits for their end by itself."""
    end = threading.Event()

    def run() -> None:
        while not end.wait(REMIND_S):
            with suppress(ControlPlaneError):  # the next time will do
                _remind(cp)

    thread = threading.Thread(target=run, name="finalizer")
    thread.start()
    try:
        yield
    finally:
        end.set()
        thread.join()


def _remind(cp: ControlPlane) -> None:
    """Change the kinds that are being deleted.

    The API server's finalizer of CustomResourceDefinitions gives up where the status changes at
    the same time, and continues at the next change that it counts (apiextensions-apiserver,
    pkg/controller/finalizer) or after minutes. A change of the annotations is one.
    """
    for crd in cp.client.get(CRDS)["items"]:
        if crd["metadata"].get("deletionTimestamp"):
            _change(cp, crd["metadata"]["name"], crd["metadata"]["resourceVersion"])


def delete_kinds(cp: ControlPlane, *files: Path) -> None:
    """Delete the objects of files, CustomResourceDefinitions among them, and wait for their end."""
    named = [word for file in files for word in ("-f", str(file))]
    cp.kubectl("delete", "--ignore-not-found", "--wait=false", *named)
    left = ("get", "--ignore-not-found", "-o", "name", *named)
    wait_until_gone(cp, lambda: cp.kubectl(*left).split())


def _change(cp: ControlPlane, crd: str, version: str) -> None:
    """A new value of an annotation, unless the object is gone."""
    try:
        cp.client.patch(f"{CRDS}/{crd}", {"metadata": {"annotations": {"last-seen": version}}})
    except ApiError as error:
        if error.status != http.HTTPStatus.NOT_FOUND:
            raise
