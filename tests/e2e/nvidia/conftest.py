"""NVIDIA's own device plugin and DRA driver on the real node: ``make e2e-nvidia NVIDIA=FOLDER``.

The GPUs are those of NVIDIA's mock NVML library. Everything else is real.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.e2e.containers import SHELL_IMAGE
from tests.e2e.nvidia.machine import Machine
from tests.e2e.nvidia.record import Recorder
from tests.e2e.nvidia.stack import Stack, missing
from tools.image import machine as image
from tools.realnode import RealNode

HERE: Final = Path(__file__).parent
_RECORDER: Final = Recorder(HERE)


def pytest_configure(config: pytest.Config) -> None:
    """Record a whole run of this folder."""
    config.pluginmanager.register(_RECORDER, "nvidia-recorder")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The tests of this folder are not those of ``make e2e``."""
    for item in items:
        if HERE in item.path.parents:
            item.add_marker("nvidia")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_finish(session: pytest.Session) -> None:
    """End before anything is built or started, with one line, if a program is missing."""
    if any(HERE in item.path.parents for item in session.items):
        problem = missing(_named())
        if problem is not None and not session.config.option.collectonly:
            pytest.exit(problem, returncode=1)


def _named() -> Path | None:
    name = os.environ.get("NVIDIA")
    return Path(name) if name else None


@pytest.fixture(scope="session")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """NVIDIA's programs, unpacked for this session."""
    source, target = _named(), tmp_path_factory.mktemp("nvidia")
    assert source is not None
    unpacked = Stack.unpack(source, target)
    _RECORDER.versions = unpacked.versions
    yield unpacked
    shutil.rmtree(target)


@pytest.fixture(scope="session")
def node(stack: Stack, node: RealNode) -> RealNode:
    """The session's node, whose image has an nvidia-smi."""
    files = image.shell() | image.libraries([stack.smi, stack.library])
    files["/usr/bin/nvidia-smi"] = stack.smi
    node.make_image(SHELL_IMAGE, files, entrypoint=("/bin/sh", "-c"))
    return node


@pytest.fixture(scope="module")
def machine(
    node: RealNode, stack: Stack, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Machine]:
    """The node with NVIDIA's driver; the programs of a module are ended with it."""
    made = Machine(node, stack, tmp_path_factory.mktemp("machine"))
    yield made
    made.stop()
