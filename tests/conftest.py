"""What holds for every test: the folder says what a test needs.

Tests below tests/controlplane get the marker ``controlplane``; so ``-m "not controlplane"`` is
always right, and nobody has to remember the marker.
"""

from __future__ import annotations

from pathlib import Path

import pytest

CONTROLPLANE = Path(__file__).parent / "controlplane"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if CONTROLPLANE in item.path.parents:
            item.add_marker("controlplane")
