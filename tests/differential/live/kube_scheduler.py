"""The kube-scheduler of the live run: its configuration, and which objects it has seen."""

from __future__ import annotations

import json
import re
import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import aiohttp

from scheduler.model import well_known
from tools.controlplane import ControlPlane
from tools.controlplane.commands import SCHEDULER
from tools.controlplane.process import tail

#: Its own batches would skip filters for equal pods.
GATES: Final = "OpportunisticBatching=false"
#: How the metric writes kinds whose plural it guesses.
_PLURALS: Final = {
    "deviceclasses": "deviceclasss",
    "storageclasses": "storageclasss",
    "csistoragecapacities": "csistoragecapacitys",
}
_METRIC: Final = "informer_store_resource_version"
_STORE: Final = re.compile(
    _METRIC.encode() + rb'\{[^}]*resource="(\w+)"[^}]*\} (\S+)$', re.MULTILINE
)


def configuration(kubeconfig: Path, extender_url: str) -> dict[str, Any]:
    """A KubeSchedulerConfiguration that examines every node and asks our extender."""
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "clientConnection": {"kubeconfig": str(kubeconfig), "qps": 5000, "burst": 5000},
        "leaderElection": {"leaderElect": False},
        "percentageOfNodesToScore": 100,
        "profiles": [{"schedulerName": well_known.SCHEDULER_NAME}],
        "extenders": [
            {
                "urlPrefix": extender_url,
                "filterVerb": "filter",
                "preemptVerb": "preempt",
                "nodeCacheCapable": True,
                "httpTimeout": "120s",
            }
        ],
    }


class KubeScheduler:
    """A kube-scheduler on a control plane that was started without one."""

    def __init__(self, plane: ControlPlane) -> None:
        self._plane = plane
        port = plane.layout.ports.scheduler
        self._metrics = f"https://127.0.0.1:{port}/metrics?name[]={_METRIC}"
        self._tls = ssl.create_default_context(cafile=str(plane.ca_certificate))

    def start(self, extender_url: str) -> None:
        """Start it, and wait until it is ready."""
        layout = self._plane.layout
        path = layout.directory / "kube-scheduler.json"
        config = configuration(layout.kubeconfig(SCHEDULER), extender_url)
        path.write_text(json.dumps(config, indent=2))
        self._plane.start_process(SCHEDULER, [f"--config={path}", f"--feature-gates={GATES}"])

    def log(self) -> str:
        """The end of its log."""
        return tail(self._plane.log(SCHEDULER))

    async def has_seen(self, session: aiohttp.ClientSession, newest: Mapping[str, int]) -> bool:
        """Whether its informers hold these versions of kinds, or newer ones."""
        async with session.get(self._metrics, ssl=self._tls) as response:
            text = await response.read()
        held = {kind.decode(): int(float(value)) for kind, value in _STORE.findall(text)}
        return all(
            held.get(_PLURALS.get(kind, kind), 0) >= version for kind, version in newest.items()
        )
