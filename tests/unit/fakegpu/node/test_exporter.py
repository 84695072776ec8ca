"""The metrics: NVIDIA's names, the seed's labels, a series for each container that holds a part."""

from __future__ import annotations

import re
from typing import Any

import pytest

from fakegpu.exporter.metrics import Exported, host_name, render
from fakegpu.node.device_assignment import assign
from fakegpu.node.pod_devices import Need, PodUse
from fakegpu.node.telemetry import Reading, read_all
from fakegpu.topology.node_topology import Failure, NodeTopology, Utilization
from tests.unit.fakegpu.nodes import GPU, H200, fake, slicing, use

TWO = f"{H200}, gpuCount: 2"
LINE = re.compile(r"^(?P<name>\w+)\{(?P<labels>.*)\} (?P<value>\S+)$")
Series = dict[tuple[str, str, str], str]


def readings(found: NodeTopology) -> tuple[Reading, ...]:
    """Drawn at the lower end."""
    return read_all(found, lambda low, _high: low, lambda _: 0)


def scrape(found: NodeTopology) -> str:
    return render(Exported(host_name("node-1"), one) for one in readings(found))


def series(text: str) -> Series:
    """Value by metric, index of the GPU and pod."""
    result: Series = {}
    for line in text.splitlines():
        if found := LINE.match(line):
            labels = dict(re.findall(r'(\w+)="([^"]*)"', found["labels"]))
            key = (found["name"], labels["gpu"], labels["pod"])
            assert key not in result, "no series is there twice"
            result[key] = found["value"]
    return result


def busy(name: str, low: int, **more: Any) -> PodUse:
    return use(name, load=Utilization(min=low, max=low), **more)


@pytest.mark.contract("S1-47")
def test_a_series_has_the_seeds_help_labels_and_value() -> None:
    """Byte for byte; of a GPU without a holder the last three labels are empty."""
    found = assign(fake(TWO), [busy("p", 30)])
    lines = scrape(found).splitlines()
    first, second = (gpu.id for gpu in found.gpus)
    assert lines[:4] == [
        "# HELP DCGM_FI_DEV_GPU_UTIL GPU Utilization",
        "# TYPE DCGM_FI_DEV_GPU_UTIL gauge",
        f'DCGM_FI_DEV_GPU_UTIL{{gpu="0",UUID="{first}",device="nvidia0",modelName="NVIDIA-H200",'
        'Hostname="nvidia-dcgm-exporter-b36828",container="c",namespace="team",pod="p"} 30',
        f'DCGM_FI_DEV_GPU_UTIL{{gpu="1",UUID="{second}",device="nvidia1",modelName="NVIDIA-H200",'
        'Hostname="nvidia-dcgm-exporter-b36828",container="",namespace="",pod=""} 0',
    ]
    assert "# HELP DCGM_FI_DEV_FB_USED GPU Framebuffer Used" in lines
    assert "# HELP DCGM_FI_DEV_FB_FREE GPU Framebuffer Free" in lines


@pytest.mark.contract("S1-47")
def test_what_pods_use_together_is_capped_at_what_the_gpu_has() -> None:
    """Two pods of 80 % on one shared GPU: the GPU shows 100, and no more memory than it has."""
    shared = fake(f"{H200}, gpuCount: 1", sharing=slicing(2))
    found = assign(shared, [busy("a", 80, created="1"), busy("b", 80, created="2")])
    (gpu,) = readings(found)
    assert (gpu.utilization, gpu.memory_used) == (100, 71680)
    seen = series(scrape(found))
    assert [seen["DCGM_FI_DEV_GPU_UTIL", "0", pod] for pod in "ab"] == ["80", "80"]
    used = [int(seen["DCGM_FI_DEV_FB_USED", "0", pod]) for pod in "ab"]
    assert used == [35840, 35840], "each its part"
    assert seen["DCGM_FI_DEV_FB_FREE", "0", "a"] == "0"


@pytest.mark.contract("S1-B15")
def test_a_pods_series_go_with_it() -> None:
    before = series(scrape(assign(fake(TWO), [busy("p", 30)])))
    after = series(scrape(assign(fake(TWO), [])))
    assert {pod for _, _, pod in before} == {"p", ""}
    assert {pod for _, _, pod in after} == {""}
    assert len(after) == len(before), "each GPU has one set of series"


@pytest.mark.contract("S1-B17", "S4-12")
def test_temperature_power_clocks_and_xid_follow_what_each_gpu_does() -> None:
    failed = {1: Failure(xid=48)}
    found = assign(fake(f"{H200}, gpuCount: 3", failures=failed), [busy("p", 90)])
    seen = series(scrape(found))
    for name in ("DCGM_FI_DEV_GPU_TEMP", "DCGM_FI_DEV_POWER_USAGE", "DCGM_FI_DEV_SM_CLOCK"):
        assert int(seen[name, "0", "p"]) > int(seen[name, "2", ""]) > 0, name
    assert int(seen["DCGM_FI_DEV_MEM_CLOCK", "0", "p"]) > 0
    xids = [seen["DCGM_FI_DEV_XID_ERRORS", gpu, pod] for gpu, pod in (("0", "p"), ("1", ""))]
    assert xids == ["0", "48"]
    assert seen["DCGM_FI_PROF_GR_ENGINE_ACTIVE", "0", "p"] == "0.9"


@pytest.mark.contract("S1-B17", "S1-63")
def test_instances_have_profile_and_driver_and_no_utilisation() -> None:
    """``GPU_I_PROFILE``, ``GPU_I_ID``, ``DCGM_FI_DRIVER_VERSION``."""
    cut = f"{H200}, gpuCount: 1, mig: {{mig-devices: {{3g.40gb: 1, 1g.10gb: 1}}}}"
    text = scrape(assign(fake(cut), [use("p", resource="nvidia.com/mig-1g.10gb")]))
    assert "DCGM_FI_DEV_GPU_UTIL" not in text
    used = [line for line in text.splitlines() if line.startswith("DCGM_FI_DEV_FB_USED{")]
    (mine,) = (line for line in used if 'pod="p"' in line)
    assert 'GPU_I_PROFILE="1g.10gb",GPU_I_ID="' in mine
    assert 'DCGM_FI_DRIVER_VERSION="' in mine
    assert len(used) == 2


@pytest.mark.contract("S1-B28")
def test_memory_is_mib_everywhere_and_used_and_free_are_the_whole() -> None:
    seen = series(scrape(assign(fake(TWO), [busy("p", 1, fraction=0.25)])))
    used = int(seen["DCGM_FI_DEV_FB_USED", "0", "p"])
    assert used == 71680 // 4
    assert used + int(seen["DCGM_FI_DEV_FB_FREE", "0", "p"]) == 71680


def test_a_gpu_that_is_off_the_bus_tells_nothing() -> None:
    found = fake(TWO, failures={0: Failure(xid=79, off_bus=True)})
    assert {gpu for _, gpu, _ in series(scrape(found))} == {"1"}


def test_a_name_cannot_break_the_text() -> None:
    found = assign(fake('gpuProduct: "a\\"b", gpuCount: 1, gpuMemory: 1024'), [])
    assert r'modelName="a\"b"' in scrape(found)


def test_every_container_has_its_own_series() -> None:
    """Of one pod: two containers, a GPU each."""
    pod = use("p", needs=(Need("a", GPU, 1), Need("b", GPU, 1)))
    lines = scrape(assign(fake(TWO), [pod])).splitlines()
    util = [line for line in lines if line.startswith("DCGM_FI_DEV_GPU_UTIL{")]
    assert [re.findall(r'container="(\w*)"', line)[0] for line in util] == ["a", "b"]
