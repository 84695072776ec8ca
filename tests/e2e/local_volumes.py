"""Local volumes of nodes, and the class whose claims wait for their first pod."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from tests.storage import class_json, volume_json
from tools.controlplane import ControlPlane

CLASSES: Final = "/apis/storage.k8s.io/v1/storageclasses"
VOLUMES: Final = "/api/v1/persistentvolumes"


class LocalVolume(NamedTuple):
    """A folder of one node."""

    name: str
    node: str
    path: Path
    storage: str = "1Gi"


@contextmanager
def local_volumes(
    cp: ControlPlane, class_name: str, volumes: Iterable[LocalVolume]
) -> Iterator[None]:
    """The class without a provisioner, and its volumes."""
    cp.client.create(CLASSES, {**class_json(class_name), "metadata": {"name": class_name}})
    names = []
    for one in volumes:
        body = volume_json(one.name, storage=one.storage, class_name=class_name, host=one.node)
        del body["spec"]["hostPath"]
        body["spec"]["local"] = {"path": str(one.path)}
        cp.client.create(VOLUMES, {**body, "metadata": {"name": one.name}})
        names.append(one.name)
    yield
    for name in names:
        cp.client.patch(f"{VOLUMES}/{name}", {"metadata": {"finalizers": None}})
        cp.client.delete_if_there(f"{VOLUMES}/{name}")
    cp.client.delete(f"{CLASSES}/{class_name}")
