"""What holds for every test: the folder says what a test needs, and chance can be repeated.

Tests below tests/controlplane get the marker ``controlplane``; so ``-m "not controlplane"`` is
always right without setting the marker by hand. With the marker comes more time: real programs
are started in it, on machines that may be several times slower than ours.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import settings

from tools.controlplane.programs.versions import CONTROL_PLANE_KUBERNETES

CONTROLPLANE = Path(__file__).parent / "controlplane"
CONTROLPLANE_S = 600

# No deadline: on a shared machine a slow example is the neighbour's fault. A failure prints the
# line that repeats it. The quick run says the same of the same commit; the search for new examples
# is HYPOTHESIS_PROFILE=thorough, which is for a night, not for every change.
settings.register_profile(
    "quick", deadline=None, print_blob=True, max_examples=200, derandomize=True
)
settings.register_profile("thorough", deadline=None, print_blob=True, max_examples=5000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "quick"))


def _too_old(needed: str, reason: str) -> pytest.MarkDecorator:
    """A skip mark that never skips with the newest version, which every test run has by default."""
    version = tuple(map(int, CONTROL_PLANE_KUBERNETES.split(".")[:2]))
    return pytest.mark.skipif(  # with an older Kubernetes only
        version < tuple(map(int, needed.split("."))),
        reason=f"Kubernetes {needed}, not {CONTROL_PLANE_KUBERNETES}: {reason}",
    )


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        for mark in item.iter_markers("kubernetes"):
            item.add_marker(_too_old(*mark.args))
        if CONTROLPLANE in item.path.parents:
            item.add_marker("controlplane")
            # At the end: what a test says for itself comes first.
            item.add_marker(pytest.mark.timeout(CONTROLPLANE_S), append=True)
