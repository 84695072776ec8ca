"""Pods of gpu-scheduler on the real kubelet, with GPUs of our DRA driver: nvidia-smi in the
container lists the GPUs that the scheduler chose.
"""

from __future__ import annotations

from functools import partial

from scheduler.model import well_known
from tests.controlplane.dra_objects import make
from tests.controlplane.workloads import Watcher, annotation, cuda
from tests.dra import claim_spec
from tests.e2e.agent import GPU
from tests.e2e.claims import claiming, devices, environment, uuid_of, uuids
from tests.e2e.containers import delete, one_gpu_pod, run, shell_pod, wait_for_phase
from tools.controlplane import ControlPlane
from tools.realnode import RealNode

MAP = "gpu-scheduling-map"
OURS = "gpu-scheduler"
#: A pod of gpu-scheduler with one claim.
claimer = partial(claiming, schedulerName=OURS)


def by_index(cp: ControlPlane, node: RealNode) -> list[str]:
    """The UUIDs of the node's GPUs; our driver names GPU n ``gpu-n``."""
    found = {str(one["name"]): uuid_of(one) for one in devices(cp, node)}
    return [found[f"gpu-{number}"] for number in range(len(found))]


def test_seed_claims_get_own_gpus_and_a_shared_claim_gets_one(
    cp: ControlPlane, plain: RealNode, here: Watcher
) -> None:
    """The template ``gpu-claim`` gives a pod a GPU of its own; two pods name one claim."""
    namespace = here.namespace
    make(cp.client, namespace, "resourceclaimtemplates", "gpu-claim", {"spec": claim_spec()})
    make(cp.client, namespace, "resourceclaims", "shared", claim_spec())

    here.create(claimer("gpu-pod", template="gpu-claim"))
    for name in ("with", "each-other"):
        here.create(claimer(name, claim="shared"))
    for name in ("gpu-pod", "with", "each-other"):
        wait_for_phase(cp, namespace, name, "Running")

    (alone,) = uuids(cp, namespace, "gpu-pod")
    (shared,) = uuids(cp, namespace, "with")
    assert uuids(cp, namespace, "each-other") == [shared]
    assert {alone, shared} < {*by_index(cp, plain)}
    assert alone != shared


def test_one_pod_spec_runs_on_a_dra_node(cp: ControlPlane, plain: RealNode, here: Watcher) -> None:
    """The spec of nodes with a device plugin (``test_index_assigned.py``), on one that advertises
    no GPU: each pod sees one of the three, and a freed one is used again.
    """
    status = cp.client.get(f"/api/v1/nodes/{plain.name}")["status"]
    assert not int(status["allocatable"].get(GPU, "0"))
    names = ["plain-0", "plain-1", "plain-2"]

    for name in names:
        run(cp, here.namespace, one_gpu_pod(name))
    held = [uuids(cp, here.namespace, name) for name in names]
    assert sorted(held) == sorted([one] for one in by_index(cp, plain))

    here.create(one_gpu_pod("next"))
    here.wait_explained("next", f"Insufficient {GPU}")
    delete(cp, here.namespace, "plain-1")
    wait_for_phase(cp, here.namespace, "next", "Running")
    assert uuids(cp, here.namespace, "next") == held[1]


def test_a_map_reaches_the_hardware_of_a_dra_node(
    cp: ControlPlane, plain: RealNode, here: Watcher
) -> None:
    """nvidia-smi lists exactly the GPUs of the line, for a pod without a request too; no variable
    is injected.
    """
    gpus = by_index(cp, plain)
    annotations = {MAP: f"0={plain.name}:2,0\n1={plain.name}:1"}

    bare = shell_pod("mapped-0", annotations=annotations, schedulerName=OURS)
    counted = shell_pod("mapped-1", limits={GPU: "1"}, annotations=annotations, schedulerName=OURS)
    seen = [run(cp, here.namespace, pod) for pod in (bare, counted)]

    given = [annotation(pod, well_known.DEVICES) for pod in seen]
    assert given == ["gpu:2,0; claim:gpu-2,gpu-0", "gpu:1; claim:gpu-1"]
    assert {*uuids(cp, here.namespace, "mapped-0")} == {gpus[2], gpus[0]}
    assert uuids(cp, here.namespace, "mapped-1") == [gpus[1]]
    for name, pod in zip(("mapped-0", "mapped-1"), seen, strict=True):
        assert cuda(pod) is None
        assert "CUDA_VISIBLE_DEVICES" not in environment(cp, here.namespace, name)
