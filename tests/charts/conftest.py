"""These tests render with helm; where there is none it is built before any test's clock runs."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from tools.controlplane import ControlPlaneError, ensure, missing

HERE = Path(__file__).parent
WHY_NOT = pytest.StashKey[str]()


def pytest_collection_finish(session: pytest.Session) -> None:
    """Build helm, in sight of the person who waits."""
    if session.config.option.collectonly or not any(
        HERE in item.path.parents for item in session.items
    ):
        return
    capture: Any = session.config.pluginmanager.getplugin("capturemanager")
    try:
        if missing(("helm",)):
            with capture.global_and_fixture_disabled():
                sys.stderr.write("\n")
                ensure(("helm",))
    except ControlPlaneError as error:
        session.config.stash[WHY_NOT] = str(error)


@pytest.fixture(autouse=True)
def helm_is_there(request: pytest.FixtureRequest) -> None:
    """Every test here fails with the one line that says why there is none."""
    why_not = request.config.stash.get(WHY_NOT, None)
    if why_not is not None:
        pytest.fail(why_not, pytrace=False)
