"""A small external provisioner for a real API server.

It follows the protocol of ``sigs.k8s.io/sig-storage-lib-external-provisioner``: the PV controller
asks for it by an annotation of the claim, the scheduler selects the node by another one, and the
provisioner creates a volume that names the claim. Where it cannot provision for the node, it takes
the scheduler's annotation away, so that the pod is scheduled again.
"""

from __future__ import annotations

import threading
from http import HTTPStatus
from typing import Any, Final

from tests.storage import HOSTNAME, SELECTED
from tools.controlplane import ApiError, Client, wait_until

Json = dict[str, Any]

ASKED: Final = "volume.kubernetes.io/storage-provisioner"
PROVISIONED_BY: Final = "pv.kubernetes.io/provisioned-by"
ROUND_S: Final = 0.05
CLAIMS: Final = "/api/v1/persistentvolumeclaims"
VOLUMES: Final = "/api/v1/persistentvolumes"


class Provisioner:
    """Provisions while the block lasts.

    ``full`` are nodes for which it gives up; ``is_paused`` while it does nothing at all.
    ``selected`` are the nodes of its answers that the API server accepted, in their order. A claim
    stays open until the PV controller has bound it, so that a second answer may be refused.
    """

    def __init__(self, client: Client, name: str) -> None:
        self.name = name
        self.full: set[str] = set()
        self.is_paused = False
        self.selected: list[str] = []
        self.failure: BaseException | None = None
        self._client = client
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"provisioner {name}")

    def __enter__(self) -> Provisioner:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join()
        for one in self._client.get(VOLUMES)["items"]:
            if one["metadata"].get("annotations", {}).get(PROVISIONED_BY) == self.name:
                path = f"{VOLUMES}/{one['metadata']['name']}"
                self._client.patch(path, {"metadata": {"finalizers": None}})
                self._client.delete_if_there(path)
        assert self.failure is None, self.failure

    def wait_selected(self, count: int) -> None:
        """Wait until so many answers are noted: others may act on one before its thread goes on."""
        wait_until(lambda: len(self.selected) >= count, what=f"{count} answers")

    def _run(self) -> None:
        try:
            while not self._end.wait(ROUND_S):
                for one in [] if self.is_paused else self._client.get(CLAIMS)["items"]:
                    if self._is_mine(one):
                        self._answer(one)
        except BaseException as error:  # told to the test, which is in another thread
            self.failure = error
            raise

    def _is_mine(self, claim: Json) -> bool:
        annotations = claim["metadata"].get("annotations", {})
        is_open = not claim["spec"].get("volumeName") and SELECTED in annotations
        return is_open and annotations.get(ASKED) == self.name

    def _answer(self, claim: Json) -> None:
        meta = claim["metadata"]
        node = meta["annotations"][SELECTED]
        try:
            if node in self.full:
                path = (
                    f"/api/v1/namespaces/{meta['namespace']}/persistentvolumeclaims/{meta['name']}"
                )
                version = {"resourceVersion": meta["resourceVersion"]}
                self._client.patch(path, {"metadata": {"annotations": {SELECTED: None}, **version}})
            else:
                self._client.create(VOLUMES, self._volume(claim, node))
        except ApiError as error:  # the claim, or the volume, is there already or changed
            if error.status not in (HTTPStatus.CONFLICT, HTTPStatus.NOT_FOUND):
                raise
            return
        self.selected.append(node)

    def _volume(self, claim: Json, node: str) -> Json:
        meta, spec = claim["metadata"], claim["spec"]
        on_node = {"key": HOSTNAME, "operator": "In", "values": [node]}
        terms = [{"matchExpressions": [on_node]}]
        name = f"pvc-{meta['uid']}"
        return {
            "metadata": {"name": name, "annotations": {PROVISIONED_BY: self.name}},
            "spec": {
                "accessModes": spec["accessModes"],
                "capacity": spec["resources"]["requests"],
                "claimRef": {
                    "apiVersion": "v1",
                    "kind": "PersistentVolumeClaim",
                    **{key: meta[key] for key in ("namespace", "name", "uid")},
                },
                "csi": {"driver": self.name, "volumeHandle": name},
                "nodeAffinity": {"required": {"nodeSelectorTerms": terms}},
                "persistentVolumeReclaimPolicy": "Delete",
                "storageClassName": spec["storageClassName"],
            },
        }
