"""GPU memory goes to the container that its author meant, on the real API server.

Another mutation puts a sidecar first: before our webhook is asked, or after it (the API server
then asks it again, because its reinvocationPolicy is IfNeeded).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from scheduler.model import well_known
from tests.controlplane.conftest import MakeNode
from tests.controlplane.workloads import Json, Watcher, annotation, controlled
from tools.controlplane import ApiError, ControlPlane, wait_until
from tools.product import Product

pytestmark = pytest.mark.kubernetes("1.36", "MutatingAdmissionPolicy is not v1 before")

CASE = Path(__file__).parents[1] / "cases" / "08b-live-sidecar-policy.yaml"
POLICIES = "/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicies"
BINDINGS = "/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicybindings"
SIDECAR = "gke-gcsfuse-sidecar"
LABELS = {
    "nvidia.com/mig.strategy": "mixed",
    "nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB",
}
#: True only once our webhook has given the pod its device.
IS_GIVEN = f"object.metadata.annotations[?'{well_known.MEMORY_GIVEN}'].orValue('') != ''"
IS_TO_COME = f"!object.spec.containers.exists(one, one.name == '{SIDECAR}')"


@pytest.fixture
def here(
    cp: ControlPlane, product: Product, namespace: str, kwok_node: MakeNode
) -> Iterator[Watcher]:
    """A fresh namespace for the policy, and a node with slices; no policy is left behind."""
    assert product.is_running("webhook")
    cp.client.patch(f"/api/v1/namespaces/{namespace}", {"metadata": {"labels": {"fuse": "on"}}})
    kwok_node("mig-a", mig={"2g.20gb": 3, "1g.10gb": 1}, labels=LABELS)
    yield Watcher(cp, namespace)
    for path in (BINDINGS, POLICIES):
        cp.client.delete_if_there(f"{path}/gcsfuse-sidecar")


def documents() -> tuple[Json, Json, Json]:
    """The policy, its binding and the pod of the case."""
    found = [one for one in yaml.safe_load_all(CASE.read_text(encoding="utf-8")) if one]
    policy, binding, trainer = found
    return policy, binding, trainer


def put_in_force(here: Watcher, policy: Json, binding: Json, trainer: Json) -> None:
    """Create a policy and wait until the API server follows it."""
    here.client.create(POLICIES, policy)
    here.client.create(BINDINGS, binding)

    def is_in_force() -> bool:
        probe = {**trainer, "metadata": {**trainer["metadata"], "name": "probe"}}
        try:
            made = here.client.create(f"{here.pods_path}?dryRun=All", probe)
        except ApiError:
            return False
        return "|".join(containers(made)) == f"{SIDECAR}|train"

    wait_until(is_in_force, what="the policy to put its sidecar first")


def containers(item: Json) -> dict[str, Json]:
    """Container -> its limits on GPUs, in order."""
    return {
        one["name"]: {
            resource: amount
            for resource, amount in one.get("resources", {}).get("limits", {}).items()
            if resource.startswith("nvidia.com/")
        }
        for one in item["spec"]["containers"]
    }


def without_annotation(trainer: Json) -> Json:
    """The same pod without kubectl's annotation."""
    kept = {
        key: value
        for key, value in trainer["metadata"]["annotations"].items()
        if key != well_known.DEFAULT_CONTAINER
    }
    return {**trainer, "metadata": {"name": "unnamed", "annotations": kept}}


def test_sidecar_injected_before_our_webhook_gets_nothing(here: Watcher) -> None:
    policy, binding, trainer = documents()
    put_in_force(here, policy, binding, trainer)

    here.create(trainer)
    here.create(without_annotation(trainer))
    both = here.wait_bound(2)

    for item in both:
        assert containers(item) == {SIDECAR: {}, "train": {"nvidia.com/mig-2g.20gb": "1"}}
        assert annotation(item, well_known.MEMORY_GIVEN) == "train=2g.20gb"


def test_sidecar_injected_first_after_our_webhook_changes_nothing(here: Watcher) -> None:
    policy, binding, trainer = documents()
    spec = policy["spec"]
    [mutation] = spec["mutations"]
    # Only what was called in the first round is called again: there it changes nothing.
    later = f"{IS_GIVEN} && {IS_TO_COME} ? {mutation['jsonPatch']['expression']} : []"
    mutation["jsonPatch"]["expression"] = later
    spec["reinvocationPolicy"] = "IfNeeded"
    put_in_force(here, policy, binding, trainer)

    made = here.create(without_annotation(trainer))
    [bound] = here.wait_bound(1)

    for item in (made, bound):
        assert containers(item) == {SIDECAR: {}, "train": {"nvidia.com/mig-2g.20gb": "1"}}


def test_pods_of_a_controller_are_treated_alike(here: Watcher) -> None:
    policy, binding, trainer = documents()
    put_in_force(here, policy, binding, trainer)
    spec, given = trainer["spec"], without_annotation(trainer)["metadata"]["annotations"]

    made = controlled("Deployment", "train", replicas=2, annotations=given)
    made["spec"]["template"]["spec"] = spec
    here.create(made)

    for item in here.wait_bound(2):
        assert containers(item) == {SIDECAR: {}, "train": {"nvidia.com/mig-2g.20gb": "1"}}
