"""Claims on GPUs, the pods that have them, and what is seen of both."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from tests.dra import with_claim
from tests.e2e.containers import Json, execute, shell_pod
from tools.controlplane import ControlPlane
from tools.realnode import RealNode

DRIVER: Final = "gpu.nvidia.com"
SLICES: Final = "/apis/resource.k8s.io/v1/resourceslices"


def devices(cp: ControlPlane, node: RealNode) -> list[Json]:
    """What the node publishes."""
    items = cp.client.get(SLICES)["items"]
    here = [one["spec"] for one in items if one["spec"]["nodeName"] == node.name]
    ours = [one for one in here if one["driver"] == DRIVER]
    return [device for one in ours for device in one.get("devices", ())]


def claiming(name: str, *, template: str = "", claim: str = "", **spec: Any) -> Json:
    """A pod with one claim: of a template, or one that is there."""
    return with_claim(shell_pod(name, **spec), template=template, claim=claim)


def uuids(cp: ControlPlane, namespace: str, name: str) -> list[str]:
    """The GPUs that nvidia-smi lists in a pod."""
    words = ("nvidia-smi", "--query-gpu=uuid", "--format=csv,noheader")
    return execute(cp, namespace, name, *words).split()


def uuid_of(device: Json) -> str:
    """The UUID of a published GPU."""
    return str(device["attributes"]["uuid"]["string"])


def environment(cp: ControlPlane, namespace: str, name: str) -> dict[str, str]:
    """The variables that a shell in a pod's container exports."""
    lines = execute(cp, namespace, name, "sh", "-c", "export -p").splitlines()
    pairs = (line.removeprefix("export ").partition("=") for line in lines)
    return {key: value.strip("'\"") for key, _, value in pairs}


def cdi_files(node: RealNode) -> list[Path]:
    """The files of claims on GPUs, in the runtime's folder."""
    files = (node.places.directory / "cdi").glob(f"k8s.{DRIVER}*.json")
    return [one for one in files if not one.name.endswith("_common.json")]
