"""Pods with claims in the simulator: what the input has of storage counts, the rest does not."""

from __future__ import annotations

import pytest
import yaml

from tests.storage import claim_json, class_json, uses, volume_json
from tests.unit.gpuctl.cli import GPU, Json, gpuctl, node, places, pod, rows, spec, workload

HOST = "kubernetes.io/hostname"


def host(name: str) -> Json:
    return node(name, gpu=4, labels={HOST: name})


def user(name: str, claim: str = "data") -> Json:
    return pod(name, spec(GPU, 1, **uses(claim)))


def test_claims_of_the_input_get_volumes_of_the_input() -> None:
    """Each volume goes to one claim; the namespace of a claim is that of the command."""
    storage = [class_json(), claim_json("data"), claim_json("more"), claim_json("third")]
    for one in storage[1:]:
        del one["metadata"]["namespace"]
    volumes = [volume_json("a", host="n2"), volume_json("b", host="n1")]
    users = [user("p", "data"), user("q", "more"), user("r", "third")]

    found = rows(host("n1"), host("n2"), *storage, *volumes, *users)

    assert sorted(filter(None, places(found).values())) == ["n1", "n2"]
    [waiting] = [name for name, at in places(found).items() if at is None]
    assert waiting == "r"


def test_volume_of_a_manifest_without_a_status_is_available() -> None:
    volume = volume_json("a", host="n1")
    volume.pop("status", None)

    found = rows(host("n1"), class_json(), claim_json("data"), volume, user("p"))

    assert places(found) == {"p": "n1"}


def test_claims_that_are_not_in_the_input_restrict_nothing() -> None:
    template = [{"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"]}}]
    body = workload("StatefulSet", "web", spec(GPU, 1), replicas=2)
    body["spec"]["volumeClaimTemplates"] = template
    text = yaml.safe_dump_all([host("n1"), body])

    done = gpuctl("simulate", "-", stdin=text)

    assert done.status == 0
    assert (
        "2 PersistentVolumeClaims are not in the input and restrict no node, such as"
        " default/data-web-0"
    ) in done.out + done.err


@pytest.mark.parametrize(
    ("body", "text"),
    [
        pytest.param(claim_json(storage="much"), "'much' is not a quantity", id="claim"),
        pytest.param({**class_json(), "provisioner": 3}, "StorageClass", id="class"),
    ],
)
def test_storage_that_cannot_be_read_is_an_error(body: Json, text: str) -> None:
    done = gpuctl("simulate", "-", stdin=yaml.safe_dump_all([host("n1"), body]))

    assert done.status != 0
    assert text in done.out + done.err
