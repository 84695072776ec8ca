"""The minimum cost of any mutating webhook: the API server's own part.

A server that reads a review and responds with one small patch, on blocking sockets, a thread per
connection: no event loop, no HTTP library, no decision. The additional time of a creation through
it is the API server's own work (the review is encoded, sent over TLS, the patch applied and the pod
decoded again), the lower bound for any webhook.
"""

from __future__ import annotations

import base64
import json
import re
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tools.controlplane import ControlPlane
from tools.controlplane.ports import LOOPBACK

NAME = "bench-floor"
LABEL = {"bench": "floor"}
_UID = re.compile(rb'"uid":"([0-9a-f-]{36})"')
_LENGTH = re.compile(rb"(?i)\r\ncontent-length: *([0-9]+)\r\n")
_PATCH = base64.b64encode(
    json.dumps(
        [{"op": "add", "path": "/metadata/annotations", "value": {"bench": "floor"}}]
    ).encode()
).decode()


def _answer(uid: str) -> bytes:
    response = {"uid": uid, "allowed": True, "patchType": "JSONPatch", "patch": _PATCH}
    review = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response}
    body = json.dumps(review).encode()
    head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(body)}"
    return head.encode() + b"\r\n\r\n" + body


def _serve(connection: ssl.SSLSocket) -> None:
    """Answer reviews until the API server closes the connection."""
    content = b""
    with connection:
        while True:
            head, found, rest = content.partition(b"\r\n\r\n")
            length = _LENGTH.search(head + b"\r\n") if found else None
            if length is not None and len(rest) >= int(length[1]):
                body, content = rest[: int(length[1])], rest[int(length[1]) :]
                uid = _UID.search(body)
                assert uid is not None, "a review without uid"
                connection.sendall(_answer(uid[1].decode()))
                continue
            try:
                piece = connection.recv(65536)
            except OSError:
                return
            if not piece:
                return
            content += piece


def _accept(listener: socket.socket, context: ssl.SSLContext) -> None:
    while True:
        try:
            raw, _ = listener.accept()
            raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connection = context.wrap_socket(raw, server_side=True)
        except ssl.SSLError:
            continue
        except OSError:
            return
        threading.Thread(target=_serve, args=(connection,), daemon=True).start()


def _configuration(plane: ControlPlane, port: int) -> dict[str, Any]:
    authority = base64.b64encode(plane.ca_certificate.read_bytes()).decode()
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"]}
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "MutatingWebhookConfiguration",
        "metadata": {"name": NAME},
        "webhooks": [
            {
                "name": "floor.example.com",
                "clientConfig": {"url": f"https://{LOOPBACK}:{port}/", "caBundle": authority},
                "rules": [{**rule, "resources": ["pods"]}],
                "namespaceSelector": {"matchLabels": LABEL},
                "sideEffects": "None",
                "admissionReviewVersions": ["v1"],
                "failurePolicy": "Fail",
            }
        ],
    }


@contextmanager
def registered(plane: ControlPlane) -> Iterator[None]:
    """The server runs and is called for namespaces with ``LABEL``."""
    pair = plane.serving_certificate(NAME)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pair.certificate, pair.key)
    with socket.create_server((LOOPBACK, 0)) as listener:
        threading.Thread(target=_accept, args=(listener, context), daemon=True).start()
        body = _configuration(plane, listener.getsockname()[1])
        path = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
        plane.client.create(path, body)
        try:
            yield
        finally:
            plane.client.request("DELETE", f"{path}/{NAME}")
