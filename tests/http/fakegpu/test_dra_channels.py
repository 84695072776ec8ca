"""Channels of compute domains: the kubelet's requests and the CDI files of the runtime."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from fakegpu.dra.cdi import CdiFolder
from fakegpu.dra.channels import CDI_KIND, Channels
from fakegpu.dra.checkpoint import Checkpoint
from fakegpu.dra.claim_preparer import ClaimPreparer
from fakegpu.kubelet.dra_pb2 import Claim
from scheduler.watch.client import Client
from tests.http.fakeapi import FakeApi, reply

Json = dict[str, Any]
DRIVER = "compute-domain.nvidia.com"
PATH = "GET /apis/resource.k8s.io/v1/namespaces/team/resourceclaims/c"
PARAMETERS = {
    "apiVersion": "resource.nvidia.com/v1beta1",
    "kind": "ComputeDomainChannelConfig",
    "domainID": "d0-1",
    "allocationMode": "Single",
}


def claim(parameters: Json | None, device: str = "channel-0") -> Json:
    result = {"request": "channel", "driver": DRIVER, "pool": "n", "device": device}
    devices: Json = {"results": [result]}
    if parameters is not None:
        devices["config"] = [{"opaque": {"driver": DRIVER, "parameters": parameters}}]
    meta = {"name": "c", "namespace": "team", "uid": "u-1"}
    return {"metadata": meta, "status": {"allocation": {"devices": devices}}}


def preparer(client: Client, folder: Path) -> ClaimPreparer:
    plugin = folder / DRIVER
    found = ClaimPreparer(
        client,
        "n",
        Channels("n", plugin),
        CdiFolder(folder / "cdi", CDI_KIND),
        Checkpoint(plugin / "computedomain-checkpoint.json"),
    )
    found.begin()
    return found


@pytest.mark.contract("S1-72")
async def test_a_channel_is_a_device_file_of_its_domain(
    client: Client, api: FakeApi, tmp_path: Path
) -> None:
    """The seed's ``compute-domain-dra-plugin``: ``channel-0``, kind
    ``k8s.compute-domain.nvidia.com/computedomain``, a symlink to /dev/null below ``nvcdi``, a
    checkpoint with a checksum.
    """
    api.script(PATH, reply(claim(PARAMETERS)))

    answer = await preparer(client, tmp_path).prepare(Claim(namespace="team", uid="u-1", name="c"))

    assert answer.error == ""
    assert list(answer.devices[0].cdi_device_ids) == [
        "k8s.compute-domain.nvidia.com/computedomain=common",
        "k8s.compute-domain.nvidia.com/computedomain=u-1-channel-0",
    ]
    (file,) = (tmp_path / "cdi").glob("*u-1.json")
    edits = json.loads(file.read_text())["devices"][0]["containerEdits"]
    assert edits["env"] == ["COMPUTE_DOMAIN_DEVICE_channel-0_RESOURCE_CLAIM=u-1"]
    (node,) = edits["deviceNodes"]
    link = tmp_path / DRIVER / "nvcdi" / "d0-1" / "channel-0"
    assert (node["hostPath"], node["type"]) == (str(link), "c")
    assert (node["major"], node["minor"]) == (1, 3)
    assert str(link.readlink()) == "/dev/null"
    kept = json.loads((tmp_path / DRIVER / "computedomain-checkpoint.json").read_text())
    assert sorted(kept) == ["checksum", "prepared"]


@pytest.mark.parametrize(
    ("found", "reason"),
    [
        pytest.param(claim(None), "use its template", id="no-domain"),
        pytest.param(claim({**PARAMETERS, "kind": "Other"}), "got Other", id="other-kind"),
        pytest.param(claim({**PARAMETERS, "domainID": "../up"}), "no domain's id", id="a-path"),
        pytest.param(claim({"kind": "x"}), "parameters of the channel", id="too-little"),
        pytest.param(claim(PARAMETERS, "channel-9"), "has no channel channel-9", id="no-channel"),
    ],
)
async def test_failed_prepare_has_a_reason(
    client: Client, api: FakeApi, tmp_path: Path, found: Json, reason: str
) -> None:
    api.script(PATH, reply(found))

    answer = await preparer(client, tmp_path).prepare(Claim(namespace="team", uid="u-1", name="c"))

    assert not answer.devices
    assert reason in answer.error
    assert not (tmp_path / "up").exists()
