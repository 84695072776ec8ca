"""One control plane with kube-scheduler and our side, ready to run sequences."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import aiohttp

from scheduler.framework.pipeline import Pipeline
from scheduler.watch.client import Client
from tests.differential.live.driver import Driver
from tests.differential.live.extender import Extender
from tests.differential.live.kube_scheduler import KubeScheduler
from tests.differential.live.mirror import Mirror
from tests.differential.live.volume_controller import VolumeController
from tests.differential.live.writes import Writer
from tests.differential.our_side import PIPELINE, OurSide
from tools.controlplane import ControlPlane

#: No taints, tolerations and finalizers but those of the sequence; pods need no ServiceAccount.
WITHOUT: Final = (
    "ServiceAccount",
    "TaintNodesByCondition",
    "DefaultTolerationSeconds",
    "StorageObjectInUseProtection",
)


@asynccontextmanager
async def lock_step(directory: Path, pipeline: Pipeline = PIPELINE) -> AsyncIterator[Driver]:
    """Start etcd, the API server and kube-scheduler, and connect our side to them."""
    with ControlPlane.start(
        directory, components=(), kwok=False, disable_admission=WITHOUT
    ) as plane:
        client = await Client.connect(str(plane.kubeconfig), "gpu-scheduler/differential")
        try:
            mirror = Mirror(client, OurSide(pipeline))
            extender = Extender(mirror.wake)
            async with (
                mirror.running(),
                extender.serving() as url,
                aiohttp.ClientSession() as session,
            ):
                kube_scheduler = KubeScheduler(plane)
                kube_scheduler.start(url)
                writer = Writer(client, mirror)
                await writer.prepare()
                volumes = VolumeController(writer, mirror)
                yield Driver(writer, mirror, extender, volumes, kube_scheduler, session)
        finally:
            await client.close()
