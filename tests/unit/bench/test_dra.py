"""The objects of the benchmark with claims, and how its figures are compared."""

from __future__ import annotations

from collections import Counter

import pytest

from bench.dra import backlog, objects
from bench.dra.__main__ import PARTS, compared, parse
from bench.dra.cluster import allocated
from bench.mig.baselines import STARTS
from bench.mig.stream import PROFILES
from fakegpu.node.resource_slices import SPECIAL_DEVICES_MAX
from scheduler.model.dra.cel.engine import compile_selector
from scheduler.model.dra.device import Device
from tests.dra import Json, allocation_json, claim_json, result_json

PARTED = objects.gpu_in_parts(3)


@pytest.mark.parametrize("kind", backlog.KINDS)
def test_every_object_of_a_round_has_a_path_and_a_name_of_its_own(kind: str) -> None:
    sent = [
        *(objects.node(number) for number in range(3)),
        *(one for n in range(3) for one in objects.slices(n, objects.whole_gpus(n))),
        *backlog.KINDS[kind]("bench", "s", 5),
    ]

    names = Counter((one.path, one.body["metadata"]["name"]) for one in sent)

    assert names.most_common(1)[0][1] == 1
    assert {one.method for one in sent} == {"POST"}
    assert sum(one.path.endswith("/pods") for one in sent) == 5


def test_pod_with_a_claim_uses_the_claim_of_its_name() -> None:
    claims = [one for one in backlog.with_claims("bench", "s", 2) if "claims" in one.path]
    pods = [one.body for one in backlog.with_claims("bench", "s", 2) if "pods" in one.path]

    named = [pod["spec"]["resourceClaims"][0]["resourceClaimName"] for pod in pods]

    assert named == [one.body["metadata"]["name"] for one in claims]
    assert not any("limits" in pod["spec"]["containers"][0]["resources"] for pod in pods)


def memory_slices(device: Json) -> frozenset[str]:
    """The memory slices that a partition consumes."""
    (consumed,) = device["consumesCounters"]
    return frozenset(name for name in consumed["counters"] if name.startswith("memory-slice-"))


def test_gpu_in_parts_has_the_partitions_of_the_stream() -> None:
    [devices] = [
        one.body["spec"]["devices"]
        for one in objects.slices(3, PARTED)
        if "devices" in one.body["spec"]
    ]
    found: dict[str, set[frozenset[str]]] = {profile: set() for profile in PROFILES}
    for device in devices:
        profile = device["attributes"]["profile"]["string"]
        if profile in found:
            found[profile].add(memory_slices(device))

    expected = {
        profile: {
            frozenset(f"memory-slice-{start + offset}" for offset in range(size))
            for start in STARTS[profile]
        }
        for profile, size in PROFILES.items()
    }

    assert found == expected
    assert len(devices) <= SPECIAL_DEVICES_MAX


def test_claim_selects_the_partitions_of_its_profile() -> None:
    spec = objects.claim("bench", "c", "1g.10gb").body["spec"]
    exactly = spec["devices"]["requests"][0]["exactly"]
    selector = compile_selector(exactly["selectors"][0]["cel"]["expression"])
    devices = [
        Device(driver="gpu.nvidia.com", pool="n", name="d", attributes={"profile": profile})
        for profile in ("1g.10gb", "1g.20gb")
    ]

    assert [selector.matches(device) for device in devices] == [True, False]
    assert exactly["deviceClassName"] == objects.MIG_CLASS


def claims_of(*devices: str) -> list[Json]:
    """A claim for each device of the GPU in parts."""
    results = (
        result_json(one, node=objects.node_name(3), driver="gpu.nvidia.com") for one in devices
    )
    return [
        claim_json(f"c{number}", allocation=allocation_json(one))
        for number, one in enumerate(results)
    ]


@pytest.mark.parametrize(
    ("devices", "excess"),
    [
        pytest.param(("gpu-0-mig-1g10gb-19-0", "gpu-0-mig-1g10gb-19-0"), "device", id="device"),
        pytest.param(("gpu-0-mig-1g10gb-19-0", "gpu-0-mig-7g80gb-0-0"), "counter", id="slice"),
    ],
)
def test_round_with_a_device_in_two_claims_is_invalid(
    devices: tuple[str, ...], excess: str
) -> None:
    slices = [one.body for one in objects.slices(3, PARTED)]

    with pytest.raises(RuntimeError, match=rf"{excess} .* is in claims .*c0, .*c1"):
        allocated(claims_of(*devices), slices)


def test_devices_of_a_valid_round_are_counted() -> None:
    slices = [one.body for one in objects.slices(3, PARTED)]
    claims = claims_of("gpu-0-mig-1g10gb-19-0", "gpu-0-mig-1g10gb-19-1")

    assert allocated([*claims, claim_json("free")], slices) == 2


def test_ratio_is_that_of_the_medians_of_both_schedulers() -> None:
    ours = [{"pods_per_s": figure} for figure in (10.0, 30.0, 20.0)]
    theirs = [{"pods_per_s": figure} for figure in (5.0, 8.0, 50.0)]

    both = compared({"ours": ours, "kube_scheduler": theirs}, "pods_per_s")
    one = compared({"kube_scheduler": theirs}, "pods_per_s")

    assert (both["ours"], both["kube_scheduler"], both["ratio"]) == (20.0, 8.0, 2.5)
    assert "ratio" not in one


def test_unknown_part_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parse(["--parts", "claims,other"])

    assert parse([]).parts == PARTS
    assert "parts are claims, extended, churn" in capsys.readouterr().err
