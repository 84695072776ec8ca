"""What is imported before the watches start, and never at a start."""

from __future__ import annotations

import os
import ssl
import subprocess
import sys
from pathlib import Path

import pytest

from scheduler.__main__ import AUTHORITIES, without_authorities

ROOT = Path(__file__).resolve().parents[2]
#: The watches start without these; a thread imports them meanwhile.
LATER = ("scheduler.app", "scheduler.decide", "scheduler.loop", "scheduler.plugins")
#: Slow imports that no start needs: exec plugins and developers' tracebacks.
NEVER = ("kubernetes", "rich", "cryptography")


@pytest.mark.parametrize(
    ("module", "excluded"),
    [
        pytest.param("scheduler.start", (*LATER, *NEVER, "prometheus_client"), id="watches"),
        pytest.param("scheduler.app", NEVER, id="program"),
    ],
)
def test_start_does_not_import_what_it_does_not_need(
    module: str, excluded: tuple[str, ...]
) -> None:
    code = (
        f"import sys, scheduler.__main__, {module};"
        f"print([name for name in {excluded!r} if sys.modules.get(name)])"
    )

    done = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True, cwd=ROOT
    )

    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("before", [None, "/a/file"])
def test_system_authorities_are_left_out_of_the_imports_only(
    monkeypatch: pytest.MonkeyPatch, before: str | None
) -> None:
    monkeypatch.delenv("SSL_CERT_DIR", raising=False)
    monkeypatch.delenv(AUTHORITIES, raising=False)
    if before is not None:
        monkeypatch.setenv(AUTHORITIES, before)

    with without_authorities():
        assert ssl.create_default_context().cert_store_stats()["x509"] == 0

    assert os.environ.get(AUTHORITIES) == before
