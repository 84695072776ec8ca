"""The documents' commands are typed in their order on an API server where nothing was installed.

KWOK plays a node and no scheduler runs, so what needs a running container is named below, with
where it is seen instead.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.console_sessions import commands, steps
from tests.controlplane.conftest import _started
from tests.controlplane.terminal import Terminal
from tests.controlplane.workloads import Watcher, pod
from tests.leftovers import API_KINDS, everything, finalized_kinds
from tools.controlplane import ControlPlane, FakeNode, add_nodes, wait_until
from tools.product import ROOT

EXAMPLES = ROOT / "examples"
#: In the order in which a person would read them.
PAGES = (
    *("install", "verify", "security", "fakegpu", "mig-dynamic", "troubleshooting"),
    *("logs", "upgrade", "uninstall"),
)
STANDS_FOR = {"POD": "pending", "NAMESPACE": "gpu-scheduler-tests", "NODE": "some-node"}
#: Beginning of a command that is not typed here, and where it is seen.
NOT_HERE = {
    "helm test": "a pod has to run: tests/e2e",
    "kubectl logs": "a container has to have run: tests/e2e",
    "kubectl exec": "a container has to run: tests/e2e",
    "argocd/validate-applicationset.sh": "ArgoCD's API kinds: tests/e2e",
    "kubectl apply -f argocd/": "ArgoCD's API kinds: tests/e2e",
    "kubectl get applications": "ArgoCD's API kinds: tests/e2e",
    "helm install gpu-scheduler charts/gpu-scheduler -n gpu-scheduler-system --create-namespace -f "
    "charts/gpu-scheduler/ci/openshift-values.yaml": "in place of the first: tests/charts",
    "gpuctl verify": "a scheduler has to run: tests/controlplane/test_lab.py",
    "gpuctl report": "of what gpuctl verify measured: tests/controlplane/test_lab.py",
    "kubectl patch secret": "the keeper has to have filled it: tests/http/test_cert_rotator.py",
}
#: Commands whose exit status is an answer: here is no leader and the pod waits.
ANSWERS = {"gpuctl doctor": 2, "gpuctl why": 2}


@pytest.fixture(scope="module")
def cp(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ControlPlane]:
    """Nothing is installed here."""
    with _started(request, tmp_path_factory.mktemp("docs")) as plane:
        add_nodes(plane.client, [FakeNode(name=STANDS_FOR["NODE"])])
        yield plane


def typed(command: str) -> str:
    """The command with something real for each capital word."""
    words = command.replace("REGISTRY/", "registry.example.com/").split()
    return " ".join(
        word.rpartition("=")[0] + "=" + STANDS_FOR[word.rpartition("=")[2]]
        if word.rpartition("=")[2] in STANDS_FOR and "=" in word
        else STANDS_FOR.get(word, word)
        for word in words
    )


def test_documented_commands_work_in_order(
    cp: ControlPlane, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """From an empty cluster to an empty one."""
    terminal = Terminal(cp, tmp_path_factory.mktemp("terminal"))
    before = everything(cp)
    for page in PAGES:
        text = (ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8")
        if page == "troubleshooting":
            Watcher(cp, STANDS_FOR["NAMESPACE"]).create(pod(STANDS_FOR["POD"]))
        for command in commands(text):
            if command.startswith(tuple(NOT_HERE)):
                continue
            with finalized_kinds(cp):
                ended = terminal.type(typed(command))
            wanted = next((n for words, n in ANSWERS.items() if command.startswith(words)), 0)
            said = f"{page}: $ {typed(command)}\n{ended.stdout}{ended.stderr}"
            assert ended.returncode == wanted, said
    terminal.type("helm uninstall gpu-test -n gpu-scheduler-tests")
    terminal.type("helm uninstall gpu-operator -n gpu-operator")

    def left() -> list[str]:
        return sorted(everything(cp) - before - API_KINDS)

    wait_until(lambda: not left(), what="everything to be gone", last=left)


def test_every_page_with_commands_is_played_or_listed_as_an_exception() -> None:
    """Sessions with their answers are played elsewhere: the README's and those of the examples."""
    pages = {path.stem: commands(path.read_text()) for path in (ROOT / "docs").glob("*.md")}
    others = [*ROOT.glob("*.md"), *(ROOT / "charts").rglob("*.md"), *EXAMPLES.rglob("*.md")]

    assert {name for name, found in pages.items() if found} == set(PAGES)
    assert [path.name for path in others if commands(path.read_text())] == []
    sessions = {path for path in (ROOT / "docs").rglob("*.md") if steps(path.read_text())}
    assert sessions == set()
    said = [command for found in pages.values() for command in found]
    assert [words for words in NOT_HERE if not any(one.startswith(words) for one in said)] == []
