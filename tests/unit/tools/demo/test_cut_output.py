"""A demo whose output is cut short (``make demo | head``) leaves nothing behind."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[4]


@pytest.mark.parametrize(
    "words",
    [
        pytest.param((), id="temporary-folder"),
        pytest.param(("--keep",), id="kept"),
        pytest.param(("--directory", "{0}/chosen"), id="chosen-folder"),
    ],
)
def test_demo_without_a_reader_leaves_no_folder(
    tmp_path_factory: pytest.TempPathFactory, words: tuple[str, ...]
) -> None:
    tmp_path = tmp_path_factory.mktemp("demo") / "state"
    tmp_path.mkdir()
    (tmp_path / "stays").mkdir()
    with subprocess.Popen(
        [sys.executable, "-m", "tools.demo", *(word.format(tmp_path) for word in words)],
        cwd=ROOT,
        env={**os.environ, "TMPDIR": str(tmp_path), "XDG_STATE_HOME": str(tmp_path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        errors = process.stderr.read()

    assert (process.returncode, errors) == (1, "")
    assert [path.name for path in tmp_path.iterdir()] == ["stays"]
