"""A client without credentials that reaches our ports, as a program of its own.

    python -m tests.chaos.outsider ATTACK WEBHOOK-PORT HEALTH-PORT SECONDS SEED

It connects from addresses of the loopback network that no API server has, holds what it opened for
so many seconds, and ends by itself. It reaches nothing but the two ports on this machine.
"""

from __future__ import annotations

import contextlib
import json
import random
import resource
import socket
import ssl
import sys
import time
from collections.abc import Callable, Sequence
from typing import Final

from tests.controlplane.workloads import Json, pod

TIMEOUT_S: Final = 5.0
FILES_MAX: Final = 4096
SILENT_TCP: Final = 1500
SILENT_TLS: Final = 1050
SILENT_HTTP: Final = 1100
BODIES: Final = 40
DEEP: Final = b'{"request":{"object":' + b'{"a":' * 100_000
#: Heads and bodies that are no HTTP, or no review.
MALFORMED: Final = (
    b"GET /healthz HTTP/1.1\nHost: x\n\n",
    b"POST /mutate HTTP/1.1\r\nHost: x\r\nX: a\nContent-Length: 37\r\n\r\nGET / HTTP/1.1\r\n",
    b"POST /mutate HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n",
    b"POST /mutate HTTP/1.1\r\nHost: x\r\nContent-Length: \x0b5\r\n\r\nabcde",
    b"POST /mutate HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    b"POST /mutate HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999999999999\r\n\r\n",
    b"GET /metrics HTTP/1.evil\r\nHost: x\r\n\r\n",
    b"GET /" + b"a" * 70_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n",
    b"GET /health HTTP/1.1\r\nHost: x\r\nX: " + b"a" * 70_000 + b"\r\n\r\n",
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    b"GET /healthz\x00 HTTP/1.1\r\nHost: x\r\n\r\n",
    b"\x16\x03\x01\xff\xff" + b"\x00" * 500,
    b"POST /mutate HTTP/1.1\r\nHost: x\r\nContent-Length: 6\r\n\r\n\xff\xfe\xfd\xfc\xfb\xfa",
    b"POST /mutate HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(DEEP) + DEEP,
    b"GET /metrics?limit=" + b"9" * 5000 + b" HTTP/1.1\r\nHost: x\r\n\r\n",
)


class Outsider:
    """Opens connections from one or from many addresses."""

    def __init__(
        self, webhook_port: int, health_port: int, rng: random.Random, until: float
    ) -> None:
        self.webhook_port, self.health_port, self.rng = webhook_port, health_port, rng
        self._until = until
        self._addresses = [f"127.0.0.{n}" for n in rng.sample(range(2, 250), rng.choice((1, 8)))]
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        self._context.check_hostname, self._context.verify_mode = False, ssl.CERT_NONE
        self.held: list[socket.socket] = []

    def tcp(self, port: int) -> socket.socket:
        """A connection that stays open."""
        source = (self.rng.choice(self._addresses), 0)
        plain = socket.create_connection(("127.0.0.1", port), TIMEOUT_S, source_address=source)
        self.held.append(plain)
        return plain

    def tls(self) -> ssl.SSLSocket:
        """The same through the handshake, to the webhook."""
        secure = self._context.wrap_socket(self.tcp(self.webhook_port))
        self.held[-1] = secure
        return secure

    def repeat(self, count: int, action: Callable[[], object]) -> None:
        """Again and again until time is over; what is closed on us is what a server should do."""
        for _ in range(count):
            if time.monotonic() > self._until:
                return
            with contextlib.suppress(OSError):
                action()

    def ask(self, body: bytes) -> None:
        """One review, and what is answered to it."""
        head = f"POST /mutate HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n"
        connection = self.tls()
        connection.sendall(head.encode() + b"Content-Type: application/json\r\n\r\n" + body)
        connection.recv(65536)


def silent_tcp(outsider: Outsider) -> None:
    outsider.repeat(SILENT_TCP, lambda: outsider.tcp(outsider.webhook_port))


def silent_tls(outsider: Outsider) -> None:
    outsider.repeat(SILENT_TLS, lambda: outsider.tls().sendall(b"P"))


def silent_http(outsider: Outsider) -> None:
    outsider.repeat(SILENT_HTTP, lambda: outsider.tcp(outsider.health_port).sendall(b"G"))


def half_bodies(outsider: Outsider) -> None:
    head = b"POST /mutate HTTP/1.1\r\nHost: x\r\nContent-Length: 3145728\r\n\r\n"
    outsider.repeat(BODIES, lambda: outsider.tls().sendall(head + b"x" * 3_000_000))


def malformed(outsider: Outsider) -> None:
    def send() -> None:
        is_webhook = outsider.rng.random() < 0.7
        connection = outsider.tls() if is_webhook else outsider.tcp(outsider.health_port)
        connection.sendall(outsider.rng.choice(MALFORMED))

    outsider.repeat(60, send)


def reviews(outsider: Outsider) -> None:
    """For slices, with the highest priority, in namespaces that do not exist."""
    off = {"gpu-scheduler.io/mig-fallback": "off"}

    def send() -> None:
        limits = {outsider.rng.choice(SLICES): outsider.rng.choice(("3", "7", "999999999999"))}
        body = pod("e", annotations=off, limits=limits, priority=2**31 - 1)
        namespace = f"made-up-{outsider.rng.randrange(10**6)}"
        outsider.ask(json.dumps(review(body, namespace)).encode())

    outsider.repeat(12, send)


SLICES: Final = ("nvidia.com/mig-2g.20gb", "nvidia.com/mig-1g.10gb")


def review(body: Json, namespace: str) -> Json:
    """What an API server would ask about a pod."""
    request = {
        "uid": "u",
        "operation": "CREATE",
        "namespace": namespace,
        "resource": {"group": "", "version": "v1", "resource": "pods"},
        "object": body,
    }
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}


ATTACKS: Final[dict[str, Callable[[Outsider], None]]] = {
    "silent TCP clients": silent_tcp,
    "silent TLS clients": silent_tls,
    "silent HTTP clients": silent_http,
    "half bodies": half_bodies,
    "malformed HTTP": malformed,
    "outsider's reviews": reviews,
}


def main(words: Sequence[str]) -> None:
    """One attack."""
    name, webhook_port, health_port, seconds, seed = words
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(FILES_MAX, hard), hard))
    until = time.monotonic() + float(seconds)
    ATTACKS[name](Outsider(int(webhook_port), int(health_port), random.Random(int(seed)), until))
    time.sleep(max(0.0, until - time.monotonic()))


if __name__ == "__main__":
    main(sys.argv[1:])
