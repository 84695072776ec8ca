"""What a chaos run is played on: nodes, users, and two replicas behind one Service.

The watches of the first replica pass a proxy that can swallow them. The API server reaches the
webhooks through a balancer, and outsiders reach each of them directly.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from scheduler.model import well_known
from tests.controlplane import hostile
from tests.controlplane.balancer import Balancer
from tests.controlplane.proxy import Proxy
from tests.controlplane.replicas import Replicas
from tests.controlplane.tenants import Tenant, grant, kubelet
from tools.controlplane import Client, ControlPlane, FakeNode, add_nodes
from tools.controlplane.commands import NODE_AUTHORIZATION
from tools.product import ACCOUNT, MANIFESTS, ROOT, Product

PROGRAMS: Final = ("scheduler", "webhook")
#: Nodes whose kubelets are hostile; the others say what is true.
EVIL: Final = ("evil0", "evil1")
#: Nodes without an NVIDIA device plugin, on which maps alone give GPUs, with their devices.
MAPPED: Final = {"plain0": 12, "plain1": 12}
DYNAMIC: Final = "dynamic0"
#: What a node has of each profile, for the oracle. Hostile nodes may say anything.
CAPACITY: Final = {
    **{f"counted{n}": {"gpu": 8} for n in range(3)},
    "numbered0": {"gpu": 8},
    **{f"mig{n}": {"2g.20gb": 10, "1g.10gb": 14} for n in range(2)},
}
WATCH_SILENCE_S: Final = 6.0
CONFIG: Final = {
    "maps": {"allow": "labelled"},
    # So that moves look at hostile pods while these are there.
    "restore": {"minAgeS": 3, "cooldownS": 5, "rescueAfterS": 3},
    "watch": {"silenceMaxS": WATCH_SILENCE_S},
}
BINDER_ROLE: Final = {
    "metadata": {"name": "binder"},
    "rules": [{"apiGroups": [""], "resources": ["pods/binding"], "verbs": ["create"]}],
}


@dataclass(slots=True)
class Scene:
    """``alice`` is hostile; ``bob`` and ``carol`` are not, and carol's namespace may map."""

    plane: ControlPlane
    replicas: list[Product]
    proxy: Proxy
    alice: Tenant
    bob: Tenant
    carol: Tenant
    #: Of the hostile nodes, by name.
    kubelets: dict[str, Client]

    @property
    def namespaces(self) -> list[str]:
        """Every namespace with pods."""
        return [tenant.namespace for tenant in (self.alice, self.bob, self.carol)]


@contextmanager
def staged(directory: Path) -> Iterator[Scene]:
    """Everything runs, and ends with the block."""
    with ExitStack() as ends:
        plane = ends.enter_context(
            ControlPlane.start(directory / "plane", audit=True, api_server_flags=NODE_AUTHORIZATION)
        )
        for name in MANIFESTS:
            plane.kubectl("apply", "-f", str(ROOT / "cluster" / name))
        add_nodes(plane.client, nodes())
        proxy = ends.enter_context(Proxy(plane, directory / "proxy"))
        (directory / "replicas").mkdir()
        replicas = ends.enter_context(Replicas(plane, directory / "replicas"))
        one = replicas.make("one", config=CONFIG, scope="ours", kubeconfig=proxy.kubeconfig())
        straight = plane.kubeconfig_for(ACCOUNT)
        two = replicas.make("two", config=CONFIG, scope="ours", kubeconfig=straight)
        balancer = ends.enter_context(Balancer([one.webhook_port, two.webhook_port]))
        one.register(balancer.port)
        alice, bob, carol = users(plane)
        kubelets = {name: kubelet(plane, name) for name in EVIL}
        yield Scene(plane, [one, two], proxy, alice, bob, carol, kubelets)


def users(plane: ControlPlane) -> tuple[Tenant, Tenant, Tenant]:
    """Three users with ``edit``; the hostile one may bind too, as a team's own scheduler does."""
    plane.client.create("/apis/rbac.authorization.k8s.io/v1/clusterroles", BINDER_ROLE)
    alice = Tenant(plane, "alice", "tenant-a")
    grant(plane, "alice", alice.namespace, "binder")
    bob = Tenant(plane, "bob", "tenant-b")
    carol = Tenant(plane, "carol", "tenant-c", {well_known.MAPS_ALLOWED: "allowed"})
    return alice, bob, carol


def nodes() -> list[FakeNode]:
    """More of everything than the honest pods hold at any time."""
    with_gpu_indexes = {well_known.NUMBERED: "numbered"}
    return [
        *(FakeNode(name=f"counted{n}", gpus=8) for n in range(3)),
        FakeNode(name="numbered0", gpus=8, labels=with_gpu_indexes),
        *(FakeNode(name=f"mig{n}", mig={"2g.20gb": 10, "1g.10gb": 14}) for n in range(2)),
        *(FakeNode(name=name) for name in MAPPED),
        *(FakeNode(name=name, gpus=4) for name in EVIL),
        hostile.dynamic_mig_node(DYNAMIC),
    ]
