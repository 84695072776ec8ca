"""The lab's PriorityClasses, for every test of this folder."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from tests.controlplane.preemption_scene import lab_classes, still_node
from tools.controlplane import ControlPlane


@pytest.fixture(scope="module", autouse=True)
def _classes(cp: ControlPlane) -> Iterator[None]:
    """The lab's four PriorityClasses."""
    with lab_classes(cp):
        yield


@pytest.fixture
def still(cp: ControlPlane) -> Iterator[Callable[[str, int], None]]:
    """A function that makes nodes on which pods end when the test says so."""
    with ExitStack() as stack:
        yield lambda name, gpus: stack.enter_context(still_node(cp, name, gpus))
