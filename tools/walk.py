"""``python -m tools.walk``: the number of files and functions on the path of one pod.

It runs the whole scheduler on a client that holds three nodes, and traces every call of scheduler
and webhook with ``sys.setprofile``: from the watch line of a pending pod to its Binding and its
event, and from the bytes of an admission review to the bytes of its response. HTTP is left out,
and so is what the loop does once a second whether pods come or not (``Loop._tick``).

Time passes only while nothing is ready (``IdleClockLoop``), also for the scheduler: on a busy
machine a trip takes longer, and timers of other work would add their files to those of the trip.

A plugin counts only if it did more than skip: if every call of its file returned nothing, an empty
answer or its input placement, the file is not counted.
"""

from __future__ import annotations

import asyncio
import json
import selectors
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from itertools import pairwise
from pathlib import Path
from types import FrameType
from typing import Any, Final, cast

import msgspec
import structlog

from scheduler.admission.server import AdmissionServer
from scheduler.app import App
from scheduler.config import Config
from scheduler.httpserver.messages import JSON, Head, Reply, Request
from scheduler.loop import Loop
from scheduler.model import well_known
from scheduler.model.admission import PATH, AdmissionDecision, AdmissionQuery
from scheduler.report.metrics import Metrics as SchedulerMetrics
from scheduler.watch.client import Client
from webhook.handler import ReviewHandler
from webhook.metrics import Metrics
from webhook.mutate.pod_mutation import Config as Mutation
from webhook.scheduler_client import SchedulerClient

ROOT: Final = Path(__file__).parents[1]
TRACED: Final = (str(ROOT / "scheduler"), str(ROOT / "webhook"))
PLUGINS: Final = str(ROOT / "scheduler" / "plugins")
QUIET_S: Final = 0.2
WAIT_S: Final = 10.0

MIG_2G: Final = well_known.mig_resource("2g.20gb")
MIG_1G: Final = well_known.mig_resource("1g.10gb")

Json = dict[str, Any]


class Walk:
    """The calls of one path."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, str]] = []
        self._did_work: set[str] = set()
        self._tick: FrameType | None = None

    def start(self) -> None:
        """Start tracing."""
        sys.setprofile(self._note)

    def stop(self) -> None:
        """Stop tracing."""
        sys.setprofile(None)

    def _note(self, frame: FrameType, event: str, argument: object) -> None:
        file = frame.f_code.co_filename
        if frame is self._tick and event == "return":
            self._tick = None
        if self._tick is not None:
            return
        if not file.startswith(TRACED):
            return
        if event == "call":
            if frame.f_code is Loop._tick.__code__:
                self._tick = frame
                return
            self.calls.append((file, frame.f_code.co_qualname))
        elif event == "return" and file.startswith(PLUGINS) and not _skips(frame, argument):
            self._did_work.add(file)

    def counted(self) -> list[tuple[str, str]]:
        """The calls, without plugins that skip."""
        return [
            (file, name)
            for file, name in self.calls
            if not file.startswith(PLUGINS) or file in self._did_work
        ]

    def figures(self) -> tuple[int, int, int]:
        """Files, functions, and switches from one file to another."""
        calls = self.counted()
        files = [file for file, _ in calls]
        switches = sum(1 for one, other in pairwise(files) if one != other)
        return len(set(files)), len({call for call in calls if "<" not in call[1]}), switches

    def files(self) -> list[str]:
        """The files, in the order of their first call."""
        return [
            str(Path(file).relative_to(ROOT))
            for file in dict.fromkeys(f for f, _ in self.counted())
        ]


def _skips(frame: FrameType, answer: object) -> bool:
    """Whether a call has no result: no reason, no penalty, or its input."""
    return not answer or answer is frame.f_locals.get("placement") or answer == (0, 0.0, 0)


class FakeClient:
    """Three nodes and no pods; watches that a test feeds, and requests that all succeed."""

    def __init__(self, nodes: list[Json]) -> None:
        self._lists = {"nodes": nodes, "namespaces": [_namespace()]}
        self._watches: dict[str, asyncio.Queue[bytes]] = {}
        self.sent: asyncio.Queue[tuple[str, str]] = asyncio.Queue()

    async def request(self, method: str, path: str, body: bytes | None = None, **_: Any) -> bytes:
        """A list, or a recorded request that succeeds."""
        if method == "GET":
            items = self._lists.get(path.rpartition("/")[2], [])
            return json.dumps({"metadata": {"resourceVersion": "1"}, "items": items}).encode()
        self.sent.put_nowait((method, path))
        return body or b"{}"

    @asynccontextmanager
    async def stream(
        self, path: str, _params: Mapping[str, str], **_: Any
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        """The lines of ``send``."""
        yield self._lines(self._watches.setdefault(path.rpartition("/")[2], asyncio.Queue()))

    async def _lines(self, queue: asyncio.Queue[bytes]) -> AsyncIterator[bytes]:
        while True:
            yield await queue.get()

    def send(self, plural: str, item: Json) -> None:
        """A watch line: the object was added."""
        line = json.dumps({"type": "ADDED", "object": item}).encode()
        self._watches.setdefault(plural, asyncio.Queue()).put_nowait(line)

    async def is_quiet(self) -> None:
        """Wait until every kind is watched and no event arrived for a while."""
        known = -1
        while known != len(self._watches):
            known = len(self._watches)
            await asyncio.sleep(QUIET_S)

    async def close(self) -> None:
        """No connection is open."""


class DirectLink(SchedulerClient):
    """The webhook's query and the scheduler's answer as bytes, without a socket."""

    def __init__(self, server: AdmissionServer) -> None:
        super().__init__(Path("unused"))
        self._server = server

    async def ask(self, question: AdmissionQuery) -> AdmissionDecision | None:
        """The scheduler's answer."""
        body = msgspec.json.encode(question)
        reply = self._server._handle(Request(Head("POST", PATH, {}), body))
        return self._read(reply if isinstance(reply, Reply) else await reply)


def nodes() -> list[Json]:
    """A node with whole GPUs, one with MIG instances, and one whose large instances are in use."""
    return [
        _node("n1", {well_known.GPU: "4"}),
        _node("n2", {MIG_2G: "2", MIG_1G: "2"}),
        _node("n3", {MIG_1G: "4"}),
    ]


def _node(name: str, devices: dict[str, str]) -> Json:
    amounts = {"cpu": "64", "memory": "256Gi", "pods": "110", **devices}
    return {
        "metadata": {
            "name": name,
            "uid": name,
            "resourceVersion": "2",
            "labels": {"kubernetes.io/hostname": name},
        },
        "spec": {},
        "status": {"allocatable": amounts, "capacity": amounts},
    }


def _namespace() -> Json:
    labels = {well_known.MAPS_ALLOWED: "allowed"}
    return {"metadata": {"name": "team", "uid": "team", "labels": labels}}


def pod(name: str, resource: str, annotations: dict[str, str] | None = None) -> Json:
    """A pending pod that requests one device."""
    requests = {"requests": {resource: "1"}, "limits": {resource: "1"}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": "team",
            "uid": name,
            "resourceVersion": "2",
            "annotations": annotations or {},
        },
        "spec": {
            "schedulerName": well_known.SCHEDULER_NAME,
            "containers": [{"name": "main", "image": "x", "resources": requests}],
        },
        "status": {"phase": "Pending"},
    }


PODS: Final[dict[str, Callable[[], Json]]] = {
    "pending pod with a GPU": lambda: pod("gpu-0", well_known.GPU),
    "the same, mapped": lambda: pod("map-0", well_known.GPU, {well_known.MAP: "0=n1:1"}),
    "the same, MIG": lambda: pod("mig-0", MIG_2G),
}
REVIEWS: Final[dict[str, Callable[[], Json]]] = {
    "review of a whole GPU": lambda: pod("r-0", well_known.GPU),
    "review of a map": lambda: pod("r-0", well_known.GPU, {well_known.MAP: "0=n1:2"}),
    "review of MIG with fallback": lambda: pod(
        "r-0", MIG_2G, {well_known.MIG_FALLBACK: "2g.20gb->1g.10gb"}
    ),
}


def review(item: Json) -> bytes:
    """The admission review of a new pod."""
    request = {
        "uid": "1",
        "kind": {"group": "", "version": "v1", "kind": "Pod"},
        "resource": {"group": "", "version": "v1", "resource": "pods"},
        "operation": "CREATE",
        "namespace": "team",
        "object": item,
    }
    body = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
    return json.dumps(body).encode()


class IdleClock(selectors.DefaultSelector):
    """Does not wait: where nothing is ready, the time of the next timer is now."""

    now = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """The events that are there; without one the time passes."""
        if timeout is None or timeout <= 0:
            return super().select(timeout)
        found = super().select(0)
        if not found:
            self.now += timeout
        return found


class IdleClockLoop(asyncio.SelectorEventLoop):
    """Timers fire in their order, and only when all other work is done."""

    def __init__(self) -> None:
        self._idle_clock = IdleClock()
        super().__init__(self._idle_clock)

    def time(self) -> float:
        """The time of the timers."""
        return self._idle_clock.now


def walks() -> dict[str, Walk]:
    """Every path, on one scheduler."""
    with asyncio.Runner(loop_factory=IdleClockLoop) as runner:
        return runner.run(_walks())


async def _walks() -> dict[str, Walk]:
    log_settings = structlog.get_config()
    structlog.configure(logger_factory=structlog.ReturnLoggerFactory())
    client = FakeClient(nodes())
    config = _config()
    app = App(config, cast("Client", client), None, clock=asyncio.get_running_loop().time)
    running = asyncio.create_task(app.run())
    found: dict[str, Walk] = {}
    try:
        async with asyncio.timeout(60):
            await client.is_quiet()
            for trip, make in PODS.items():
                found[trip] = await _scheduled(client, make())
            handler = _handler(app, config)
            for trip, make in REVIEWS.items():
                found[trip] = await _reviewed(handler, review(make()))
    finally:
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running
        structlog.configure(**log_settings)
    return found


def _config() -> Config:
    config = Config(health_address="127.0.0.1:0", decisions_address="127.0.0.1:0")
    election = msgspec.structs.replace(config.leader_election, leader_elect=False)
    return msgspec.structs.replace(config, leader_election=election)


def _handler(app: App, config: Config) -> ReviewHandler:
    metrics = SchedulerMetrics(config.scheduler_name)
    server = AdmissionServer(app._loop, config.rules(), metrics, app._loop._clock)
    link, webhook = DirectLink(server), Metrics(lambda: 1.0)
    return ReviewHandler(link, webhook, Mutation(), needs_certificate=False)


async def _scheduled(client: FakeClient, item: Json) -> Walk:
    """From the watch line to the Binding and the event Scheduled."""
    walk = Walk()
    client.send("pods", item)
    walk.start()
    try:
        async with asyncio.timeout(WAIT_S):
            is_bound = False
            while True:
                _, path = await client.sent.get()
                is_bound |= path.endswith("/binding")
                if is_bound and path.endswith("/events"):
                    return walk
    finally:
        walk.stop()


async def _reviewed(handler: ReviewHandler, body: bytes) -> Walk:
    """From the bytes of the review to those of the response."""
    walk = Walk()
    request = Request(Head("POST", "/mutate", {"Content-Type": JSON}), body)
    walk.start()
    try:
        reply = handler.answer(request)
        if not isinstance(reply, Reply):
            await reply
    finally:
        walk.stop()
    return walk


def main() -> int:
    """Print the table; with ``--files`` also the files of each path."""
    found = walks()
    print("| trip | files | functions | switches from file to file |\n|---|---:|---:|---:|")
    for trip, walk in found.items():
        files, functions, switches = walk.figures()
        print(f"| {trip} | {files} | {functions} | {switches} |")
    if "--files" in sys.argv[1:]:
        for trip, walk in found.items():
            print(f"\n{trip}:", *walk.files(), sep="\n  ")
    return 0


if __name__ == "__main__":
    sys.exit(main())
