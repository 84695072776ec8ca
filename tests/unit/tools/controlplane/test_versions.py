"""The pinned versions, and how a program's own words are compared with them."""

from __future__ import annotations

import re

import pytest

from tools.controlplane.errors import ControlPlaneError
from tools.controlplane.programs.build import MODULES
from tools.controlplane.programs.versions import (
    CONTROL_PLANE_KUBERNETES,
    GO_MIN,
    GO_PACKAGE,
    KUBERNETES,
    KUBERNETES_MODULES,
    NODE_PROGRAMS,
    PROGRAMS,
    Program,
    control_plane_version,
    kubernetes_programs,
    program,
)

#: The programs that are built from a module.
BUILT = [one.name for one in PROGRAMS.values() if one.module]
#: Those of this control plane and of the other Kubernetes versions.
PINNED = {
    f"{one.name} {one.version}": one
    for one in (
        *map(program, BUILT),
        *(each for version in KUBERNETES_MODULES for each in kubernetes_programs(version)),
    )
}


@pytest.mark.parametrize(
    ("name", "output", "is_ours"),
    [
        pytest.param(
            "kube-apiserver", f"Kubernetes v{CONTROL_PLANE_KUBERNETES}\n", True, id="kubernetes"
        ),
        pytest.param(
            "kubectl", f"Client Version: v{CONTROL_PLANE_KUBERNETES}\n", True, id="kubectl"
        ),
        pytest.param("etcd", "etcd Version: 3.7.3\nGit SHA: abc\n", True, id="etcd"),
        pytest.param("kwok", "kwok version v0.8.0 go1.26.8 (linux/amd64)", True, id="kwok"),
        pytest.param("helm", "v4.3.1+g1234567", True, id="helm-with-commit"),
        pytest.param("kubectl", "Client Version: v1.32.4-dispatcher", False, id="another-minor"),
        pytest.param(
            "kubectl", f"Client Version: v{CONTROL_PLANE_KUBERNETES}-rc.1", False, id="candidate"
        ),
        pytest.param(
            "kubectl", f"Client Version: v{CONTROL_PLANE_KUBERNETES}1", False, id="longer-number"
        ),
        pytest.param("etcd", "etcd Version: 13.7.3", False, id="ends-like-ours"),
        pytest.param("helm", "", False, id="silent"),
        pytest.param("prometheus", "prometheus, version 2.42.0+ds (branch: x)", True, id="debian"),
        pytest.param("prometheus", "prometheus, version 3.5.0 (branch: x)", True, id="newer"),
        pytest.param("prometheus", "prometheus, version 2.33.5+ds (branch: x)", False, id="older"),
    ],
)
def test_a_version_is_ours_only_as_a_whole(name: str, output: str, is_ours: bool) -> None:
    """Neither a candidate nor a number that merely contains ours is our version."""
    assert program(name).is_version_of(output) is is_ours


@pytest.mark.parametrize("ours", PINNED.values(), ids=PINNED)
def test_a_module_pins_the_version_that_its_program_claims(ours: Program) -> None:
    """The version in the table is the version that is built, and go.sum pins its content."""
    folder = MODULES / ours.module
    required = re.findall(r"^require (\S+) v(\S+)$", (folder / "go.mod").read_text(), re.MULTILINE)

    assert [version for _, version in required] == [ours.version]
    root = required[0][0]
    assert ours.package == root or ours.package.startswith(f"{root}/")
    assert f"{root} v{ours.version} h1:" in (folder / "go.sum").read_text()


@pytest.mark.parametrize(("version", "module"), KUBERNETES_MODULES.items(), ids=KUBERNETES_MODULES)
def test_kubernetes_parts_are_all_of_one_release(version: str, module: str) -> None:
    """Each staging module that Kubernetes asks for as v0.0.0 is replaced by its release."""
    text = (MODULES / module / "go.mod").read_text()
    replaced = re.findall(r"^\t(k8s\.io/\S+) => (\S+) v(\S+)$", text, re.MULTILINE)

    assert len(replaced) > 20
    assert {each for _, _, each in replaced} == {version.replace("1.", "0.", 1)}
    assert all(name == target for name, target, _ in replaced)


@pytest.mark.parametrize("name", BUILT)
def test_required_go_of_a_program_is_that_of_its_module(name: str) -> None:
    """Neither more, since not every machine's Go is new, nor less; what we fetch is enough."""
    text = (MODULES / program(name).module / "go.mod").read_text()
    wanted = re.findall(r"^go (\d+)\.(\d+)", text, re.MULTILINE)[0]
    fetched = tuple(map(int, GO_PACKAGE.partition("==")[2].split(".")[:2]))

    assert max(tuple(map(int, wanted)), GO_MIN) == program(name).go_min
    assert fetched >= program(name).go_min


def test_a_program_is_named_by_the_variable_of_the_envtest_convention() -> None:
    """kube-apiserver is TEST_ASSET_KUBE_APISERVER."""
    assert program("kube-apiserver").variable == "TEST_ASSET_KUBE_APISERVER"


def test_an_unknown_program_is_an_error_that_lists_the_known_ones() -> None:
    """A typing mistake is answered with the names to choose from."""
    with pytest.raises(ControlPlaneError, match=r"kubeadm: not a known program.*kube-apiserver"):
        program("kubeadm")


def test_the_control_plane_has_the_newest_version_by_default() -> None:
    assert control_plane_version({}) == KUBERNETES == next(iter(KUBERNETES_MODULES))


def test_a_supported_version_is_selected_by_the_variable() -> None:
    assert control_plane_version({"KUBERNETES": "1.34.4"}) == "1.34.4"


def test_unsupported_version_is_an_error_with_the_supported_ones() -> None:
    with pytest.raises(ControlPlaneError, match=r"KUBERNETES=1\.30\.0: not one of 1\.37"):
        control_plane_version({"KUBERNETES": "1.30.0"})


def test_the_programs_of_a_node_always_have_the_newest_version() -> None:
    assert {
        program(name).version for name in NODE_PROGRAMS if program(name).module == "kubernetes"
    } == {KUBERNETES}
