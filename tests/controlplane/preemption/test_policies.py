"""What the API server lets the scheduler's account delete: with preemption on, for all, and off."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest

from scheduler.model.timestamps import rfc3339
from tests.controlplane.conftest import MakeNode
from tests.controlplane.preemption_scene import GPU, disruption, names, wait_running
from tests.controlplane.tenants import said
from tests.controlplane.workloads import Json, Watcher, pod
from tools.controlplane import Client, ControlPlane, wait_until
from tools.product import ACCOUNT, Product

LEASE: Final = "/apis/coordination.k8s.io/v1/namespaces/gpu-scheduler-system/leases/gpu-scheduler"
STRATEGIC: Final = "application/strategic-merge-patch+json"


@contextmanager
def preempting(cp: ControlPlane, directory: Path, **settings: Any) -> Iterator[Product]:
    """A running product with these settings of ``preemption``, and its policies in force."""
    with Product(cp, directory, config={"preemption": settings}) as running:
        yield running


@pytest.fixture
def scene(cp: ControlPlane, namespace: str) -> Watcher:
    return Watcher(cp, namespace)


def term(client: Client) -> int:
    """The Lease's present term."""
    return int(client.get(LEASE)["spec"].get("leaseTransitions", 0))


def mark(account: Client, here: Watcher, name: str, text: str, **more: str) -> None:
    """Write the condition that a preemption begins with."""
    entry = {
        "type": "DisruptionTarget",
        "status": "True",
        "reason": "PreemptionByScheduler",
        "message": text,
        # Without a time, the disruption controller takes it for old and sets it to False.
        "lastTransitionTime": rfc3339(time.time()),
        **more,
    }
    account.patch(
        f"{here.path('Pod', name)}/status",
        {"status": {"conditions": [entry]}},
        content_type=STRATEGIC,
    )


def dry(here: Watcher, name: str) -> str:
    return here.path("Pod", name) + "?dryRun=All"


def wait_refused(account: Client, path: str, text: str) -> None:
    """The API server reads the Lease from a cache, which may lag behind a new term."""
    wait_until(lambda: text in said(lambda: account.delete(path)), what=f"the refusal: {text}")


def running(here: Watcher, name: str, node_name: str, scheduler: str = "gpu-scheduler") -> None:
    """A pod that has a node."""
    here.create(pod(name, limits={GPU: "1"}, scheduler=scheduler))
    if scheduler != "gpu-scheduler":
        here.bind(name, node_name, {})
    wait_running(here, name)


def test_only_the_leader_in_its_term_deletes_a_marked_pod(
    cp: ControlPlane, scene: Watcher, kwok_node: MakeNode, tmp_path: Path
) -> None:
    kwok_node("pol-own", gpus=2)
    with preempting(cp, tmp_path / "own", enabled=True):
        account = cp.client_for(ACCOUNT)
        running(scene, "ours", "pol-own")
        running(scene, "foreign", "pol-own", "another")
        now = term(cp.client)
        assert now >= 1, "a term to be older than"

        refused: list[tuple[Json, str]] = [
            ({"text": f"(term {now})", "reason": "EvictionByEvictionAPI"}, "PreemptionByScheduler"),
            ({"text": f"(term {now})", "status": "False"}, "PreemptionByScheduler"),
            ({"text": f"x (term {now - 1})"}, f"decided in term {now - 1}"),
            ({"text": "no term"}, "decided in term none"),
            ({"text": f"(term {now}) or so"}, "decided in term none"),
        ]
        wait_refused(account, dry(scene, "ours"), "DisruptionTarget")
        for fields, text in refused:
            mark(account, scene, "ours", fields.pop("text"), **fields)
            wait_refused(account, dry(scene, "ours"), text)
        mark(account, scene, "foreign", f"x (term {now})")
        assert "its own schedulerName" in said(lambda: account.delete(dry(scene, "foreign")))

        mark(account, scene, "ours", f"x (term {now})")
        account.delete(scene.path("Pod", "ours"))


def test_with_victims_all_pods_of_other_schedulers_are_preempted(
    cp: ControlPlane, scene: Watcher, kwok_node: MakeNode, tmp_path: Path
) -> None:
    kwok_node("pol-all", gpus=1)
    with preempting(cp, tmp_path / "all", victims="all"):
        running(scene, "foreign", "pol-all", "another")

        scene.create(pod("boss", limits={GPU: "1"}, priorityClassName="gpu-critical"))

        scene.wait_told("foreign", "Preempted")
        scene.wait(
            "the preemptor", lambda items: [i["metadata"]["name"] for i in items] == ["boss"]
        )
        scene.wait_bound(1)
        # Pending pods of other schedulers are none of its business all the same.
        scene.create(pod("pending", scheduler="another"))
        account = cp.client_for(ACCOUNT)
        assert "its own schedulerName" in said(lambda: account.delete(dry(scene, "pending")))


def test_without_preemption_no_pod_with_a_node_is_deleted(
    cp: ControlPlane, scene: Watcher, kwok_node: MakeNode, tmp_path: Path
) -> None:
    kwok_node("pol-off", gpus=1)
    with preempting(cp, tmp_path / "off", enabled=False):
        account = cp.client_for(ACCOUNT)
        running(scene, "low", "pol-off")

        scene.create(pod("boss", limits={GPU: "1"}, priorityClassName="gpu-critical"))

        seen = scene.wait_explained("boss", "Insufficient nvidia.com/gpu")
        assert "preemption" not in str(seen["status"]["conditions"])
        assert (names(scene), disruption(scene, "low")) == ({"low", "boss"}, {})
        mark(account, scene, "low", f"x (term {term(cp.client)})")
        wait_until(
            lambda: "only pods without a node" in said(lambda: account.delete(dry(scene, "low"))),
            what="the policy to be in force",
            last=lambda: said(lambda: account.delete(dry(scene, "low"))),
        )


def test_a_refused_deletion_is_told_and_tried_again(
    cp: ControlPlane, scene: Watcher, kwok_node: MakeNode, tmp_path: Path
) -> None:
    """A scheduler that may preempt, with the policy of one that may not."""
    kwok_node("pol-clash", gpus=1)
    directory = tmp_path / "clash"
    with preempting(cp, directory, enabled=True) as product:
        running(scene, "low", "pol-clash")
        manifest = product._manifest("fencing-policy.yaml")
        strict = manifest.replace("""expression: '"own"'""", """expression: '"off"'""")
        cp.kubectl("apply", "-f", "-", input=strict)
        account = cp.client_for(ACCOUNT)
        # Of an unmarked pod either policy may be the one that the API server names.
        mark(account, scene, "low", f"x (term {term(cp.client)})")
        wait_until(
            lambda: "only pods without a node" in said(lambda: account.delete(dry(scene, "low"))),
            what="the strict policy to be in force",
        )

        scene.create(pod("boss", limits={GPU: "1"}, priorityClassName="gpu-critical"))
        scene.wait_explained("boss", "preemption failed: deleting 1 of 1 victims")
        assert names(scene) == {"low", "boss"}

        cp.kubectl("apply", "-f", "-", input=manifest)
        scene.wait_told("low", "Preempted")
        scene.wait(
            "the preemptor", lambda items: [i["metadata"]["name"] for i in items] == ["boss"]
        )
