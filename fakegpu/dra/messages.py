"""The messages between the kubelet and a DRA driver, in the order of their numbers: the kubelet's
registration of plugins, ``v1.DRAPlugin``, and the health service of gRPC."""

from __future__ import annotations

from typing import Final

import msgspec

from fakegpu.protobuf import Message

REGISTRATION: Final = "pluginregistration.Registration"
DRA_PLUGIN: Final = "k8s.io.kubelet.pkg.apis.dra.v1.DRAPlugin"
#: As a driver names the version of that service.
SUPPORTED: Final = "v1.DRAPlugin"
KIND: Final = "DRAPlugin"
HEALTH: Final = "grpc.health.v1.Health"
SERVING, NOT_SERVING = 1, 2


class Empty(Message, frozen=True):
    """Nothing to say."""


class PluginInfo(Message, frozen=True):
    """Who listens on a registration socket; the endpoint is another socket's path."""

    type: str = ""
    name: str = ""
    endpoint: str = ""
    supported_versions: tuple[str, ...] = ()


class RegistrationStatus(Message, frozen=True):
    """Whether the kubelet has taken the plugin."""

    plugin_registered: bool = False
    error: str = ""


class ClaimName(Message, frozen=True):
    """A claim."""

    namespace: str = ""
    uid: str = ""
    name: str = ""


class ClaimsRequest(Message, frozen=True):
    """Claims to prepare, or to unprepare."""

    claims: tuple[ClaimName, ...] = ()


class PreparedDevice(Message, frozen=True):
    """A device of a claim, and what the container runtime shall do for it."""

    request_names: tuple[str, ...] = ()
    pool_name: str = ""
    device_name: str = ""
    cdi_device_ids: tuple[str, ...] = ()
    share_id: str = ""


class Prepared(Message, frozen=True):
    """The devices of a claim, or why there are none."""

    devices: tuple[PreparedDevice, ...] = ()
    error: str = ""


class PrepareResponse(Message, frozen=True):
    """By the claims' uids."""

    claims: dict[str, Prepared] = msgspec.field(default_factory=dict)


class Unprepared(Message, frozen=True):
    """Nothing, or why it did not work."""

    error: str = ""


class UnprepareResponse(Message, frozen=True):
    """By the claims' uids."""

    claims: dict[str, Unprepared] = msgspec.field(default_factory=dict)


class HealthRequest(Message, frozen=True):
    """Which service is asked about; an empty text: all of them."""

    service: str = ""


class HealthResponse(Message, frozen=True):
    """How it is."""

    status: int = 0
