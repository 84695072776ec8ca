"""How many files a process may open, from its start on."""

from __future__ import annotations

import resource
from collections.abc import Iterator

import pytest

from scheduler.httpserver.file_limit import raise_limit

HARD = resource.getrlimit(resource.RLIMIT_NOFILE)[1]


@pytest.fixture(autouse=True)
def _as_systemd_starts_services() -> Iterator[None]:
    """A soft limit of 1,024; what holds for this process comes back afterwards."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (1024, HARD))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


@pytest.mark.parametrize(
    ("wanted", "soft"),
    [
        pytest.param(2000, 2000, id="raised"),
        pytest.param(HARD + 1, HARD, id="no-further-than-the-hard-limit"),
        pytest.param(100, 1024, id="never-lowered"),
    ],
)
def test_the_soft_limit_is_raised(wanted: int, soft: int) -> None:
    assert raise_limit(wanted) == soft
    assert resource.getrlimit(resource.RLIMIT_NOFILE) == (soft, HARD)
