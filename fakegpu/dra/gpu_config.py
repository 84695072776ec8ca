"""Parameters of a claim for its devices (``GpuConfig``), as environment variables. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Literal

import msgspec

from fakegpu.dra.api_types import Configured, Result

API_VERSION: Final = "gpu.resource.example.com/v1alpha1"
KIND: Final = "GpuConfig"


class BadConfig(ValueError):
    """Invalid parameters: the place and the problem."""


class _Strict(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """A part of the parameters."""


class TimeSlicing(_Strict, frozen=True):
    """The duration of a time slice."""

    interval: Literal["Default", "Short", "Medium", "Long"] = "Default"


class SpacePartitioning(_Strict, frozen=True):
    """The number of parts."""

    partition_count: int = 1


class SharingConfig(_Strict, frozen=True):
    """The sharing strategy of a device."""

    strategy: Literal["TimeSlicing", "SpacePartitioning"]
    time_slicing_config: TimeSlicing | None = None
    space_partitioning_config: SpacePartitioning | None = None


class GpuConfig(_Strict, frozen=True):
    """The whole document."""

    api_version: str
    kind: str
    sharing: SharingConfig | None = None


_DECODER: Final = msgspec.json.Decoder(GpuConfig)


def sharing_of(driver: str, result: Result, config: Iterable[Configured]) -> SharingConfig | None:
    """The sharing of a device: the last entry for its request; or BadConfig.

    The class's parameters come first, so those of the claim have precedence.
    """
    found = None
    names = (result.request, result.request.partition("/")[0])
    for number, one in enumerate(config):
        if one.opaque is None or one.opaque.driver != driver:
            continue
        if not one.requests or any(name in one.requests for name in names):
            found = _parse(bytes(one.opaque.parameters), number).sharing
    return found


def _parse(parameters: bytes, number: int) -> GpuConfig:
    where = f"status.allocation.devices.config[{number}].opaque.parameters"
    try:
        config = _DECODER.decode(parameters)
    except msgspec.MsgspecError as error:
        raise BadConfig(f"{where}: {error}") from error
    if (config.api_version, config.kind) != (API_VERSION, KIND):
        raise BadConfig(
            f"{where}: expected apiVersion {API_VERSION} and kind {KIND},"
            f" got {config.api_version} {config.kind}"
        )
    return config


def variables(device: str, sharing: SharingConfig | None) -> list[str]:
    """The environment of a container that holds a device.

    >>> variables("gpu-9c37", None)
    ['GPU_DEVICE_gpu_9c37=gpu-9c37']
    """
    name = "GPU_DEVICE_" + device.replace("-", "_")
    found = [f"{name}={device}"]
    if sharing is None:
        return found
    found.append(f"{name}_SHARING_STRATEGY={sharing.strategy}")
    if sharing.strategy == "TimeSlicing":
        slicing = sharing.time_slicing_config or TimeSlicing()
        found.append(f"{name}_TIMESLICE_INTERVAL={slicing.interval}")
    else:
        parts = sharing.space_partitioning_config or SpacePartitioning()
        found.append(f"{name}_PARTITION_COUNT={parts.partition_count}")
    return found
