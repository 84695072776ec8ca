"""One real node on a real control plane: a kubelet that refuses, starts, restarts and tells.

It needs root (containers, mounts, cgroups). Without it each test fails with the one line that says
so; none is ever skipped. One node serves a whole test session; nothing of it is left behind.

A delivery is a story: tests of one module that go on where the one before has ended, each of them
a ``step``, while ``newcomers`` are let in.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.built_programs import build_for, fail_if_missing, our_images
from tests.controlplane.product_fixtures import here, product
from tests.e2e.agent import DEVICES, FAILURES, POOL, POOLS, Agent, wait_allocatable
from tests.e2e.containers import SHELL_IMAGE
from tests.e2e.delivered import LOGICAL_NODE
from tests.e2e.newcomers import Newcomers
from tools.controlplane import ControlPlane
from tools.controlplane.programs.versions import NODE_PROGRAMS
from tools.fake_operator import FakeOperator
from tools.image import machine
from tools.product import ROOT, Product
from tools.realnode import RealNode, api_server_flags, bridge, why_not

__all__ = ["here", "product"]

HERE: Final = Path(__file__).parent
TEST_S: Final = 600
COMPONENTS: Final = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler")
PROGRAMS: Final = (*COMPONENTS, "kubectl", "kwok", "helm", "argocd", *NODE_PROGRAMS)
Pool = Callable[[str], None]


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """All tests of this folder need a real node; those of an installation, one that had none.

    So the tests of DRA run behind them, as their names would have it in this folder.
    """
    items.sort(key=lambda item: item.path.as_posix().replace("/e2e/dra/", "/e2e/test_dra/"))
    for item in items:
        if HERE in item.path.parents:
            item.add_marker("e2e")
            item.add_marker(pytest.mark.timeout(TEST_S))


def pytest_collection_finish(session: pytest.Session) -> None:
    """Build what is missing, the images too, where a node can run at all: no test's clock runs."""
    if why_not() is None:
        build_for(session, HERE, PROGRAMS, images=True)


@pytest.fixture(scope="session")
def cp(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ControlPlane]:
    """The session's control plane, ready for a real node; kube-scheduler places plain pods."""
    problem = why_not()
    if problem is not None:
        pytest.fail(problem, pytrace=False)
    fail_if_missing(request, HERE)
    directory = tmp_path_factory.mktemp("plane")
    flags = api_server_flags(directory)
    with (
        bridge() as address,
        ControlPlane.start(
            directory,
            components=COMPONENTS,
            address=address,
            api_server_flags=flags,
            audit=True,
        ) as plane,
    ):
        yield plane


@pytest.fixture(scope="session")
def node(cp: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealNode]:
    """The session's node, with an image that holds a shell."""
    with RealNode.start(cp, tmp_path_factory.mktemp("node")) as real:
        real.make_image(SHELL_IMAGE, machine.shell(), entrypoint=("/bin/sh", "-c"))
        yield real


@pytest.fixture(scope="session")
def with_image(node: RealNode) -> RealNode:
    """The session's node with our images; they are imported once and stay."""
    node.load(our_images().archive)
    return node


_numbers = itertools.count(1)


@contextlib.contextmanager
def fresh_namespace(cp: ControlPlane) -> Iterator[str]:
    """A new namespace; its pods are deleted at the end."""
    name = f"test-{next(_numbers)}"
    cp.client.create("/api/v1/namespaces", {"metadata": {"name": name}})
    cp.wait_for_service_account(name)
    yield name
    pods = f"/api/v1/namespaces/{name}/pods"
    cp.client.delete(f"/api/v1/namespaces/{name}")
    cp.client.delete(f"{pods}?gracePeriodSeconds=1")
    cp.client.wait_for(pods, lambda seen: not seen["items"], what=f"the pods of {name} to be gone")


@pytest.fixture
def namespace(cp: ControlPlane) -> Iterator[str]:
    """A fresh namespace for one test."""
    with fresh_namespace(cp) as name:
        yield name


@pytest.fixture(scope="module")
def newcomers(cp: ControlPlane, with_image: RealNode) -> Iterator[Newcomers]:
    """They come all through a story, to a cluster whose node has our image, and the name by which
    the check's map calls it."""
    path = f"/api/v1/nodes/{with_image.name}"
    cp.client.patch(path, {"metadata": {"labels": {"gpu-node-name": LOGICAL_NODE}}})
    with fresh_namespace(cp) as name, Newcomers(cp, name) as coming:
        yield coming
    cp.client.patch(path, {"metadata": {"labels": {"gpu-node-name": None}}})


@pytest.fixture(scope="module")
def failed_before(request: pytest.FixtureRequest) -> int:
    """How many tests had failed when the story began."""
    return request.session.testsfailed


@pytest.fixture
def step(
    request: pytest.FixtureRequest, failed_before: int, newcomers: Newcomers
) -> Iterator[None]:
    """One of a story, at whose end each newcomer was let in; after one that has failed the story
    is not told on."""
    if request.session.testsfailed > failed_before:
        pytest.fail("an earlier step of this story has failed", pytrace=False)
    yield
    newcomers.were_let_in()


@pytest.fixture(scope="module")
def operator(cp: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[FakeOperator]:
    """The operator's controller as a program; nothing of it is left for the next module."""
    running = FakeOperator(cp, tmp_path_factory.mktemp("operator"))
    try:
        running.install()
        running.configure(POOLS)
        with running:
            yield running
    finally:
        for roles in sorted((ROOT / "cluster").glob("fakegpu*-rbac.yaml")):
            cp.kubectl("delete", "--ignore-not-found", "-f", str(roles))


@pytest.fixture(scope="module")
def agent_kind() -> type[Agent]:
    """The agent that a module wants; one with another has a fixture of this name."""
    return Agent


@pytest.fixture(scope="module")
def agent(
    cp: ControlPlane,
    node: RealNode,
    operator: FakeOperator,
    agent_kind: type[Agent],
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Agent]:
    assert operator.pid
    running = agent_kind(cp, node, tmp_path_factory.mktemp("agent"))
    running.install()
    with running:
        yield running


@pytest.fixture
def pool(cp: ControlPlane, node: RealNode, agent: Agent) -> Pool:
    """Puts the node into a pool."""
    assert agent.port

    def put(name: str) -> None:
        meta = {"labels": {POOL: name}, "annotations": {FAILURES: None}}
        cp.client.patch(f"/api/v1/nodes/{node.name}", {"metadata": meta})

    return put


@pytest.fixture
def eight(cp: ControlPlane, node: RealNode, product: Product, pool: Pool) -> RealNode:
    """The index-assigned node with eight GPUs."""
    assert product.is_running("scheduler")
    pool("eight")
    wait_allocatable(cp, node, gpu=8)
    cp.client.wait_for(
        f"/api/v1/nodes/{node.name}",
        lambda seen: seen["metadata"]["labels"].get(DEVICES) == "numbered",
        what="the node to be numbered",
    )
    return node
