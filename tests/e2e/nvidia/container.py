"""The GPUs that a container sees, by its nvidia-smi and by its device files."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

import yaml

from tests.e2e.containers import execute
from tests.e2e.nvidia.driver import Driver
from tools.controlplane import ControlPlane

#: Where NVIDIA's programs put the driver's libraries in a container.
LIBRARIES: Final = "/usr/lib64"
_GPU: Final = re.compile(r"^GPU \d+: .* \(UUID: (\S+)\)", re.MULTILINE)
_FILE: Final = re.compile(r"^/dev/nvidia\d+$", re.MULTILINE)
_CAPABILITY: Final = re.compile(r"^/dev/nvidia-caps/nvidia-cap(\d+)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Seen:
    """What is in one container.

    ``instances`` are the MIG instances that its device files of capabilities give access to:
    ``gpu0/gi1``.
    """

    uuids: tuple[str, ...]
    files: tuple[str, ...]
    instances: frozenset[str]


def seen_in(cp: ControlPlane, driver: Driver, namespace: str, pod: str) -> Seen:
    """Run nvidia-smi in a pod.

    The library asks the mock's boards where a real one asks the kernel module, so they are copied
    into the container first. It lists board n if there is a ``/dev/nvidia<n>``, and a real one the
    GPU with this minor, so in the copy both are equal.
    """
    document = yaml.safe_load(driver.boards.read_text())
    for board in document["devices"]:
        board["index"] = board["minor_number"]
    copy = ("exec", "-i", "-n", namespace, pod, "--", "sh", "-c", "cat > /tmp/boards.yaml")
    cp.kubectl(*copy, input=yaml.safe_dump(document))
    path = f"{LIBRARIES}:{driver.libraries}"
    words = f"LD_LIBRARY_PATH={path} MOCK_NVML_CONFIG=/tmp/boards.yaml nvidia-smi 2>&1 || true"
    text = execute(cp, namespace, pod, "sh", "-c", words)
    files = execute(cp, namespace, pod, "sh", "-c", "ls -d /dev/nvidia* /dev/nvidia-caps/*; true")
    capabilities = {driver.capability(int(number)) for number in _CAPABILITY.findall(files)}
    return Seen(
        uuids=tuple(_GPU.findall(text)),
        files=tuple(_FILE.findall(files)),
        instances=frozenset(one.removesuffix("/ci0") for one in capabilities),
    )
