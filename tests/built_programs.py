"""Programs that tests need are built before any test's clock runs, with visible progress.

A folder's conftest calls ``build_for`` when its tests are collected, and its fixtures
``fail_if_missing``: where building is impossible every test fails with the line that says why.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final

import pytest

from tools.controlplane import ControlPlaneError, ensure, missing
from tools.image.build import Built, ensure_images

#: By folder, since each needs other programs.
_WHY_NOT: Final = pytest.StashKey[dict[Path, str]]()


def build_for(
    session: pytest.Session, folder: Path, programs: Sequence[str], *, images: bool = False
) -> None:
    """Build what is missing, if any test of this folder is to run; ``images``: ours as well."""
    if session.config.option.collectonly or not any(
        folder in item.path.parents for item in session.items
    ):
        return
    capture: Any = session.config.pluginmanager.getplugin("capturemanager")
    try:
        if images or missing(programs):
            with capture.global_and_fixture_disabled():
                sys.stderr.write("\n")
                ensure(programs)
                if images:
                    our_images()
    except ControlPlaneError as error:
        session.config.stash.setdefault(_WHY_NOT, {})[folder] = str(error)


@cache
def our_images() -> Built:
    """The archive of both images; one for the session, because each search for it in the cache
    compiles the product."""
    return ensure_images()


def fail_if_missing(request: pytest.FixtureRequest, folder: Path) -> None:
    """Fail with the one line that says why a program could not be built."""
    why_not = request.config.stash.get(_WHY_NOT, {}).get(folder)
    if why_not is not None:
        pytest.fail(why_not, pytrace=False)
