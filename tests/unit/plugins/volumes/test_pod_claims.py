"""Claims that keep their pod off every node, and the claims of ephemeral volumes."""

from __future__ import annotations

from typing import Any

import pytest

from tests.builders import pod
from tests.storage import claim, storage_class, uses, volume
from tests.unit.plugins.volumes.test_volume_binding import LOCAL, P, plan, said


@pytest.mark.parametrize(
    ("objects", "text"),
    [
        pytest.param([], 'persistentvolumeclaim "data" not found', id="missing"),
        pytest.param(
            [claim(deleting=True)], 'persistentvolumeclaim "data" is being deleted', id="deleted"
        ),
        pytest.param(
            [claim(volume="pv", phase="Lost")],
            'persistentvolumeclaim "data" bound to non-existent persistentvolume "pv"',
            id="lost",
        ),
        pytest.param(
            [claim(storage="much")],
            "persistentvolumeclaim \"data\" cannot be read: 'much' is not a quantity: it must start"
            " with a number, such as 2, 500m or 16Gi",
            id="unreadable",
        ),
        pytest.param(
            [claim(class_name=None)],
            "pod has unbound immediate PersistentVolumeClaims (claim data: no class)",
            id="no-class",
        ),
        pytest.param(
            [claim(class_name="gone")],
            "pod has unbound immediate PersistentVolumeClaims (claim data: class gone: no such"
            " StorageClass)",
            id="unknown-class",
        ),
        pytest.param(
            [claim(class_name="now"), storage_class("now", provisioner=P, delayed=False)],
            "pod has unbound immediate PersistentVolumeClaims (claim data: class now: provisioner"
            " x.example/y)",
            id="immediate",
        ),
        pytest.param(
            [claim(volumeName="pv"), LOCAL],
            "pod has unbound immediate PersistentVolumeClaims (claim data: volume pv)",
            id="volume-in-advance",
        ),
        pytest.param([claim(volume="pv")], 'persistentvolume "pv" not found', id="no-such-volume"),
        pytest.param(
            [claim(volume="pv"), volume(storage="much")],
            "persistentvolume \"pv\" cannot be read: 'much' is not a quantity: it must start with"
            " a number, such as 2, 500m or 16Gi",
            id="unreadable-volume",
        ),
    ],
)
def test_no_node_is_looked_at_while_a_claim_is_not_usable(objects: list[Any], text: str) -> None:
    assert said(*objects) == f"0/3 nodes are available: {text}."


@pytest.mark.parametrize(
    ("objects", "text"),
    [
        pytest.param(
            [],
            "waiting for ephemeral volume controller to create the persistentvolumeclaim"
            ' "p-scratch"',
            id="not-made-yet",
        ),
        pytest.param(
            [claim("p-scratch")],
            "PVC team/p-scratch was not created for pod team/p (pod is not owner)",
            id="without-an-owner",
        ),
        pytest.param(
            [claim("p-scratch", owner="team-q")],
            "PVC team/p-scratch was not created for pod team/p (pod is not owner)",
            id="of-an-earlier-pod",
        ),
    ],
)
def test_an_ephemeral_claim_belongs_to_its_pod(objects: list[Any], text: str) -> None:
    user = pod("p", spec=uses(ephemeral=["scratch"]))

    assert said(*objects, user=user) == f"0/3 nodes are available: {text}."


def test_an_ephemeral_claim_is_bound_like_any_other() -> None:
    user = pod("p", spec=uses(ephemeral=["scratch"]))
    world = (LOCAL, claim("p-scratch", owner="team-p"), volume(host="n3"))

    assert plan(*world, user=user) == ("n3", {("p-scratch", "pv")}, set())


def test_a_pod_under_review_has_no_ephemeral_claims_yet() -> None:
    user = pod("p", uid="", spec=uses(ephemeral=["scratch"]))

    assert plan(user=user)[0]
