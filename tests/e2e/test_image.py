"""The image that is made without a container engine: always the same, and complete."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from tests.built_programs import our_images
from tests.e2e.containers import create, wait_for_phase
from tools.controlplane import ControlPlane
from tools.controlplane.programs.cache import Cache
from tools.controlplane.programs.progress import Progress
from tools.image import dockerfile, packages, sbom
from tools.image.build import NAMES, image
from tools.image.dockerfile import ROOT
from tools.image.layer import Layer, write_layer
from tools.image.oci import write_archive
from tools.realnode import RealNode
from tools.release import present

PROGRAMS = ("scheduler", "webhook", "gpucheck", "fakegpu")
#: Every program is loaded with all that it imports.
LOADED = f"""
import importlib, os, sys
for name in {PROGRAMS}:
    importlib.import_module(name + ".__main__")
print(sys.prefix, os.getuid(), len(os.listdir(sys.prefix + "/bin")))
"""


#: Two of the locked packages: one has compiled code, and one has a program.
SOME = re.compile(r"^(?:pyyaml|websocket-client)==(?:.*\\\n)*.*\n", re.MULTILINE)


class Builder:
    """Builds in a folder and with a cache of its own, from the wheels that pip downloaded once."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True)
        self.folder = folder
        pip = [sys.executable, "-m", "pip", "cache", "dir"]
        wheels = subprocess.run(pip, capture_output=True, text=True, check=True).stdout.strip()
        self._environ = {**os.environ, "XDG_CACHE_HOME": str(folder), "PIP_CACHE_DIR": wheels}
        self._how = (Cache.of(self._environ), self._environ, Progress())
        self._stages = dockerfile.read()

    def product(self) -> Layer:
        """The layer with our programs."""
        files = packages.product(self._stages["build"], self.folder / "product", *self._how)
        files = {**files, "/LICENSE": ROOT / "LICENSE"}
        return write_layer(self.folder / "product.tar", files)

    def archive(self, lock: Path) -> tuple[bytes, str]:
        """An image of the locked packages alone, and its SBOM."""
        installed = self.folder / "venv"
        packages.install(installed, *self._how, lock)
        layer = write_layer(self.folder / "packages.tar", packages.packages(installed))
        made = image("some:latest", self._stages[NAMES[0]], (layer,))
        written = write_archive(self.folder / "images.tar", [made])
        return written.read_bytes(), sbom.text(installed, made)


def test_image_is_independent_of_the_builder(tmp_path: Path) -> None:
    """Two packages stand for all: the steps are those of the whole image."""
    lock = tmp_path / "lock.txt"
    some = SOME.findall((ROOT / packages.LOCK).read_text(encoding="utf-8"))
    lock.write_text("".join(some), encoding="utf-8")
    assert len(some) == 2

    first, second = (Builder(tmp_path / name).archive(lock) for name in ("a", "b/elsewhere"))

    assert first == second


def test_layer_with_our_programs_is_independent_of_the_builder(tmp_path: Path) -> None:
    layer = Builder(tmp_path / "elsewhere").product()

    with tarfile.open(our_images().archive) as archive:
        assert f"blobs/sha256/{layer.digest}" in archive.getnames()


def test_sbom_names_every_locked_package() -> None:
    """Each with the hash by which it was checked, and a licence."""
    parts = json.loads(our_images().sbom.read_text())["components"]
    packages = [one for one in parts if one["type"] == "library"]

    assert {"aiohttp", "kubernetes", "cryptography", "grpcio"} <= {one["name"] for one in packages}
    assert all(len(one["hashes"][0]["content"]) == 64 for one in packages)
    assert [one["name"] for one in packages if not one["licenses"]] == []


@pytest.mark.contract("S2-23")
@pytest.mark.parametrize("name", NAMES)
def test_every_program_starts_as_the_user_that_it_names(
    cp: ControlPlane, with_image: RealNode, namespace: str, name: str
) -> None:
    """On a read-only root, as 65532, and beside Python there is nothing that could be started."""
    assert with_image is not None
    container = {
        "name": "main",
        "image": f"{name}:{present()}",
        "imagePullPolicy": "Never",
        "command": ["python", "-c", LOADED],
        "securityContext": {"readOnlyRootFilesystem": True, "runAsNonRoot": True},
    }
    spec = {"containers": [container], "restartPolicy": "Never"}
    create(cp, namespace, {"metadata": {"name": "loaded"}, "spec": spec})

    wait_for_phase(cp, namespace, "loaded", "Succeeded")

    assert cp.kubectl("logs", "-n", namespace, "loaded") == "/opt/gpu-scheduler 65532 3\n"
