"""The real API server that these tests run against, and small means to fill it.

One control plane serves a whole test session, with KWOK nodes and the real controllers but without
a kube-scheduler, so that nothing places pods behind a test's back. A test takes a namespace of its
own and nodes of its own, and both are gone afterwards.

Where a program is missing it is built before the first test, outside of any test's time limit. If
that is impossible every test here fails with the one line that says why; none is ever skipped.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterable, Iterator
from pathlib import Path
from typing import Any, Final
from weakref import WeakKeyDictionary

import pytest

from tests.built_programs import build_for, fail_if_missing
from tests.controlplane.file_order import sort_items
from tests.controlplane.product_fixtures import here, product
from tools.controlplane import (
    ApiError,
    Client,
    ControlPlane,
    ControlPlaneError,
    FakeNode,
    add_nodes,
    wait_until,
)
from tools.controlplane.commands import NODE_AUTHORIZATION
from tools.controlplane.control_plane import DEFAULT_COMPONENTS
from tools.product import MANIFESTS, ROOT

__all__ = ["here", "product"]

HERE: Final = Path(__file__).parent
#: A little longer than the API server works on one request.
CLEANUP_S: Final = 70.0
#: So many pods go sooner after their controllers, which would try to replace each of them.
MANY: Final = 50
CONTROLLERS: Final = (
    "apps/v1/namespaces/{}/deployments",
    "apps/v1/namespaces/{}/statefulsets",
    "batch/v1/namespaces/{}/jobs",
)
PROGRAMS: Final = (
    "etcd",
    "kube-apiserver",
    "kube-controller-manager",
    "kube-scheduler",
    "kubectl",
    "kwok",
    "helm",
    "helm3",
)

MakeNode = Callable[..., str]


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """For ``pytest --dist loadfile --no-loadscope-reorder``."""
    sort_items(HERE, items)


def pytest_collection_finish(session: pytest.Session) -> None:
    """Build what is missing."""
    build_for(session, HERE, PROGRAMS)


@pytest.fixture(scope="session")
def cp(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ControlPlane]:
    """The session's control plane; a kube-scheduler can be started by a test that wants one."""
    with _started(request, tmp_path_factory.mktemp("controlplane")) as plane:
        yield plane


@pytest.fixture(scope="module")
def rough(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ControlPlane]:
    """Another one, for tests that stop its programs, refuse Bindings and read all of its audit log.

    It ends with the file: an idle control plane takes processor time from the other tests. A file
    of such tests says so by a fixture ``cp`` of its own that returns this one.
    """
    with _started(request, tmp_path_factory.mktemp("rough")) as plane:
        files = [str(ROOT / "cluster" / name) for name in MANIFESTS]
        plane.kubectl("apply", *(word for file in files for word in ("-f", file)))
        yield plane


@pytest.fixture(scope="module")
def guarded(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ControlPlane]:
    """Another one, whose API server limits each node's identity to what is that node's own.

    A file of such tests says so by a fixture ``cp`` of its own that returns this one.
    """
    directory = tmp_path_factory.mktemp("guarded")
    with _started(request, directory, NODE_AUTHORIZATION) as plane:
        yield plane


@pytest.fixture(scope="module")
def untouched(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ControlPlane]:
    """One for each file, with a kube-scheduler for a release's own pods and nothing of ours.

    A file of such tests says so by a fixture ``cp`` of its own that returns this one.
    """
    components = DEFAULT_COMPONENTS | {"kube-scheduler"}
    directory = tmp_path_factory.mktemp("untouched")
    with _started(request, directory, components=components) as plane:
        yield plane


def _started(
    request: pytest.FixtureRequest,
    directory: Path,
    flags: Iterable[str] = (),
    components: Collection[str] = DEFAULT_COMPONENTS,
) -> ControlPlane:
    fail_if_missing(request, HERE)
    try:
        return ControlPlane.start(
            directory, components=components, audit=True, api_server_flags=flags
        )
    except ControlPlaneError as error:
        pytest.fail(str(error), pytrace=False)


@pytest.fixture
def client(cp: ControlPlane) -> Client:
    """A client that may do everything."""
    return cp.client


@pytest.fixture
def kwok_node(cp: ControlPlane) -> Iterator[MakeNode]:
    """A function that makes a fake node and returns its name once it is ready for pods.

    ``kwok_node("n1", gpus=4, mig={"1g.10gb": 28}, labels={...}, taints=[...])``; the other words
    are those of ``FakeNode``. Nodes are removed after the test.
    """
    names: list[str] = []

    def make(name: str, **looks: Any) -> str:
        names.append(name)
        add_nodes(cp.client, [FakeNode(name=name, **looks)])
        return name

    yield make
    for name in names:  # a test may have failed before one was made, or have deleted it
        cp.client.delete_if_there(f"/api/v1/nodes/{name}")
    gone = f"the nodes {', '.join(names)} to be gone"
    cp.client.wait_for(
        "/api/v1/nodes",
        lambda seen: not {node["metadata"]["name"] for node in seen["items"]}.intersection(names),
        what=gone,
    )


_numbers = itertools.count(1)
#: By control plane the namespace of the next test, whose ServiceAccount is there by then.
_next_namespace: WeakKeyDictionary[ControlPlane, str] = WeakKeyDictionary()


def _fresh_namespace(cp: ControlPlane) -> str:
    """A namespace with its default ServiceAccount; another one is created for the next test."""

    def create() -> str:
        name = f"test-{next(_numbers)}"
        cp.client.create("/api/v1/namespaces", {"metadata": {"name": name}})
        return name

    name = _next_namespace.pop(cp, "") or create()
    _next_namespace[cp] = create()
    cp.wait_for_service_account(name)
    return name


@pytest.fixture
def namespace(cp: ControlPlane, kwok_node: MakeNode) -> Iterator[str]:
    """A fresh namespace with its default ServiceAccount; deleted afterwards.

    It leans on ``kwok_node`` only so that pods go before their nodes: a pod whose node is gone has
    no kubelet any more to confirm its end.
    """
    assert kwok_node is not None, "nodes are removed after this fixture"
    name = _fresh_namespace(cp)
    yield name
    remove_namespace(cp, name)


def remove_namespace(cp: ControlPlane, name: str) -> None:
    """Delete a namespace, and wait until its pods are gone."""
    pods = f"/api/v1/namespaces/{name}/pods"
    if len(cp.client.get(pods)["items"]) > MANY:
        for kind in CONTROLLERS:
            path = f"/apis/{kind.format(name)}"
            cp.client.delete(path, {"propagationPolicy": "Background"})
    cp.client.delete(f"/api/v1/namespaces/{name}")
    # The namespace controller takes its time, and this test's pods shall hold no device in the next
    # test. Their controllers cannot replace them: a namespace that ends accepts nothing new.

    def are_gone() -> bool:
        try:
            cp.client.request("DELETE", pods, {"gracePeriodSeconds": 0}, timeout_s=CLEANUP_S)
        except ApiError:
            raise
        except ControlPlaneError:
            pass  # the API server deletes them one by one, and ends a request after a minute
        return not cp.client.get(pods)["items"]

    wait_until(are_gone, what=f"the pods of {name} to be gone", timeout_s=3 * CLEANUP_S)
