"""Fixtures of the webhook's tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.unit.webhook.serving import BUNDLE, write


@pytest.fixture
def folder() -> Iterator[Path]:
    """Certificate files, and room for a socket with a short path."""
    with TemporaryDirectory(prefix="hook") as name:
        write(Path(name), BUNDLE)
        yield Path(name)
