"""A webhook that does not answer, in every possible way: other pods are not affected, ours
lose at most its time-out, and each of them ends on a node or with a reason to read.

The API server's own counter of admissions without a webhook's word proves that the fault was met.
"""

from __future__ import annotations

import datetime
import json
import logging
import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from scheduler.controllers.certificates.issuer import make_certificates
from scheduler.model import well_known
from tests.controlplane.balancer import Balancer, black_hole
from tests.controlplane.conftest import MakeNode
from tests.controlplane.webhook_calls import WebhookCalls, webhook_calls
from tests.controlplane.workloads import Json, Watcher, cuda, node_of, pod, why
from tools.controlplane import ControlPlane, wait_until
from tools.controlplane.ports import LOOPBACK
from tools.product import NAMESPACE, Product
from webhook.webhook_configuration import ENVIRONMENT_ENTRY, TIMEOUT_S, webhook_configuration

figures = logging.getLogger("figures")
MAP = {well_known.MAP: "0=worker:0\n1=worker:1\n2=worker:2\n"}
MIG = "nvidia.com/mig-1g.10gb"
FAILED_OPEN = re.compile(
    r"^apiserver_admission_webhook_fail_open_count"
    rf'{{name="{re.escape(ENVIRONMENT_ENTRY)}".*}} (\d+)$',
    re.M,
)


class Door(NamedTuple):
    """The address in the registration and its CA."""

    port: int
    authority: bytes


class Plant:
    """A healthy product: scheduler, webhook, and the Service through which it is reached."""

    def __init__(self, product: Product, service: Balancer) -> None:
        self.product = product
        self.service = service
        self.plane = product.plane

    @property
    def door(self) -> Door:
        """As it should be."""
        return Door(self.service.port, self.plane.ca_certificate.read_bytes())

    def register(self, door: Door) -> None:
        """Unchanged; the API server sees it with a delay."""
        body = webhook_configuration(
            ca_bundle=door.authority,
            scheduler_name="gpu-scheduler",
            own_namespace=NAMESPACE,
            url=f"https://{LOOPBACK}:{door.port}",
        )
        self.plane.kubectl("apply", "-f", "-", input=json.dumps(body))

    @contextmanager
    def healed(self) -> Iterator[None]:
        """After the block, however it ends, both programs are there and found by the API server."""
        try:
            yield
        finally:
            if not self.product.is_running("scheduler"):
                self.product.start_scheduler()
            if not self.product.is_running("webhook"):
                self.product.start_webhook()
            self.register(self.door)

    def serve(self, certificate: bytes, key: bytes) -> None:
        """Lay another pair before the webhook, and wait until it shows it."""
        folder = self.product.directory / "certs"
        before = self.product.log("webhook").count("certificate loaded")
        (folder / "tls.crt").write_bytes(certificate)
        (folder / "tls.key").write_bytes(key)
        wait_until(
            lambda: self.product.log("webhook").count("certificate loaded") > before,
            what="the webhook to take the pair over",
        )


@pytest.fixture(scope="module")
def plant(cp: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Plant]:
    """One product for this file; each test leaves it healthy."""
    config = {"webhook": {"recreateAfterS": 2}}
    product = Product(cp, tmp_path_factory.mktemp("product"), config=config)
    with closing(product), Balancer([product.webhook_port]) as service:
        product.start(webhook=False)
        product.start_webhook()
        yield Plant(product, service)


@contextmanager
def down(plant: Plant) -> Iterator[Door]:
    """The port is closed."""
    plant.product.stop("webhook")
    try:
        yield Door(plant.product.webhook_port, plant.door.authority)
    finally:
        plant.product.start_webhook()


@contextmanager
def expired(plant: Plant) -> Iterator[Door]:
    """It shows a certificate of yesterday."""
    then = datetime.datetime.now(datetime.UTC) - datetime.timedelta(days=2)
    old = make_certificates([], [LOOPBACK], 1, now=then)
    plant.serve(old.cert_pem, old.key_pem)
    try:
        yield Door(plant.service.port, old.ca_pem)
    finally:
        pair = plant.plane.serving_certificate("webhook")
        plant.serve(pair.certificate.read_bytes(), pair.key.read_bytes())


@contextmanager
def wrong_authority(plant: Plant) -> Iterator[Door]:
    """The registration trusts another CA, as after a restored backup."""
    now = datetime.datetime.now(datetime.UTC)
    yield Door(plant.service.port, make_certificates([], [LOOPBACK], 1, now=now).ca_pem)


@contextmanager
def speechless(plant: Plant) -> Iterator[Door]:
    """Packets are lost after connections were made; new ones are taken and get no answer either."""
    plant.service.swallows = True
    try:
        yield plant.door
    finally:
        plant.service.swallows = False


@contextmanager
def dropping(plant: Plant) -> Iterator[Door]:
    """Every packet is dropped."""
    with black_hole() as port:
        yield Door(port, plant.door.authority)


Fault = Callable[[Plant], AbstractContextManager[Door]]
FAULTS = [
    pytest.param(down, TIMEOUT_S, id="down"),
    pytest.param(expired, TIMEOUT_S, id="expired-certificate"),
    pytest.param(wrong_authority, TIMEOUT_S, id="wrong-authority"),
    pytest.param(speechless, 2 * TIMEOUT_S, id="connections-without-packets"),
    pytest.param(dropping, 2 * TIMEOUT_S, id="every-packet-dropped"),
]


def admitted_unseen(cp: ControlPlane) -> int:
    """How many pods the API server let pass because the webhook gave no answer."""
    return sum(map(int, FAILED_OPEN.findall(cp.kubectl("get", "--raw", "/metrics"))))


def wait_for_fault(here: Watcher, cp: ControlPlane) -> None:
    """Until the API server goes by the new registration, and meets what is wrong with it."""
    before = admitted_unseen(cp)

    def is_met() -> bool:
        here.client.create(f"{here.pods_path}?dryRun=All", pod("probe"))
        return admitted_unseen(cp) > before

    wait_until(is_met, what="the API server to meet the fault")


def created(here: Watcher, cp: ControlPlane, bodies: list[Json]) -> list[WebhookCalls]:
    """Create pods; the API server's calls of webhooks for each."""
    names = [here.create(body)["metadata"]["name"] for body in bodies]
    calls = webhook_calls(cp, here.namespace, names)
    figures.info("%s", calls)
    return [calls[name] for name in names]


def is_one_call_in_vain(calls: WebhookCalls, longest_s: float) -> bool:
    """Whether one call ended without an answer, in less than this time."""
    ours = (ENVIRONMENT_ENTRY,)
    return (calls.called, calls.unanswered) == (ours, ours) and calls.waited_s < longest_s


def unrelated() -> list[Json]:
    """Pods of other people: plain ones, one with a GPU, one with a slice."""
    other = "default-scheduler"
    return [
        pod("plain", scheduler=other),
        pod("gpu", scheduler=other, limits={"nvidia.com/gpu": "1"}),
        pod("slice", scheduler=other, limits={MIG: "1"}),
    ]


def ours(suffix: str) -> list[Json]:
    """A whole GPU, a slice and a map."""
    return [
        pod(f"whole{suffix}", limits={"nvidia.com/gpu": "1"}),
        pod(f"slice{suffix}", limits={MIG: "1"}),
        pod(f"map-{suffix}", annotations=MAP),
    ]


@pytest.fixture
def here(cp: ControlPlane, namespace: str, kwok_node: MakeNode) -> Watcher:
    """Room for what asks for GPUs, and a worker for maps."""
    kwok_node("gpus", gpus=4, mig={"1g.10gb": 4})
    kwok_node("worker")
    return Watcher(cp, namespace)


@pytest.mark.contract("S2-B3", "S2-B13")
@pytest.mark.parametrize(("fault", "longest_s"), FAULTS)
def test_unresponsive_webhook_delays_only_our_pods_by_its_timeout(
    here: Watcher, cp: ControlPlane, plant: Plant, fault: Fault, longest_s: float
) -> None:
    """Packed pods are placed, the mapped one says what is missing; once it is over all is well.

    A call that fails before the time-out takes less time than that, and one that does not takes
    less than two.
    """
    with plant.healed(), fault(plant) as door:
        plant.register(door)
        wait_for_fault(here, cp)
        others = created(here, cp, unrelated())
        mine = created(here, cp, ours("0"))
        here.wait_bound(2)
        told = here.wait_explained("map-0", "NotMutated: CUDA_VISIBLE_DEVICES is not set")
        assert "kubectl -n" in why(told), "what to run is said too"
    wait_until(lambda: is_seen(here), what="the webhook to be called again")
    here.create(pod("map-1", annotations=MAP))
    after = {each["metadata"]["name"]: each for each in here.wait_bound(3)}

    assert {*others} == {WebhookCalls()}
    assert all(is_one_call_in_vain(calls, longest_s) for calls in mine), mine
    assert (node_of(after["map-1"]), cuda(after["map-1"])) == ("worker", "1")


def is_seen(here: Watcher) -> bool:
    """Whether a mapped pod gets its environment."""
    probe = pod("probe-0", annotations=MAP)
    return cuda(here.client.create(f"{here.pods_path}?dryRun=All", probe)) == "0"


@pytest.mark.contract("S2-B12")
def test_pods_created_while_both_replicas_are_dead_are_placed_later(
    here: Watcher, cp: ControlPlane, plant: Plant, tmp_path: Path
) -> None:
    other = Product(cp, tmp_path / "other", config={"webhook": {"recreateAfterS": 2}})
    ports = [plant.product.webhook_port, other.webhook_port]
    with plant.healed(), closing(other), Balancer(ports) as service:
        other.start(webhook=False)
        other.start_webhook()
        plant.register(Door(service.port, plant.door.authority))
        wait_until(lambda: is_seen(here), what="the webhook to be called")
        for each in (plant.product, other):
            each.kill("webhook")
            each.kill("scheduler")
            each.free_lease()
        wait_for_fault(here, cp)
        others = created(here, cp, unrelated())
        mine = created(here, cp, ours("2"))
        assert not [each for each in here.pods() if node_of(each)]
        plant.product.start_scheduler()
        here.wait_bound(2)
        here.wait_explained("map-2", "NotMutated")
    assert {*others} == {WebhookCalls()}
    assert all(is_one_call_in_vain(calls, TIMEOUT_S) for calls in mine), mine
