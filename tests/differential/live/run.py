"""One control plane with kube-scheduler and our side, ready to run sequences."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import aiohttp

from scheduler.framework.pipeline import Pipeline
from scheduler.watch.client import Client
from tests.differential.live.claim_controller import ClaimController
from tests.differential.live.driver import Driver
from tests.differential.live.extender import Extender
from tests.differential.live.kube_scheduler import KubeScheduler
from tests.differential.live.mirror import HarnessError, Mirror
from tests.differential.live.volume_controller import VolumeController
from tests.differential.live.writes import Writer
from tests.differential.our_side import PIPELINE, OurSide
from tests.differential.recordings import Recording
from tests.differential.sequence import Sequence
from tools.controlplane import ControlPlane

#: How often a sequence is run where the run itself fails.
RUNS_MAX: Final = 3
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
                claims = ClaimController(writer, mirror)
                yield Driver(writer, mirror, extender, volumes, claims, kube_scheduler, session)
        finally:
            await client.close()


async def steady(driver: Driver, sequence: Sequence) -> Recording:
    """Run a sequence, again where the run itself failed."""
    for _ in range(RUNS_MAX - 1):
        try:
            return await driver.run(sequence)
        except HarnessError as error:
            sys.stderr.write(f"{sequence.name} is run again: {error}\n")
    return await driver.run(sequence)
