"""Each folder of examples/ is what its README says: its commands are typed, its answers compared.

The product runs with its roles, the fake GPU operator beside it, on KWOK nodes; commands and nodes
are those of ``examples/README.md``. Where DRA has the GPUs it is as the chart's values for it say.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.charts.rendering import FAKE, config_file, objects, one
from tests.console_sessions import steps
from tests.controlplane.dra_objects import CLASSES, ROLES
from tests.controlplane.gpu_nodes import nvidia
from tests.controlplane.terminal import Terminal
from tools.controlplane import ControlPlane
from tools.controlplane.fake_nodes import is_ready
from tools.fake_operator import FakeOperator
from tools.product import ROOT, Product

EXAMPLES = ROOT / "examples"
FOLDERS = sorted(path.parent.name for path in EXAMPLES.glob("*/README.md"))
VALUES = EXAMPLES / "cluster/fake-gpu-values.yaml"
DRA_VALUES = EXAMPLES / "cluster/fake-gpu-dra-values.yaml"
#: Moves come at once here; the configuration's default waits a minute.
CONFIG = {"maps": {"allow": "labelled"}, "restore": {"minAgeS": 0, "cooldownS": 1}}
OFFERS = {
    "gpu-1": {"nvidia.com/gpu": "4"},
    "gpu-2": {"nvidia.com/gpu": "4"},
    "mig-1": {"nvidia.com/mig-2g.20gb": "1", "nvidia.com/mig-1g.10gb": "2"},
    "shared-1": {"nvidia.com/gpu.shared": "4"},
}


@pytest.fixture(scope="module")
def operator(cp: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[FakeOperator]:
    """The fake GPUs of the examples' values."""
    running = FakeOperator(cp, tmp_path_factory.mktemp("fakegpu"))
    running.install()
    running.configure(yaml.safe_load(VALUES.read_text())["topology"])
    with running:
        yield running


@pytest.fixture(scope="module")
def terminal(
    cp: ControlPlane, operator: FakeOperator, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Terminal]:
    """A terminal on the prepared cluster: product, fake GPUs, nodes, and the namespace."""
    assert operator.pid
    home = tmp_path_factory.mktemp("examples")
    typed = Terminal(cp, home / "terminal")
    with Product(cp, home / "product", config=CONFIG):
        try:
            for step in steps((EXAMPLES / "README.md").read_text()):
                typed.play(step)
            _wait_for_nodes(cp)
            cp.wait_for_service_account("gpu-examples")
            yield typed
        finally:
            # Pods before their nodes: without a kubelet their end is never confirmed.
            typed.type("kubectl delete namespace gpu-examples")
            typed.type("kubectl delete --ignore-not-found -f examples/cluster/nodes.yaml")


@pytest.fixture
def dra(
    cp: ControlPlane, operator: FakeOperator, terminal: Terminal, tmp_path: Path
) -> Iterator[Terminal]:
    """The same cluster after an upgrade of the fake GPUs' chart to DRA."""
    chart = objects(FAKE, "--values", VALUES, "--values", DRA_VALUES)
    config = yaml.safe_load(config_file(chart))
    pools = yaml.safe_load(one(chart, "ConfigMap", "topology")["data"]["topology.yml"])
    operator.stop()
    upgraded = FakeOperator(cp, tmp_path, config={"dra": config["dra"]})
    try:
        upgraded.install(ROLES, CLASSES)
        upgraded.configure(pools)
        with upgraded:
            yield terminal
    finally:
        # There only if the page was not played to its end.
        terminal.type("kubectl delete --ignore-not-found -f examples/cluster/dra-node.yaml")
        terminal.type(f"kubectl delete --ignore-not-found -f cluster/{CLASSES}")
        ours = "app.kubernetes.io/managed-by=fake-gpu-operator"
        terminal.type(f"kubectl delete resourceslices -l {ours}")
        operator.configure(yaml.safe_load(VALUES.read_text())["topology"])
        operator.start()
    _wait_for_nodes(cp)


def _wait_for_nodes(plane: ControlPlane) -> None:
    plane.client.wait_for(
        "/api/v1/nodes",
        lambda seen: (
            {
                node["metadata"]["name"]: nvidia(node["status"]["allocatable"])
                for node in seen["items"]
                if is_ready(node)
            }.items()
            >= OFFERS.items()
        ),
        what="the examples' nodes to show their fake GPUs",
    )


@pytest.mark.parametrize("folder", [name for name in FOLDERS if name != "dra"])
def test_example_prints_what_its_page_shows(
    folder: str, terminal: Terminal, cp: ControlPlane
) -> None:
    """And leaves nothing behind for the next one."""
    _play(folder, terminal, cp)


def test_claim_examples_print_what_their_page_shows(dra: Terminal, cp: ControlPlane) -> None:
    """With slices of the real API server."""
    _play("dra", dra, cp)


def _play(folder: str, terminal: Terminal, cp: ControlPlane) -> None:
    session = steps((EXAMPLES / folder / "README.md").read_text())
    assert session, "a page without a session shows nothing"

    try:
        for step in session:
            terminal.play(step)
    finally:
        # There only if the page was not played to its end; the next page needs the room.
        terminal.type(f"kubectl delete --ignore-not-found --wait=false -f examples/{folder}")

    pods = "/api/v1/namespaces/gpu-examples/pods"
    cp.client.wait_for(pods, lambda seen: not seen["items"], what=f"the pods of {folder} to go")


def test_every_example_is_linked_from_the_readme() -> None:
    told = (EXAMPLES / "README.md").read_text()
    folders = {path.name for path in EXAMPLES.iterdir() if path.is_dir()} - {"cluster"}

    assert set(FOLDERS) == folders
    assert [name for name in FOLDERS if f"]({name}/README.md)" not in told] == []
