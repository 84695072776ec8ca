"""These tests render with both helms; what is missing is built before any test's clock runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.built_programs import build_for, fail_if_missing
from tools.charts.helm import HELMS

HERE = Path(__file__).parent


def pytest_collection_finish(session: pytest.Session) -> None:
    """Build them."""
    build_for(session, HERE, HELMS)


@pytest.fixture(autouse=True)
def helm_is_there(request: pytest.FixtureRequest) -> None:
    """Every test here fails with the one line that has the reason."""
    fail_if_missing(request, HERE)
