"""Readings as Prometheus text, with the names, helps and labels of NVIDIA's DCGM exporter.

Rendered from the readings each time, so a series ends with its pod. Pure.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

import msgspec

from fakegpu.node.telemetry import InstanceReading, Part, Reading

NO_HOLDER: Final = Part()


class Exported(msgspec.Struct, frozen=True):
    """One exported GPU of a node, under this host name."""

    hostname: str
    reading: Reading


def host_name(node: str) -> str:
    """The label ``Hostname`` of a node with its own exporter, as in the seed operator.

    >>> host_name("node-1")
    'nvidia-dcgm-exporter-b36828'
    """
    digest = hashlib.sha1(node.encode(), usedforsecurity=False).hexdigest()
    return f"nvidia-dcgm-exporter-{digest[:6]}"


#: A value of a device or of a part of it; None: no series.
_Value = Callable[[Reading, InstanceReading | None, Part, bool], float | int | None]


def _util(gpu: Reading, mig: InstanceReading | None, part: Part, alone: bool) -> int | None:
    if mig is not None:
        return None  # DCGM has none for instances
    return gpu.utilization if alone else part.utilization


def _used(gpu: Reading, mig: InstanceReading | None, part: Part, alone: bool) -> int:
    return (mig or gpu).memory_used if alone else part.memory_used


def _free(gpu: Reading, mig: InstanceReading | None, _part: Part, _alone: bool) -> int:
    device = mig or gpu
    return device.memory_total - device.memory_used


def _engine(gpu: Reading, mig: InstanceReading | None, part: Part, alone: bool) -> float:
    return ((mig or gpu).utilization if alone else part.utilization) / 100


_FAMILIES: Final[tuple[tuple[str, str, _Value], ...]] = (
    ("DCGM_FI_DEV_GPU_UTIL", "GPU Utilization", _util),
    ("DCGM_FI_DEV_FB_USED", "GPU Framebuffer Used", _used),
    ("DCGM_FI_DEV_FB_FREE", "GPU Framebuffer Free", _free),
    ("DCGM_FI_DEV_GPU_TEMP", "GPU temperature (in C).", lambda g, *_: g.temperature),
    ("DCGM_FI_DEV_POWER_USAGE", "Power draw (in W).", lambda g, *_: g.power_draw),
    ("DCGM_FI_DEV_SM_CLOCK", "SM clock frequency (in MHz).", lambda g, *_: g.sm_clock),
    ("DCGM_FI_DEV_MEM_CLOCK", "Memory clock frequency (in MHz).", lambda g, *_: g.memory_clock),
    ("DCGM_FI_DEV_XID_ERRORS", "Value of the last XID error encountered.", lambda g, *_: g.xid),
    (
        "DCGM_FI_PROF_GR_ENGINE_ACTIVE",
        "Ratio of time the graphics engine is active.",
        _engine,
    ),
)


def render(gpus: Iterable[Exported]) -> str:
    """The text of a scrape."""
    series = [row for one in gpus if not one.reading.is_lost for row in _series(one)]
    lines: list[str] = []
    for name, text, value in _FAMILIES:
        rows = [(labels, value(*what)) for labels, what in series]
        if any(number is not None for _, number in rows):
            lines += [f"# HELP {name} {text}", f"# TYPE {name} gauge"]
            lines += [f"{name}{{{labels}}} {v}" for labels, v in rows if v is not None]
    return "\n".join((*lines, ""))


_What = tuple[Reading, InstanceReading | None, Part, bool]


def _series(one: Exported) -> Iterator[tuple[str, _What]]:
    """One series per container that holds a device, and one for an unused device."""
    gpu = one.reading
    devices: list[InstanceReading | None] = [*gpu.instances] if gpu.instances else [None]
    for mig in devices:
        parts = (mig.parts if mig is not None else gpu.parts) or (NO_HOLDER,)
        for part in parts:
            yield _labels(one, mig, part), (gpu, mig, part, len(parts) == 1)


def _labels(one: Exported, mig: InstanceReading | None, part: Part) -> str:
    gpu = one.reading
    labels: dict[str, str] = {
        "gpu": str(gpu.index),
        "UUID": gpu.uuid,
        "device": f"nvidia{gpu.index}",
        "modelName": gpu.name,
    }
    if mig is not None:
        labels |= {"GPU_I_PROFILE": mig.profile, "GPU_I_ID": str(mig.number)}
        labels["DCGM_FI_DRIVER_VERSION"] = gpu.driver_version
    labels |= {
        "Hostname": one.hostname,
        "container": part.container,
        "namespace": part.namespace,
        "pod": part.pod,
    }
    return _text(labels)


def _text(labels: Mapping[str, str]) -> str:
    return ",".join(f'{key}="{_escaped(value)}"' for key, value in labels.items())


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
