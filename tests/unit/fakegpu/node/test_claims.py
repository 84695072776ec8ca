"""Pods with claims: which claims they use, and on which devices they are shown."""

from __future__ import annotations

import json
from typing import Any

import pytest

from fakegpu import pod_decode
from fakegpu.config import Config, ConfigError, parse
from fakegpu.controller.plan_types import Settings
from fakegpu.dra.api_types import Configured, Opaque, Result, claim
from fakegpu.dra.gpu_config import BadConfig, sharing_of
from fakegpu.environment import with_environment
from fakegpu.node.device_assignment import assign
from fakegpu.node.pod_devices import Allotted, ClaimRef
from fakegpu.topology.node_topology import Dra
from tests.unit.fakegpu.nodes import facts, fake, holders, planned, use

Json = dict[str, Any]
T4 = "gpus: [{type: t4, count: 4}]"


def pod(spec: Json, status: Json | None = None) -> Json:
    meta = {"name": "p", "namespace": "team", "uid": "u"}
    status = {"phase": "Running", **(status or {})}
    return {"metadata": meta, "spec": {"nodeName": "n", **spec}, "status": status}


def container(name: str, *claims: Json, **resources: Any) -> Json:
    return {"name": name, "resources": {"claims": list(claims), **resources}}


MADE = {"resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": "p-gpu-x7"}]}
TEMPLATE = [{"name": "gpu", "resourceClaimTemplateName": "gpu-claim"}]


@pytest.mark.contract("S1-41")
@pytest.mark.parametrize(
    ("spec", "status", "expected"),
    [
        pytest.param(
            {"containers": [container("a"), container("b", {"name": "gpu"})]},
            MADE,
            (ClaimRef("b", "p-gpu-x7"),),
            id="made-for-it-and-used-by-the-second",
        ),
        pytest.param({"containers": [container("a", {"name": "gpu"})]}, {}, (), id="not-yet-made"),
        pytest.param(
            {"containers": [container("a")]}, MADE, (ClaimRef("a", "p-gpu-x7"),), id="used-by-none"
        ),
        pytest.param(
            {
                "containers": [container("a", {"name": "gpu", "request": "one"})],
                "resourceClaims": [{"name": "gpu", "resourceClaimName": "shared"}],
            },
            {},
            (ClaimRef("a", "shared", "one"),),
            id="one-request-of-a-claim-that-is-there",
        ),
    ],
)
def test_claims_are_found_in_the_status_and_then_in_the_spec(
    spec: Json, status: Json, expected: tuple[ClaimRef, ...]
) -> None:
    """``status.resourceClaimStatuses`` first, then ``spec.resourceClaims``."""
    body = pod({"resourceClaims": TEMPLATE, **spec}, status)

    _, found = pod_decode.pod("runai-reservation")(json.dumps(body).encode())

    assert (found.use.claims if found else ()) == expected


def test_extended_resource_met_by_dra_takes_no_device_of_a_plugin() -> None:
    mapping = {
        "containerName": "a",
        "resourceName": "nvidia.com/gpu",
        "requestName": "container-0-request-0",
    }
    status = {
        "extendedResourceClaimStatus": {
            "resourceClaimName": "p-extended-resources-2",
            "requestMappings": [mapping],
        }
    }
    body = pod({"containers": [container("a", limits={"nvidia.com/gpu": "2"})]}, status)

    _, found = pod_decode.pod("runai-reservation")(json.dumps(body).encode())

    assert found is not None
    assert found.use.claims == (ClaimRef("a", "p-extended-resources-2", "container-0-request-0"),)
    assert found.use.needs == ()


def test_only_claims_that_reserve_devices_count() -> None:
    results = [
        {"request": "a", "driver": "gpu.nvidia.com", "pool": "n", "device": "gpu-1"},
        {"request": "b", "driver": "net.example.com", "pool": "n", "device": "card"},
        {
            "request": "c",
            "driver": "gpu.nvidia.com",
            "pool": "n",
            "device": "gpu-2",
            "adminAccess": True,
        },
    ]
    body = {
        "metadata": {"name": "c", "namespace": "team", "uid": "u"},
        "status": {"allocation": {"devices": {"results": results}}},
    }

    uid, found = claim("gpu.nvidia.com")(json.dumps(body).encode())

    assert (uid, found.on("n") if found else None) == ("u", (Allotted("a", "gpu-1"),))
    body["status"] = {}
    assert claim("gpu.nvidia.com")(json.dumps(body).encode()) == ("u", None)


@pytest.mark.contract("S1-41")
def test_pods_show_on_the_devices_of_their_claims_and_get_no_others() -> None:
    """By the name of a device, or by its id in either case, as a claim of before has it; a shared
    claim has two holders; what a plugin hands out is none of these."""
    node = fake(T4)
    names = [node.gpus[0].id.lower(), "", node.gpus[2].id, "gpu-3"]
    sharers = [use(name, gpus=0, claims=(ClaimRef("main", "both"),)) for name in ("x", "y")]
    picky = use("z", gpus=0, claims=(ClaimRef("main", "two", "first"),))
    claimed = {
        ("team", "both"): (Allotted("gpu", names[0]),),
        ("team", "two"): (Allotted("first/b", names[2]), Allotted("second", names[3])),
        ("other", "both"): (Allotted("gpu", names[3]),),
    }

    found = assign(node, [*sharers, picky, use("plain", gpus=2)], claimed=claimed)

    assert holders(found) == ["x", "plain", "z", "plain"]
    assert [one.pod for one in found.gpus[0].status.held_by] == ["x", "y"]


def test_a_configuration_that_hands_out_a_gpu_twice_is_refused() -> None:
    head = "apiVersion: gpu-scheduler.io/v1\nkind: FakeGpuConfiguration\n"
    with pytest.raises(ConfigError, match=r"dra\.partitionable"):
        parse(f"{head}dra: {{kwok: beside, partitionable: true}}\n".encode())


@pytest.mark.contract("S1-66")
def test_the_seeds_variables_say_where_a_dra_driver_has_its_files() -> None:
    """``CDI_ROOT``, ``KUBELET_REGISTRAR_DIRECTORY_PATH``, ``KUBELET_PLUGINS_DIRECTORY_PATH``,
    ``HEALTHCHECK_PORT`` of the seed's ``dra-plugin-gpu``, whose health port is 51515."""
    assert Config().dra.health_port == 51515
    variables = {
        "CDI_ROOT": "/cdi",
        "KUBELET_REGISTRAR_DIRECTORY_PATH": "/registry",
        "KUBELET_PLUGINS_DIRECTORY_PATH": "/plugins",
        "HEALTHCHECK_PORT": "7",
    }

    found = with_environment(Config(), variables).dra

    assert (found.cdi_folder, found.registrar_folder) == ("/cdi", "/registry")
    assert (found.plugins_folder, found.health_port) == ("/plugins", 7)
    with pytest.raises(ConfigError, match="environment HEALTHCHECK_PORT"):
        with_environment(Config(), {"HEALTHCHECK_PORT": "x"})


def configured(strategy: str, *requests: str) -> Configured:
    parameters = {
        "apiVersion": "gpu.resource.example.com/v1alpha1",
        "kind": "GpuConfig",
        "sharing": {"strategy": strategy},
    }
    content = json.dumps(parameters).encode()
    return Configured(requests, Opaque("gpu.nvidia.com", content))  # type: ignore[arg-type] # as read


def test_the_last_parameters_for_a_request_hold() -> None:
    """The class's come first, so the claim's win; those for other requests do not count."""
    one = Result("gpu/b", "gpu.nvidia.com", "n", "gpu-1")
    config = [
        configured("TimeSlicing"),
        configured("SpacePartitioning", "gpu"),
        configured("TimeSlicing", "other"),
        Configured(opaque=Opaque("net.example.com")),
    ]

    found = sharing_of("gpu.nvidia.com", one, config)

    assert found is not None
    assert found.strategy == "SpacePartitioning"
    with pytest.raises(BadConfig, match=r"config\[0\].*Invalid enum value"):
        sharing_of("gpu.nvidia.com", one, [configured("Magic")])


@pytest.mark.parametrize(
    ("mode", "plugin", "published"),
    [
        pytest.param(None, {"nvidia.com/gpu": 4}, None, id="no-dra"),
        pytest.param("beside", {"nvidia.com/gpu": 4}, 4, id="beside-the-plugin"),
        pytest.param("instead", {}, 4, id="instead-of-the-plugin"),
    ],
)
def test_configuration_selects_what_offers_the_gpus_of_a_kwok_node(
    mode: Dra | None, plugin: dict[str, int], published: int | None
) -> None:
    settings = Settings(namespace="gpu-operator", map_prefix="topology-", dra_on_kwok=mode)
    made = planned(T4, facts(), settings=settings)

    assert made.amounts is not None
    assert made.amounts.allocatable == plugin
    found = None if made.slices is None else len(made.slices[0]["devices"])
    assert found == published


def test_configuration_waits_for_the_instances_of_a_claim() -> None:
    """A GPU with a part in use is in use as a whole; it is cut as configured once it is free."""
    settings = Settings(
        namespace="gpu-operator", map_prefix="topology-", dra_on_kwok="instead", in_parts=True
    )
    node = facts(labels={"nvidia.com/mig.config": "all-1g.10gb"})
    pool = "gpus: [{type: h100, count: 1}]"
    bare = planned(pool, facts(), settings=settings)
    assert bare.slices is not None
    part = bare.slices[1]["devices"][1]["name"]
    holder = use("h", gpus=0, claims=(ClaimRef("main", "c"),))
    claimed = {("team", "c"): (Allotted("gpu", part),)}

    held = planned(pool, facts(), settings=settings, pods=(holder,), claimed=claimed)
    refused = planned(
        pool, node, settings=settings, pods=(holder,), claimed=claimed, memory=held.memory
    )
    gone = planned(pool, node, settings=settings, memory=refused.memory)
    free = planned(pool, node, settings=settings, memory=gone.memory)

    assert "is in use by" in str(refused.notes)
    assert holders(refused.memory.topology or fake(pool)) == ["h"]
    assert "is in use by" not in str(free.notes)
