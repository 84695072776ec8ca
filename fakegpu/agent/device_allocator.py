"""What containers get: the scheduler's choice of devices, and nvidia-smi with their readings."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import grpc.aio
import msgspec
import structlog

from fakegpu import pod_decode
from fakegpu.agent.host_dir import IN_CONTAINER, SMI_IN_CONTAINER, HostDir
from fakegpu.deviceplugin.messages import Equipment, Mount, PodResourcesList, Wish
from fakegpu.deviceplugin.plugin import Refused, held
from fakegpu.node.advertised_devices import physical
from fakegpu.node.feature_discovery import PREFIX
from fakegpu.node.pod_devices import PodUse
from fakegpu.node.preferred_allocation import Ask, Known, preferred, refusal
from fakegpu.topology.node_topology import NodeTopology
from scheduler.watch.client import ApiError, Client, Unreachable
from scheduler.watch.decode.api_types import Listed

PODS_S: Final = 3.0
KUBELET_S: Final = 2.0

log = structlog.get_logger("device-plugin")
_LIST = msgspec.json.Decoder(Listed)


class DeviceAllocator:
    """One node's; ``topology`` is None until it is known."""

    def __init__(
        self,
        client: Client,
        node: str,
        reservations: str,
        folder: HostDir,
        kubelet: Path,
        topology: Callable[[], NodeTopology | None],
        given: Callable[[], None],
    ) -> None:
        self._client = client
        self._node = node
        self._read_pod = pod_decode.pod(reservations)
        self._folder = folder
        self._kubelet = kubelet
        self._topology = topology
        self._given = given

    async def prefer(self, resource: str, wish: Wish) -> tuple[str, ...]:
        """What was chosen for the pod that is being started; else the best spread.

        Pods are asked for anew, of the API server for what they are and of the kubelet for whom it
        has taken in: it may have heard of this one before any watch of ours has.
        """
        topology = self._topology()
        if topology is None:
            return ()
        ask = Ask(
            resource=resource, count=wish.size, available=wish.available, must=wish.must_include
        )
        pods, known = await asyncio.gather(self._pods(), self._known(resource))
        return preferred(topology, ask, pods, known)

    async def _known(self, resource: str) -> Known:
        try:
            listed = await held(self._kubelet, KUBELET_S)
        except (grpc.aio.AioRpcError, TimeoutError, OSError) as error:
            log.warning("the kubelet does not tell its pods", problem=str(error))
            return Known()
        return known_of(listed, resource)

    async def _pods(self) -> list[PodUse]:
        params = {"fieldSelector": f"spec.nodeName={self._node}"}
        try:
            content = await self._client.request(
                "GET", "/api/v1/pods", params=params, timeout_s=PODS_S
            )
        except (ApiError, Unreachable) as error:
            log.warning("pods unknown, devices are given by index", problem=str(error))
            return []
        facts = (self._read_pod(bytes(item))[1] for item in _LIST.decode(content).items or ())
        return [one.use for one in facts if one is not None]

    async def equip(self, resource: str, ids: Sequence[str]) -> Equipment:
        """The seed operator's environment and mount, and the devices' folders."""
        topology = self._topology()
        problem = refusal(topology, resource, len(ids)) if topology else "no topology yet"
        if problem:
            raise Refused(problem)
        log.info("allocated", resource=resource, devices=",".join(ids))
        self._given()
        devices = list(dict.fromkeys(physical(one) for one in ids))
        if not resource.startswith(PREFIX) and not devices[0].startswith(("GPU-", "MIG-")):
            return Equipment()
        mounts = [
            Mount(str(IN_CONTAINER / device), self._folder.device_on_host(device), True)
            for device in devices
        ]
        if self._folder.has_smi:
            mounts.append(Mount(str(SMI_IN_CONTAINER), self._folder.smi_on_host(), True))
        return Equipment(
            envs={
                "MOCK_NVIDIA_VISIBLE_DEVICES": ",".join(devices),
                "NVIDIA_VISIBLE_DEVICES": ",".join(devices),
                "NODE_NAME": self._node,
            },
            mounts=tuple(mounts),
        )


def known_of(listed: PodResourcesList, resource: str) -> Known:
    """Whom the kubelet has taken in, and who of them holds units of a resource."""
    return Known(
        frozenset((pod.namespace, pod.name) for pod in listed.pods),
        frozenset(
            (pod.namespace, pod.name, container.name)
            for pod in listed.pods
            for container in pod.containers
            if any(one.resource == resource and one.ids for one in container.devices)
        ),
    )
