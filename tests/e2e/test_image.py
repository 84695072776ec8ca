"""The image that is made without a container engine: always the same, and complete."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.built_programs import our_images
from tests.e2e.containers import create, wait_for_phase
from tools.controlplane import ControlPlane
from tools.image.build import NAMES, ensure_images
from tools.image.layer import digest_of
from tools.realnode import RealNode

PROGRAMS = ("scheduler", "webhook", "gpucheck", "fakegpu")
#: Every program is loaded with all that it imports.
LOADED = f"""
import importlib, os, sys
for name in {PROGRAMS}:
    importlib.import_module(name + ".__main__")
print(sys.prefix, os.getuid(), len(os.listdir(sys.prefix + "/bin")))
"""


def test_image_digest_is_independent_of_the_builder(tmp_path: Path) -> None:
    """Made from nothing in another folder, archive and list of parts are the same bytes."""
    pip = subprocess.run(
        [sys.executable, "-m", "pip", "cache", "dir"], capture_output=True, text=True, check=True
    )
    elsewhere = {
        **os.environ,
        "XDG_CACHE_HOME": str(tmp_path),
        # What was downloaded once is not asked of the network again; it is checked by its hash.
        "PIP_CACHE_DIR": pip.stdout.strip(),
        "GOCACHE": os.environ.get("GOCACHE", str(Path.home() / ".cache" / "go-build")),
    }
    first = our_images()

    second = ensure_images(environ=elsewhere)

    assert first.archive != second.archive
    assert digest_of(first.archive) == digest_of(second.archive)
    assert first.sbom.read_bytes() == second.sbom.read_bytes()
    shutil.rmtree(tmp_path)


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
        "image": f"{name}:latest",
        "imagePullPolicy": "Never",
        "command": ["python", "-c", LOADED],
        "securityContext": {"readOnlyRootFilesystem": True, "runAsNonRoot": True},
    }
    spec = {"containers": [container], "restartPolicy": "Never"}
    create(cp, namespace, {"metadata": {"name": "loaded"}, "spec": spec})

    wait_for_phase(cp, namespace, "loaded", "Succeeded")

    assert cp.kubectl("logs", "-n", namespace, "loaded") == "/opt/gpu-scheduler 65532 3\n"
