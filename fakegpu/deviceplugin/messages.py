"""The messages of the kubelet's interfaces for device plugins, in the order of their numbers.

``v1beta1.Registration`` and ``v1beta1.DevicePlugin``, and of ``v1.PodResourcesLister`` what tells
which container holds which device.
"""

from __future__ import annotations

from typing import Final

import msgspec

from fakegpu.protobuf import Message

VERSION: Final = "v1beta1"
REGISTRATION: Final = "v1beta1.Registration"
DEVICE_PLUGIN: Final = "v1beta1.DevicePlugin"
POD_RESOURCES: Final = "v1.PodResourcesLister"
HEALTHY, UNHEALTHY = "Healthy", "Unhealthy"


class Empty(Message, frozen=True):
    """Nothing to say."""


class Options(Message, frozen=True):
    """What a plugin wants to be asked."""

    pre_start_required: bool = False
    get_preferred_allocation_available: bool = False


class RegisterRequest(Message, frozen=True):
    """A plugin introduces itself; the endpoint is a file beside the kubelet's socket."""

    version: str = ""
    endpoint: str = ""
    resource_name: str = ""
    options: Options | None = None


class NumaNode(Message, frozen=True):
    """A NUMA zone."""

    id: int = 0


class Topology(Message, frozen=True):
    """Near which zones a device is."""

    nodes: tuple[NumaNode, ...] = ()


class PluginDevice(Message, frozen=True):
    """One unit."""

    id: str = ""
    health: str = HEALTHY
    topology: Topology | None = None


class DeviceList(Message, frozen=True):
    """All units of a resource, as they are now."""

    devices: tuple[PluginDevice, ...] = ()


class Wish(Message, frozen=True):
    """Which units would be best for a container, out of those that are free."""

    available: tuple[str, ...] = ()
    must_include: tuple[str, ...] = ()
    size: int = 0


class PreferredRequest(Message, frozen=True):
    """One wish for each container."""

    containers: tuple[Wish, ...] = ()


class Ids(Message, frozen=True):
    """Units by their ids."""

    ids: tuple[str, ...] = ()


class PreferredResponse(Message, frozen=True):
    """The answer to each wish."""

    containers: tuple[Ids, ...] = ()


class AllocateRequest(Message, frozen=True):
    """The units that each container gets."""

    containers: tuple[Ids, ...] = ()


class Mount(Message, frozen=True):
    """A file or folder of the node in the container."""

    container_path: str = ""
    host_path: str = ""
    read_only: bool = False


class DeviceFile(Message, frozen=True):
    """A device file of the node in the container."""

    container_path: str = ""
    host_path: str = ""
    permissions: str = ""


class Equipment(Message, frozen=True):
    """What a container gets with its units."""

    envs: dict[str, str] = msgspec.field(default_factory=dict)
    mounts: tuple[Mount, ...] = ()
    devices: tuple[DeviceFile, ...] = ()
    annotations: dict[str, str] = msgspec.field(default_factory=dict)


class AllocateResponse(Message, frozen=True):
    """The equipment of each container."""

    containers: tuple[Equipment, ...] = ()


class ContainerDevices(Message, frozen=True):
    """Units of one resource that a container holds."""

    resource: str = ""
    ids: tuple[str, ...] = ()
    topology: Topology | None = None


class ContainerMemory(Message, frozen=True):
    """Memory of a container that is in one place; ``kind`` is ``memory`` or that of huge pages."""

    kind: str = ""
    size: int = 0
    topology: Topology | None = None


class ContainerResources(Message, frozen=True):
    """A container."""

    name: str = ""
    devices: tuple[ContainerDevices, ...] = ()
    processors: tuple[int, ...] = ()
    memory: tuple[ContainerMemory, ...] = ()


class PodResources(Message, frozen=True):
    """A pod."""

    name: str = ""
    namespace: str = ""
    containers: tuple[ContainerResources, ...] = ()


class PodResourcesList(Message, frozen=True):
    """Every pod that the kubelet has admitted."""

    pods: tuple[PodResources, ...] = ()
