"""The newcomers of the delivery tests fail when a webhook delays or refuses them, and only then.

The shipped registration points to a port that drops every packet. Without its conditions the API
server calls that port for every pod.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

import pytest

from tests.controlplane.balancer import black_hole
from tests.controlplane.webhook_calls import WebhookCalls, webhook_calls
from tests.controlplane.workloads import Json, Watcher, pod
from tests.e2e.newcomers import Newcomers
from tools.controlplane import ApiError, ControlPlane, wait_until
from tools.controlplane.ports import LOOPBACK
from tools.product import NAMESPACE
from webhook.webhook_configuration import ENVIRONMENT_ENTRY, TIMEOUT_S, webhook_configuration

NAME = "test-newcomers"
REGISTRATIONS = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"


def registration(
    here: Watcher, cp: ControlPlane, port: int, policy: Literal["Ignore", "Fail"]
) -> Json:
    """The shipped registration, for one namespace."""
    body = webhook_configuration(
        ca_bundle=cp.ca_certificate.read_bytes(),
        scheduler_name="gpu-scheduler",
        own_namespace=NAMESPACE,
        url=f"https://{LOOPBACK}:{port}",
        failure_policy=policy,
    )
    for entry in body["webhooks"]:
        only = {"kubernetes.io/metadata.name": here.namespace}
        entry["namespaceSelector"] = {"matchLabels": only}
    return {**body, "metadata": {"name": NAME}}


def for_all_pods(body: Json) -> Json:
    """Without the conditions that exclude other schedulers' pods."""
    ours = body["webhooks"][0]
    return {**body, "webhooks": [{key: ours[key] for key in ours if key != "matchConditions"}]}


@contextmanager
def registered(here: Watcher, cp: ControlPlane, body: Json) -> Iterator[None]:
    """Register a webhook and wait until the API server calls it for a pod of our scheduler."""
    cp.client.create(REGISTRATIONS, body)
    try:
        numbers = itertools.count()
        wait_until(
            lambda: is_called(here, cp, f"ours-{next(numbers)}"), what="a call to the webhook"
        )
        yield
    finally:
        cp.client.delete(f"{REGISTRATIONS}/{NAME}")


def is_called(here: Watcher, cp: ControlPlane, name: str) -> bool:
    """Whether the API server calls the webhook for a new pod of our scheduler."""
    try:
        here.create(pod(name))
    except ApiError:
        return True  # with failure policy Fail
    return webhook_calls(cp, here.namespace, [name])[name].called != ()


@pytest.fixture
def here(cp: ControlPlane, namespace: str) -> Watcher:
    """A namespace without our product."""
    return Watcher(cp, namespace)


@pytest.fixture
def hole() -> Iterator[int]:
    """A port that drops every packet."""
    with black_hole() as port:
        yield port


@pytest.mark.parametrize("policy", ["Ignore", "Fail"])
def test_newcomers_pass_beside_a_webhook_that_drops_packets(
    here: Watcher, cp: ControlPlane, hole: int, policy: Literal["Ignore", "Fail"]
) -> None:
    body = registration(here, cp, hole, policy)
    with registered(here, cp, body), Newcomers(cp, here.namespace) as newcomers:
        newcomers.were_let_in()


def test_newcomers_fail_when_a_webhook_delays_them(
    here: Watcher, cp: ControlPlane, hole: int
) -> None:
    body = for_all_pods(registration(here, cp, hole, "Ignore"))
    with (
        registered(here, cp, body),
        Newcomers(cp, here.namespace) as newcomers,
        pytest.raises(AssertionError),
    ):
        newcomers.were_let_in()

    assert newcomers.refused == []
    seen = webhook_calls(cp, here.namespace, ["newcomer-0"])["newcomer-0"]
    assert seen == WebhookCalls((ENVIRONMENT_ENTRY,), (ENVIRONMENT_ENTRY,), seen.waited_s)
    assert seen.waited_s >= TIMEOUT_S


def test_newcomers_fail_when_a_webhook_refuses_them(
    here: Watcher, cp: ControlPlane, hole: int
) -> None:
    body = for_all_pods(registration(here, cp, hole, "Fail"))
    with (
        registered(here, cp, body),
        Newcomers(cp, here.namespace) as newcomers,
        pytest.raises(AssertionError),
    ):
        newcomers.were_let_in()

    assert ENVIRONMENT_ENTRY in newcomers.refused[0]
