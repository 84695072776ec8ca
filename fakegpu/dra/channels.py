"""A channel of a compute domain in a container: a device file, and its claim."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec

from fakegpu import names
from fakegpu.dra.api_types import Configured, Result
from fakegpu.dra.cdi import COMMON, CdiDevice, DeviceNode
from fakegpu.dra.claim_preparer import NotPrepared
from fakegpu.dra.domains import CONFIG_KIND, CONFIG_VERSION

CDI_KIND: Final = f"k8s.{names.DOMAIN_DRIVER}/computedomain"
IN_CONTAINER: Final = "/dev/nvidia-caps-imex-channels/channel0"
NOTHING: Final = "/dev/null"
NOTHING_MAJOR, NOTHING_MINOR = 1, 3


class _Parameters(msgspec.Struct, frozen=True, rename="camel"):
    api_version: str
    kind: str
    domain_id: str = msgspec.field(name="domainID")


class Channels:
    """The channels of one node; files of domains are below ``folder``."""

    driver = names.DOMAIN_DRIVER

    def __init__(self, node: str, folder: Path) -> None:
        self._node = node
        self._folder = folder / "nvcdi"

    def common(self) -> CdiDevice:
        """The CDI device with the node's name."""
        return CdiDevice(COMMON, (f"NODE_NAME={self._node}",))

    def equip(self, uid: str, result: Result, config: Sequence[Configured]) -> CdiDevice:
        """The channel's file and its claim; or NotPrepared.

        The file outlives the claim, as other claims of the domain may use it.
        """
        if result.device != names.CHANNEL:
            raise NotPrepared(f"node {self._node} has no channel {result.device}")
        file = self._folder / self._domain(config) / result.device
        file.parent.mkdir(parents=True, exist_ok=True)
        fresh = file.with_suffix(".new")
        fresh.unlink(missing_ok=True)
        fresh.symlink_to(NOTHING)
        os.replace(fresh, file)
        variable = f"COMPUTE_DOMAIN_DEVICE_{result.device}_RESOURCE_CLAIM={uid}"
        node = DeviceNode(IN_CONTAINER, str(file), NOTHING_MAJOR, NOTHING_MINOR)
        return CdiDevice(f"{uid}-{result.device}", (variable,), nodes=(node,))

    def _domain(self, config: Sequence[Configured]) -> str:
        for one in config:
            if one.opaque is None or one.opaque.driver != self.driver:
                continue
            try:
                found = msgspec.json.decode(one.opaque.parameters, type=_Parameters)
            except msgspec.MsgspecError as problem:
                raise NotPrepared(f"parameters of the channel: {problem}") from problem
            if (found.api_version, found.kind) != (CONFIG_VERSION, CONFIG_KIND):
                raise NotPrepared(f"expected {CONFIG_VERSION} {CONFIG_KIND}, got {found.kind}")
            if not found.domain_id.replace("-", "").isalnum():
                raise NotPrepared(f"{found.domain_id!r} is no domain's id")
            return found.domain_id
        raise NotPrepared("the claim names no compute domain: use its template")
