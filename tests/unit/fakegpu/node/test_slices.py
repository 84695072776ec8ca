"""What DRA publishes of a node, and which slices have to be written for it."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import msgspec
import pytest

from fakegpu.api_types import Listed, Seen
from fakegpu.dra.api_types import ClaimFacts, SliceFacts, digest, resource_slice
from fakegpu.dra.pool import Pool, changes
from fakegpu.dra.store import Claims, Slices
from fakegpu.node.advertised_devices import units
from fakegpu.node.hardware import hardware
from fakegpu.node.mig.partitions import (
    consumed,
    counter_set,
    counters,
    partitionable_of,
    partitioned,
    whole,
)
from fakegpu.node.node_labels import can_be_numbered
from fakegpu.node.pod_devices import Allotted
from fakegpu.node.resource_slices import DEVICES_MAX, SPECIAL_DEVICES_MAX, contents
from fakegpu.topology.node_topology import Failure, NodeTopology, Sharing
from scheduler.model.mig import layout as mig_layout
from scheduler.model.quantity import value
from tests.unit.fakegpu.nodes import fake, topology

Json = dict[str, Any]
A100 = "gpu: {profile: a100}"
POOL = Pool(driver="gpu.nvidia.com", node="n", node_uid="u", base="kwok-n-gpu")


def in_parts(pool: str, failures: Any = None) -> NodeTopology:
    """A node whose GPUs DRA offers whole and in parts."""
    found = topology(pool).pools["p"]
    return hardware(
        "n",
        found,
        found.layouts,
        strategy="mixed",
        sharing=Sharing(),
        failures=failures or {},
        dra="instead",
        in_parts=True,
    )


def devices(found: tuple[Json, ...]) -> list[Json]:
    return [one for content in found for one in content.get("devices", ())]


@pytest.mark.contract("S1-65")
def test_a_gpu_is_a_device_with_nvidias_name_and_the_seeds_attributes() -> None:
    """Named by its index; to CEL ``type``, ``uuid`` and ``productName`` are the seed's, and
    ``model`` is its own; memory in binary units.
    """
    (content,) = contents("node1", fake("gpus: [{type: a100, count: 2}]", node="node1"))

    first = content["devices"][0]
    product = {"string": "NVIDIA A100-SXM4-40GB"}
    assert len(content["devices"]) == 2
    assert first["name"] == "gpu-0"
    assert (
        first["attributes"].items()
        >= {
            "uuid": {"string": "GPU-9c371748-0caa-5ed1-a957-7da694d693b6"},
            "model": product,
            "type": {"string": "gpu"},
            "productName": product,
        }.items()
    )
    assert first["capacity"] == {"memory": {"value": "40Gi"}}


def test_a_gpu_that_is_cut_is_its_instances() -> None:
    found = devices(contents("n", fake(f"{A100}, mig: {{mig-devices: {{3g.20gb: 2}}}}")))

    assert len(found) == 16
    assert {one["attributes"]["type"]["string"] for one in found} == {"mig"}
    assert {one["attributes"]["profile"]["string"] for one in found} == {"3g.20gb"}
    names = ["gpu-0-mig-3g20gb-9-0", "gpu-0-mig-3g20gb-9-4", "gpu-1-mig-3g20gb-9-0"]
    assert [one["name"] for one in found[:3]] == names
    assert not any("consumesCounters" in one for one in found)


def test_a_failed_gpu_is_tainted_and_one_off_the_bus_is_not_there() -> None:
    """An application's error taints nothing."""
    failures = {0: Failure(48), 1: Failure(79, off_bus=True), 2: Failure(31)}
    found = devices(contents("n", fake("gpu: {profile: t4}", failures=failures)))

    taints = {one["name"]: one.get("taints") for one in found}
    taint = {"key": "gpu.nvidia.com/xid", "value": "48", "effect": "NoSchedule"}
    assert taints == {"gpu-0": [taint], "gpu-2": None, "gpu-3": None}


@pytest.mark.parametrize(
    ("count", "failures", "sizes"),
    [
        pytest.param(128, {}, [128], id="one-slice"),
        pytest.param(129, {}, [128, 1], id="one-too-many"),
        pytest.param(128, {0: Failure(48)}, [64, 64], id="taints-halve-it"),
    ],
)
def test_slices_hold_what_the_api_server_takes(count: int, failures: Any, sizes: list[int]) -> None:
    found = contents("n", fake(f"gpus: [{{type: t4, count: {count}}}]", failures=failures))

    assert [len(one["devices"]) for one in found] == sizes
    assert max(sizes) in (DEVICES_MAX, SPECIAL_DEVICES_MAX)


def test_counters_come_first_and_then_a_slice_for_each_gpu() -> None:
    """A GPU that cannot be cut has a slice of its own too."""
    node = in_parts("gpus: [{type: h100, count: 9}, {type: t4, count: 1}]")
    found = contents("n", node)

    assert [len(one.get("sharedCounters", ())) for one in found[:2]] == [8, 1]
    assert [len(one["devices"]) for one in found[2:]] == [26] * 9 + [1]
    first = devices(found)[0]
    offered = partitionable_of(node, node.gpus[0])
    assert offered is not None
    taken = {"counterSet": counter_set(0), "counters": counters(offered)}
    assert first["consumesCounters"] == [taken]
    assert ["consumesCounters" in one for one in devices(found)].count(False) == 1


IN_MODE = "mig: {mig-enabled: true}"


@pytest.mark.parametrize(
    ("pool", "names"),
    [
        pytest.param("gpus: [{type: a100, count: 1}]", {"gpu"}, id="ampere-out-of-mig-mode"),
        pytest.param(
            f"gpus: [{{type: a100, count: 1}}], {IN_MODE}", {"mig"}, id="ampere-in-mig-mode"
        ),
        pytest.param("gpus: [{type: h100, count: 1}]", {"gpu", "mig"}, id="hopper"),
        pytest.param(f"gpus: [{{type: h100, count: 1}}], {IN_MODE}", {"gpu", "mig"}, id="in-mode"),
    ],
)
def test_only_ampere_has_to_be_in_mig_mode_to_be_offered_in_parts(
    pool: str, names: set[str]
) -> None:
    found = devices(contents("n", in_parts(pool)))

    assert {one["attributes"]["type"]["string"] for one in found} == names


@pytest.mark.parametrize("kind", ["a100", "h100", "h100-pcie", "h200", "b200", "a30"])
def test_partitions_exclude_each_other_exactly_as_mig_does(kind: str) -> None:
    """For each two parts of a GPU: both can be had if, and only if, MIG can cut both."""
    node = in_parts(f"gpus: [{{type: {kind}, count: 1}}], {IN_MODE}")
    found = [one for one in devices(contents("n", node)) if "profile" in one["attributes"]]
    (content,) = [one for one in contents("n", node) if "sharedCounters" in one]
    total = content["sharedCounters"][0]["counters"]
    gpu = node.gpus[0]
    offered = partitionable_of(node, gpu)
    assert offered is not None
    positions = {one["name"]: _slot(node, one["name"]) for one in found}

    for one, other in combinations(found, 2):
        layout = mig_layout.layout_of((positions[one["name"]], positions[other["name"]]))
        assert _fit(total, one, other) == mig_layout.is_legal(offered.gpu_model, layout), layout
    assert len(found) > 5


@pytest.mark.parametrize("kind", ["a100", "h100", "h100-pcie", "h200", "b200", "a30"])
def test_counters_allow_every_full_layout(kind: str) -> None:
    """Amounts of memory, multiprocessors and engines forbid nothing that the slices allow."""
    node = in_parts(f"gpus: [{{type: {kind}, count: 1}}], {IN_MODE}")
    offered = partitionable_of(node, node.gpus[0])
    assert offered is not None
    total = counters(offered)
    profiles = offered.gpu_model.profiles

    for layout in mig_layout.layouts(offered.gpu_model):
        parts = [
            {"consumesCounters": [{"counters": consumed(offered, profiles[name], start)}]}
            for name, start in layout
        ]
        assert _fit(total, *parts), layout


def test_partition_consumes_memory_slices_multiprocessors_and_engines() -> None:
    node = in_parts("gpus: [{type: h100, count: 1}]")
    offered = partitionable_of(node, node.gpus[0])
    assert offered is not None

    assert consumed(offered, offered.gpu_model.profiles["3g.40gb"], 4) == {
        **{f"memory-slice-{number}": {"value": "1"} for number in (4, 5, 6, 7)},
        "memory": {"value": "40Gi"},
        "multiprocessors": {"value": "60"},
        "copy-engines": {"value": "3"},
        "decoders": {"value": "3"},
        "encoders": {"value": "0"},
        "jpeg-engines": {"value": "3"},
        "ofa-engines": {"value": "0"},
    }


def _slot(node: NodeTopology, name: str) -> mig_layout.Slot:
    (instance,) = partitioned("n", node, frozenset((name,))).gpus[0].instances
    return instance.profile, instance.position


def _fit(total: Json, *parts: Json) -> bool:
    used: dict[str, int] = {}
    for part in parts:
        for name, counter in part["consumesCounters"][0]["counters"].items():
            used[name] = used.get(name, 0) + value(counter["value"])
    return all(amount <= value(total[name]["value"]) for name, amount in used.items())


@pytest.mark.parametrize(
    ("pool", "profile", "is_whole_too"),
    [
        pytest.param("gpus: [{type: h100, count: 2}]", "2g.20gb", True, id="hopper"),
        pytest.param(f"gpus: [{{type: a100, count: 2}}], {IN_MODE}", "2g.10gb", False, id="ampere"),
    ],
)
def test_a_part_is_cut_while_it_is_allocated_and_nothing_else_is(
    pool: str, profile: str, is_whole_too: bool
) -> None:
    node = in_parts(pool)
    found = devices(contents("n", node))
    part = next(
        one["name"]
        for one in found
        if one["name"].startswith("gpu-1-") and one["attributes"]["profile"]["string"] == profile
    )

    now = partitioned("n", node, frozenset((part,)))

    assert [gpu.has_mig for gpu in now.gpus] == [not is_whole_too, True]
    assert now.gpus[0].instances == ()
    assert [(one.profile, one.position) for one in now.gpus[1].instances] == [(profile, 0)]
    assert contents("n", now) == contents("n", node)
    assert partitioned("n", node, frozenset()) == node == whole(now)


# --- writing ----------------------------------------------------------------------------------


def written(made: Any, version: int = 1) -> list[SliceFacts]:
    """The slices as the API server returns them; it adds the time of a taint."""
    found = []
    for name, wanted in made.write:
        body = msgspec.json.decode(msgspec.json.encode(wanted))
        body["metadata"]["resourceVersion"] = str(version)
        for device in body["spec"].get("devices", ()):
            for taint in device.get("taints", ()):
                taint["timeAdded"] = "2026-11-28T00:00:00Z"
        content = msgspec.json.encode(body)
        assert resource_slice(content)[0] == name
        found.append(resource_slice(content)[1])
    return [one for one in found if one is not None]


TAINTED: Json = {"devices": [{"name": "a", "taints": [{"key": "k", "effect": "NoSchedule"}]}]}


@pytest.mark.contract("S1-65")
def test_first_slice_has_the_seeds_name_and_the_node_as_owner() -> None:
    """``kwok-<node>-gpu``, with ``resourceSliceCount`` 1 and the node's name as its pool's."""
    ((name, body),) = changes(POOL, [{"devices": []}], []).write

    assert name == "kwok-n-gpu"
    assert body["metadata"]["ownerReferences"][0]["uid"] == "u"
    assert body["spec"] == {
        "driver": "gpu.nvidia.com",
        "nodeName": "n",
        "pool": {"name": "n", "generation": 1, "resourceSliceCount": 1},
        "devices": [],
    }


def test_what_says_so_already_is_not_written_again() -> None:
    there = written(changes(POOL, [TAINTED], []))

    assert changes(POOL, [TAINTED], there) == changes(POOL, [], [])


def test_any_change_writes_the_whole_pool_in_a_new_generation() -> None:
    """Also one that only others made; slices that are not needed any more go."""
    three = [{"devices": [{"name": name}]} for name in "abc"]
    there = written(changes(POOL, three, []))

    two = changes(POOL, three[:2], there)

    assert two.remove == ("kwok-n-gpu-2",)
    assert [name for name, _ in two.write] == ["kwok-n-gpu", "kwok-n-gpu-1"]
    assert {body["spec"]["pool"]["generation"] for _, body in two.write} == {2}
    assert len(changes(POOL, three, there[:2]).write) == 3
    torn = [there[0], *written(changes(POOL, three, there[:1]))[1:]]
    assert len(changes(POOL, three, torn).write) == 3


def test_other_slices_of_the_node_are_not_touched() -> None:
    other = SliceFacts(name="other", driver="d", pool="n", generation=7, digest="")
    near = SliceFacts(name="kwok-n-gpu-x", driver="d", pool="n", generation=7, digest="")

    made = changes(POOL, [{"devices": []}], [other, near])

    assert made.remove == ()
    assert made.write[0][1]["spec"]["pool"]["generation"] == 1


def test_a_watch_that_lags_does_not_take_back_what_was_written() -> None:
    slices = Slices()
    old = SliceFacts(name="s", driver="d", pool="n", generation=1, digest="a", version=3)
    new = SliceFacts(name="s", driver="d", pool="n", generation=2, digest="b", version=5)
    slices.saw(new)

    assert slices.fold(Seen("s", old)) == set()
    assert slices.of("n") == (new,)
    assert slices.fold(Seen("s", None)) == {"n"}
    assert slices.fold(Listed({"s": old})) == {"n"}
    assert slices.fold(Listed({"s": old})) == set()
    assert slices.forget("s") == "n"
    assert slices.of("n") == ()
    slices.saw(new)
    assert slices.fold(Listed({})) == {"n"}
    assert slices.of("n") == ()


def test_a_digest_is_of_what_is_said_and_not_of_when() -> None:
    spec: Json = {"driver": "d", "pool": {"name": "n", "generation": 1}, **TAINTED}
    later: Json = {**TAINTED, "driver": "d", "pool": {"generation": 2, "name": "n"}}

    assert digest(spec) == digest(later)
    assert digest(spec) != digest({**spec, "devices": []})


def test_claims_are_known_by_the_nodes_of_their_devices() -> None:
    claims = Claims()
    held = (("n", Allotted("gpu", "gpu-a")), ("m", Allotted("gpu", "gpu-b")))
    one = ClaimFacts(("team", "c"), frozenset(("n", "m")), held)

    assert claims.fold(Seen("uid", one)) == {"n", "m"}
    assert claims.fold(Seen("uid", one)) == set()
    assert claims.on("n") == {("team", "c"): (Allotted("gpu", "gpu-a"),)}
    assert claims.fold(Listed({})) == {"n", "m"}
    assert claims.on("n") == {}


def test_node_with_dra_only_gpus_advertises_no_count() -> None:
    """Neither to a device plugin nor by the label that says so; other devices stay."""
    node = in_parts("gpus: [{type: t4, count: 2}], resources: [{rdma/hca: 2}]")

    assert units(node).keys() == {"rdma/hca"}
    assert not can_be_numbered(node)
    assert can_be_numbered(fake("gpus: [{type: t4, count: 2}]"))
