"""The command lines, as data."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tools.controlplane.commands import START_ORDER, command, health_url
from tools.controlplane.control_plane import DEFAULT_COMPONENTS, wanted_programs
from tools.controlplane.errors import ControlPlaneError
from tools.controlplane.layout import Layout, Options, Ports, read_state, write_state

LAYOUT = Layout(Path("/here"), Ports(1, 2, 3, 4, 5, 6))
ADDRESS = re.compile(r"\b\d+\.\d+\.\d+\.\d+\b(?!/)")


@pytest.mark.parametrize("name", START_ORDER)
def test_every_program_listens_on_the_loopback_interface_only(name: str) -> None:
    """No address but 127.0.0.1 is listened on; KWOK's node address is only a text in a status."""
    words = command(name, Path("/bin") / name, LAYOUT, Options())
    listening = [word for word in words if not word.startswith("--node-ip=")]

    assert {each for word in listening for each in ADDRESS.findall(word)} <= {"127.0.0.1"}
    assert "127.0.0.1" in health_url(name, LAYOUT)
    assert any("127.0.0.1" in word for word in listening)


@pytest.mark.parametrize("name", START_ORDER)
def test_every_program_names_its_folder(name: str) -> None:
    """It is by the folder that a process is known to be ours."""
    assert "/here" in " ".join(command(name, Path("/bin") / name, LAYOUT, Options()))


def test_the_callers_flags_have_the_last_word() -> None:
    """Later flags win in every one of the programs."""
    options = Options(
        api_server_flags=("--v=4",),
        flags={"kube-apiserver": ("--v=5",)},
        disable_admission=("A", "B"),
        audit=True,
    )
    words = command("kube-apiserver", Path("/bin/x"), LAYOUT, options)

    assert words[-2:] == ["--v=4", "--v=5"]
    assert "--disable-admission-plugins=A,B" in words
    assert "--audit-log-path=/here/audit.log" in words
    assert "--v=5" not in command("etcd", Path("/bin/etcd"), LAYOUT, options)


def test_roles_are_really_asked_for() -> None:
    """RBAC is the only authorizer."""
    assert "--authorization-mode=RBAC" in command("kube-apiserver", Path("/x"), LAYOUT, Options())


@pytest.mark.parametrize(
    ("address", "is_published"),
    [
        pytest.param("127.0.0.1", False, id="loopback"),
        pytest.param("10.244.0.1", True, id="an-address-that-pods-reach"),
    ],
)
def test_pods_find_an_api_server_that_they_can_reach(address: str, is_published: bool) -> None:
    """It listens on the given address, and publishes it unless it is a loopback address."""
    layout = Layout(LAYOUT.directory, LAYOUT.ports, address)
    words = command("kube-apiserver", Path("/x"), layout, Options(address=address))

    assert f"--bind-address={address}" in words
    assert ("--endpoint-reconciler-type=none" not in words) is is_published
    assert layout.api_url == f"https://{address}:3"


def test_etcd_and_the_api_server_are_always_there() -> None:
    """etcd and the API server are always included, in start order."""
    assert wanted_programs([], kwok=False) == ("etcd", "kube-apiserver")
    assert wanted_programs(DEFAULT_COMPONENTS, kwok=True) == (
        "etcd",
        "kube-apiserver",
        "kube-controller-manager",
        "kwok",
    )
    with pytest.raises(ControlPlaneError, match="kubelet: not a program of the control plane"):
        wanted_programs(["kubelet"], kwok=True)


def test_what_is_written_down_is_what_is_read(tmp_path: Path) -> None:
    """Another process sees the same ports, flags and process ids."""
    layout = Layout(tmp_path, LAYOUT.ports, "10.244.0.1")
    options = Options(address=layout.address, flags={"kwok": ("--v=1",)}, disable_admission=("A",))
    write_state(layout, options, {"etcd": 7})
    seen, seen_options, pids = read_state(tmp_path)

    assert (seen, pids) == (layout, {"etcd": 7})
    for name in START_ORDER:
        expected = command(name, Path("/x"), layout, options)
        assert command(name, Path("/x"), seen, seen_options) == expected


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        pytest.param(None, "no control plane was started here", id="none"),
        pytest.param("{", "state.json: not readable", id="broken"),
        pytest.param("{}", "state.json: not readable", id="incomplete"),
    ],
)
def test_a_folder_without_a_control_plane_says_so(
    tmp_path: Path, content: str | None, complaint: str
) -> None:
    """One line instead of a traceback."""
    if content is not None:
        (tmp_path / "state.json").write_text(content)
    with pytest.raises(ControlPlaneError, match=complaint):
        read_state(tmp_path)
