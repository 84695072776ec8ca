"""The webhook as a real process, registered with a real API server; its scheduler is the test's.

Only what the scheduler answers is decided here. It listens on a real Unix socket, in a thread of
its own, so that the tests can stay plain and synchronous.
"""

from __future__ import annotations

import asyncio
import datetime
import json
import re
import ssl
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import msgspec
from aiohttp import web

from scheduler.controllers.certificates.issuer import CertificateBundle, make_certificates
from scheduler.model import well_known
from scheduler.model.admission import AdmissionDecision
from tests.patience import PATIENCE_S
from tests.unit.webhook.pods import pod
from tests.unit.webhook.scheduler import SchedulerEnd
from tools.controlplane import ControlPlane, wait_until
from webhook.webhook_configuration import NAME, webhook_configuration

ROOT: Final = Path(__file__).parents[2]
POLICIES: Final = ROOT / "cluster" / "admission-policies.yaml"

Json = dict[str, Any]
Say = Callable[[Json], AdmissionDecision]


def nothing(_question: Json) -> AdmissionDecision:
    """The scheduler changes nothing."""
    return AdmissionDecision()


class Bench:
    """A running webhook, what its scheduler was asked, and what it will say."""

    def __init__(self, plane: ControlPlane, folder: Path) -> None:
        self.plane = plane
        self.folder = folder
        self.say: Say = nothing
        self.bundle = self.renew()
        self.port = 0
        self._end: SchedulerEnd | None = None
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def questions(self) -> list[Json]:
        """Every question so far."""
        assert self._end is not None, "started"
        return self._end.questions

    def renew(self) -> CertificateBundle:
        """Write a new pair by a new authority, the key after the certificate."""
        now = datetime.datetime.now(datetime.UTC)
        bundle = make_certificates(["localhost"], ["127.0.0.1"], 1, now=now)
        (self.folder / "tls.crt").write_bytes(bundle.cert_pem)
        (self.folder / "tls.key").write_bytes(bundle.key_pem)
        return bundle

    def register(self, *authorities: bytes) -> None:
        """Tell the API server; it learns of changes through a watch of its own."""
        body = webhook_configuration(
            ca_bundle=b"".join(authorities or (self.bundle.ca_pem,)),
            scheduler_name="gpu-scheduler",
            own_namespace="gpu-scheduler-system",
            url=f"https://127.0.0.1:{self.port}",
        )
        self.plane.kubectl("apply", "-f", "-", input=json.dumps(body))

    def reviews(self) -> int:
        """How many reviews the API server has sent."""
        page = self.page("/metrics")
        found = re.findall(r"^gpu_scheduler_webhook_reviews_total\{.*\} ([0-9.]+)$", page, re.M)
        return round(sum(map(float, found)))

    def page(self, path: str) -> str:
        """A page of the webhook's own."""
        context = ssl.create_default_context(cadata=self.bundle.ca_pem.decode())
        url = f"https://127.0.0.1:{self.port}{path}"
        with urllib.request.urlopen(url, context=context, timeout=30) as answer:
            text: str = answer.read().decode()
            return text

    def start(self) -> None:
        """Start the process on its port; the first time on a free one."""
        words = [
            *("--socket", str(self.folder / "s"), "--cert-dir", str(self.folder)),
            *("--host", "127.0.0.1", "--port", str(self.port), "--log-format", "json"),
        ]
        with (self.folder / "log").open("w") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "webhook", *words], cwd=ROOT, stdout=log
            )
        lines = self.wait_for_log("Webhook server ready")
        self.port = int(lines[0].rpartition(" ")[2])

    def stop(self) -> None:
        """End the process as the kubelet would."""
        assert self._process is not None, "started"
        self._process.terminate()
        assert self._process.wait(timeout=60) == 0

    @contextmanager
    def away(self) -> Iterator[None]:
        """The process is not there for as long as the block lasts; then it is back."""
        try:
            self.stop()
            yield
        finally:
            self.start()

    def log(self) -> list[str]:
        """What the process has said since its start."""
        texts = (self.folder / "log").read_text().splitlines(keepends=True)
        return [str(json.loads(text)["event"]) for text in texts if text.endswith("\n")]

    def wait_for_log(self, line: str) -> list[str]:
        """The log's messages once it has this one."""
        wait_until(lambda: line in self.log(), what=f"the line {line!r}", last=self.log)
        return self.log()

    async def serve(self, started: threading.Event, end: asyncio.Event) -> None:
        """The scheduler's end of the socket."""

        async def reply(question: Json) -> web.Response:
            return web.Response(
                body=msgspec.json.encode(self.say(question)), content_type="application/json"
            )

        self._end = SchedulerEnd(self.folder / "s", reply)
        async with self._end:
            started.set()
            await end.wait()

    def is_called(self) -> bool:
        """Whether the API server has learned of us; asked by a pod that is never stored."""
        path = "/api/v1/namespaces/default/pods?dryRun=All"
        return well_known.CUDA_ENV in json.dumps(
            self.plane.client.create(path, pod(map_text="0=a:0"))
        )


@contextmanager
def running(plane: ControlPlane) -> Iterator[Bench]:
    """Everything up, registered and called, with the policy beside it; gone afterwards."""
    plane.kubectl("apply", "-f", str(POLICIES))
    with TemporaryDirectory(prefix="hook") as name:
        bench = Bench(plane, Path(name))
        loop = asyncio.new_event_loop()
        started, end = threading.Event(), asyncio.Event()
        thread = threading.Thread(target=loop.run_until_complete, args=(bench.serve(started, end),))
        thread.start()
        try:
            assert started.wait(PATIENCE_S), "the scheduler's end did not start"
            bench.start()
            bench.register()
            wait_until(bench.is_called, what="the API server to call the webhook")
            yield bench
        finally:
            plane.kubectl("delete", "mutatingwebhookconfiguration", NAME, "--ignore-not-found")
            plane.kubectl("delete", "--ignore-not-found", "-f", str(POLICIES))
            loop.call_soon_threadsafe(end.set)
            thread.join()
            loop.close()
            bench.stop()
