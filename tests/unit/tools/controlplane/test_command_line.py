"""The command line's answers that need no control plane."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.controlplane.__main__ import main


@pytest.fixture(autouse=True)
def _own_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No test sees the machine's own programs or clusters."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.delenv("KUBEBUILDER_ASSETS", raising=False)


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        pytest.param(["path", "kubeadm"], "kubeadm: not a known program", id="path-unknown"),
        pytest.param(["path", "etcd"], "etcd: not on this machine; run: ", id="path-absent"),
        pytest.param(["build", "--only", "etc"], "etc: not a known program", id="build-unknown"),
        pytest.param(["down", "--name", "../x"], "--name ../x: use small letters", id="name"),
    ],
)
def test_a_mistake_is_one_line_and_status_1(
    capsys: pytest.CaptureFixture[str], words: list[str], complaint: str
) -> None:
    """Where it is wrong and what to do, never a traceback."""
    assert main(words) == 1

    shown = capsys.readouterr()
    assert shown.err.startswith(f"controlplane: {complaint}")
    assert shown.err.count("\n") == 1
    assert shown.out == ""


def test_the_programs_places_are_for_other_programs_to_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With a name it is the path alone, fit for a shell's $(...)."""
    place = tmp_path / "cache" / "gpu-scheduler" / "controlplane" / "3.7.3" / "etcd"
    place.parent.mkdir(parents=True)
    place.write_text("")
    place.chmod(0o755)

    assert main(["path", "etcd"]) == 0
    assert capsys.readouterr().out == f"{place}\n"
    assert main(["build", "--only", "etcd"]) == 0
    assert capsys.readouterr().out == f"etcd\t{place}\n"


def test_ending_what_does_not_run_is_no_failure(capsys: pytest.CaptureFixture[str]) -> None:
    """Down is the same however often it is called; status says no."""
    assert main(["down", "--name", "absent"]) == 0
    assert "there is none of that name" in capsys.readouterr().err
    assert main(["status", "--name", "absent"]) == 1
    assert capsys.readouterr().out == "not running\n"
