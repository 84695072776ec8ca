"""A GPU, or an instance of one, in a container with a claim."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, Protocol

from msgspec import UNSET

from fakegpu import names
from fakegpu.dra.api_types import Configured, Result
from fakegpu.dra.cdi import COMMON, CdiDevice, HostMount
from fakegpu.dra.claim_preparer import NotPrepared
from fakegpu.dra.gpu_config import BadConfig, sharing_of, variables
from fakegpu.node.device_names import of_gpu
from fakegpu.node.faults import is_fatal
from fakegpu.node.mig import partitions
from fakegpu.topology.node_topology import Gpu, NodeTopology

CDI_KIND: Final = f"k8s.{names.DRA_DRIVER}/gpu"


class Readings(Protocol):
    """The directory with nvidia-smi and the telemetry of each device."""

    @property
    def has_smi(self) -> bool:
        """Whether nvidia-smi is installed."""

    def smi_on_host(self) -> str:
        """Its path for the container runtime."""

    def hold(self, device: str) -> str:
        """Create a device's directory; returns its path for the container runtime."""


class Gpus:
    """The GPUs of one node; ``topology`` is None until it is known."""

    driver = names.DRA_DRIVER

    def __init__(
        self,
        node: str,
        topology: Callable[[], NodeTopology | None],
        readings: Readings,
        devices_in_container: Path,
        smi_in_container: Path,
    ) -> None:
        self._node = node
        self._topology = topology
        self._readings = readings
        self._devices_in_container = devices_in_container
        self._smi_in_container = str(smi_in_container)

    def common(self) -> CdiDevice:
        """The node's name and nvidia-smi."""
        mounts: tuple[HostMount, ...] = ()
        if self._readings.has_smi:
            mounts = (HostMount(self._readings.smi_on_host(), self._smi_in_container),)
        return CdiDevice(COMMON, (f"NODE_NAME={self._node}",), mounts)

    def equip(self, uid: str, result: Result, config: Sequence[Configured]) -> CdiDevice:
        """The device's variables and telemetry; or NotPrepared."""
        topology = self._topology()
        if topology is None:
            raise NotPrepared("the node's GPUs are not known yet")
        device_id, gpu = self._found(topology, result.device)
        if gpu.failure is not UNSET and is_fatal(gpu.failure):
            raise NotPrepared(f"GPU {gpu.id} {gpu.failure}")
        try:
            sharing = sharing_of(self.driver, result, config)
        except BadConfig as problem:
            raise NotPrepared(str(problem)) from problem
        readings = HostMount(
            self._readings.hold(device_id), str(self._devices_in_container / device_id)
        )
        env = tuple(variables(result.device, sharing))
        return CdiDevice(f"{uid}-{result.device}", env, (readings,))

    def _found(self, topology: NodeTopology, device: str) -> tuple[str, Gpu]:
        """The id of an allocated device, and its GPU."""
        for index, gpu in enumerate(topology.gpus):
            offered = partitions.partitionable_of(topology, gpu)
            parts = partitions.parts(self._node, index, offered.gpu_model) if offered else ()
            names_here = of_gpu(index, gpu, (one for one, _ in parts))
            if device in names_here:
                return names_here[device], gpu
        raise NotPrepared(f"node {self._node} has no device {device} any more")
