"""Fake GPUs with any pools, pods and faults: no device is assigned twice or lost."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from fakegpu.node.advertised_devices import amounts, supply
from fakegpu.node.device_assignment import assign
from fakegpu.node.hardware import hardware, layouts_of
from fakegpu.node.pod_devices import Need, PodUse
from fakegpu.node.utilization import parse_utilization
from fakegpu.topology.node_topology import (
    Failure,
    MigStrategy,
    NodeTopology,
    Shared,
    Sharing,
    decode_yaml,
    encode_json,
    encode_yaml,
)
from fakegpu.topology.pools import GpuKind, Pool
from scheduler.model.gpu.device import Devices
from scheduler.model.mig import layout as mig_layout
from tests.unit.fakegpu.nodes import read_answer

GPU = "nvidia.com/gpu"
BOARD = mig_layout.GPU_MODELS["A100-40"]
LAYOUTS = tuple(mig_layout.layouts(BOARD))
KIND = GpuKind("NVIDIA-A100-SXM4-40GB", 40960)
RESOURCES = (GPU, "nvidia.com/mig-1g.5gb", "nvidia.com/mig-2g.10gb", "nvidia.com/mig-3g.20gb")

strategies: st.SearchStrategy[MigStrategy] = st.sampled_from(["none", "single", "mixed"])
layouts = st.lists(st.none() | st.sampled_from(LAYOUTS), min_size=1, max_size=4)
failures = st.dictionaries(
    st.integers(0, 3), st.builds(Failure, xid=st.sampled_from([31, 48, 79]), off_bus=st.booleans())
)
sharings = st.just(Sharing()) | st.builds(
    lambda count, name: Sharing(resources=(Shared(name=name, replicas=count),)),
    st.integers(2, 4),
    st.sampled_from(RESOURCES),
)


@st.composite
def machines(draw: st.DrawFn) -> NodeTopology:
    """A node's hardware."""
    cut = draw(layouts)
    pool = Pool(name="p", gpus=(KIND,) * len(cut))
    return hardware(
        draw(st.sampled_from(["n", "node-1"])),
        pool,
        tuple(cut),
        strategy=draw(strategies),
        sharing=draw(sharings),
        failures=draw(failures),
    )


@st.composite
def pods(draw: st.DrawFn) -> list[PodUse]:
    """Pods with one or two containers, some of them with devices that were chosen for them."""
    found = []
    for number in range(draw(st.integers(0, 6))):
        needs = tuple(
            Need(f"c{at}", draw(st.sampled_from(RESOURCES)), draw(st.integers(1, 3)))
            for at in range(draw(st.integers(1, 2)))
        )
        numbers = draw(st.lists(st.integers(0, 5), unique=True, max_size=2))
        found.append(
            PodUse(
                uid=f"u{number}",
                namespace="team",
                name=f"p{number}",
                created=str(draw(st.integers(0, 9))),
                needs=needs,
                chosen=Devices(numbers=tuple(numbers)),
            )
        )
    return found


def held(topology: NodeTopology) -> Counter[str]:
    """How often each device is held."""
    return Counter(
        {
            name: len(status.held_by)
            for gpu in topology.gpus
            for name, status in ((gpu.id, gpu.status), *((d.id, d.status) for d in gpu.instances))
            if status.held_by
        }
    )


@given(machines(), pods())
def test_no_device_is_held_more_often_than_it_is_handed_out(
    machine: NodeTopology, there: list[PodUse]
) -> None:
    found = assign(machine, there)

    # A pod that was given a device which is lost now holds it still.
    there_is = supply(machine, with_lost=True)
    offered = Counter(
        device.id.partition("::")[0] for devices in there_is.values() for device in devices
    )
    assert held(found) <= offered
    asked = sum(need.count for pod in there for need in pod.needs)
    assert held(found).total() <= asked


@given(machines(), pods(), pods())
def test_repeated_allocation_keeps_devices_and_changes_nothing(
    machine: NodeTopology, there: list[PodUse], more: list[PodUse]
) -> None:
    before = assign(machine, there)
    new = [
        PodUse(uid=f"n{pod.uid}", namespace="other", name=pod.name, created="", needs=pod.needs)
        for pod in more
    ]

    again = assign(machine, there, before=before)
    joined = assign(machine, [*there, *new], before=before)

    assert again == before
    for old, now in zip(before.gpus, joined.gpus, strict=True):
        assert set(old.status.held_by) <= set(now.status.held_by)


@given(machines(), pods())
def test_both_spellings_read_back_what_was_written(
    machine: NodeTopology, there: list[PodUse]
) -> None:
    found = assign(machine, there)

    assert decode_yaml(encode_yaml(found)) == found
    assert read_answer(encode_json(found)) == found


@given(machines())
def test_capacity_covers_allocatable_and_layouts_are_readable(
    machine: NodeTopology,
) -> None:
    found = amounts(machine)

    assert found.capacity.keys() == found.allocatable.keys()
    assert all(found.allocatable[name] <= count for name, count in found.capacity.items())
    for gpu, layout in zip(machine.gpus, layouts_of(machine), strict=True):
        assert (layout is None) == (not gpu.has_mig)
        assert layout is None or mig_layout.is_legal(BOARD, layout)
    ids = [device.id for gpu in machine.gpus for device in gpu.instances]
    assert len(set(ids)) == len(ids)


@given(st.text(max_size=40))
def test_any_text_is_a_utilization_within_bounds_or_none(text: str) -> None:
    found = parse_utilization(text)

    assert found is None or 0 <= found.min <= found.max <= 100


@given(st.text(max_size=60))
def test_any_product_name_survives_the_config_map(name: str) -> None:
    topology = NodeTopology(gpu_memory=1, gpu_product=name)
    if name.isprintable():
        assert decode_yaml(encode_yaml(topology)) == topology
