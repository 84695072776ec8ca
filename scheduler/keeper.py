"""Keeps the pod's serving certificate and the replicas' token, without cert-manager or a person.

    Secret (empty in the chart) <── filled, renewed at 2/3 of its life ── any replica
       │ ca.crt tls.crt tls.key token
       ├──> files in memory, for the webhook and the leader's door beside us
       └──> caBundle of our MutatingWebhookConfiguration

Every look starts from what is there, so a crash anywhere is repaired by the next one. Two replicas
that renew at once are told apart by the Secret's resourceVersion; the loser takes the winner's.
The authority of the former certificate stays trusted as long as it is valid, so reviews go on
while replicas change over.

Must never: log a key, or touch another Secret or registration than the configured two.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import os
import secrets
from collections.abc import AsyncIterator, Callable
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import msgspec
import structlog
from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.serialization import Encoding

from scheduler.config import Certificates
from scheduler.issue import make_certificates
from scheduler.watch.client import JSON_PATCH, MERGE_PATCH, ApiError, Client, Unreachable

LOOK_S: Final = 60.0
RETRY_S: Final = 2.0
FAILED_S: Final = 10.0
CONFLICT: Final = 409
NOT_FOUND: Final = 404
AUTHORITIES_MAX: Final = 2
PARTS: Final = {"ca.crt": "ca", "tls.crt": "certificate", "tls.key": "key", "token": "token"}
_REGISTRATIONS: Final = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"

log = structlog.get_logger("keeper")


class Kept(msgspec.Struct, frozen=True):
    """A Secret's content; an empty part is one that is missing."""

    ca: bytes = b""
    certificate: bytes = b""
    key: bytes = b""
    token: bytes = b""


def renewed(kept: Kept, wanted: Certificates, now: datetime) -> tuple[Kept, str]:
    """What should be kept from now on, and why it differs; without a reason all is well."""
    reasons = []
    if not kept.token:
        kept = msgspec.structs.replace(kept, token=secrets.token_urlsafe(32).encode())
        reasons.append("there was no token")
    fault = _fault(kept, wanted, now) if wanted.names else ""
    if fault:
        made = make_certificates(wanted.names, [], wanted.days, now=now)
        ca = b"".join([made.ca_pem, *_trusted(kept.ca, now)][:AUTHORITIES_MAX])
        kept = Kept(ca=ca, certificate=made.cert_pem, key=made.key_pem, token=kept.token)
        reasons.append(fault)
    return kept, ", ".join(reasons)


def _fault(kept: Kept, wanted: Certificates, now: datetime) -> str:
    """Why a new certificate is due, or nothing."""
    try:
        mine = x509.load_pem_x509_certificate(kept.certificate)
        authority = x509.load_pem_x509_certificates(kept.ca)[0]
        mine.verify_directly_issued_by(authority)
        found = mine.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (ValueError, TypeError, IndexError, x509.ExtensionNotFound):
        return "there was no certificate"
    except InvalidSignature:
        return "it is not of its authority"
    if set(found.get_values_for_type(x509.DNSName)) != set(wanted.names):
        return "it is of other names"
    if not kept.key:
        return "its key is gone"
    begin, end = mine.not_valid_before_utc, mine.not_valid_after_utc
    due = begin + (end - begin) * 2 / 3
    return f"two thirds of its life were over at {due.isoformat()}" if now >= due else ""


def _trusted(bundle: bytes, now: datetime) -> list[bytes]:
    """The authorities of a bundle that are still valid."""
    try:
        found = x509.load_pem_x509_certificates(bundle)
    except ValueError:
        return []
    return [one.public_bytes(Encoding.PEM) for one in found if one.not_valid_after_utc > now]


class Keeper:
    """One look at a time: Secret, files, registration."""

    def __init__(
        self, client: Client, wanted: Certificates, namespace: str, now: Callable[[], datetime]
    ) -> None:
        self._client = client
        self._wanted = wanted
        self._path = f"/api/v1/namespaces/{namespace}/secrets/{wanted.secret}"
        self._now = now

    async def ensure(self) -> None:
        """Make everything as it should be; ApiError or Unreachable when that failed half way."""
        secret = msgspec.json.decode(await self._client.request("GET", self._path))
        kept = _read(secret)
        fresh, reason = renewed(kept, self._wanted, self._now())
        if reason:
            # Trusted before it is used: the other way round reviews would fail for a moment.
            await self._register(fresh, must_exist=False)
            kept = await self._store(fresh, secret["metadata"]["resourceVersion"], reason)
        write_files(Path(self._wanted.directory), kept)
        await self._register(kept)

    async def run(self) -> None:
        """Look again and again, until cancelled; a failure is retried sooner."""
        pause_s = LOOK_S
        while True:
            await asyncio.sleep(pause_s)
            pause_s = LOOK_S if await self.try_once() else FAILED_S

    async def until_there(self) -> None:
        """The first look: without files the pod cannot start, so it is tried until it works."""
        directory = Path(self._wanted.directory)
        needed = PARTS if self._wanted.names else ("token",)
        while True:
            is_done = await self.try_once()
            if is_done or all((directory / name).exists() for name in needed):
                return
            await asyncio.sleep(RETRY_S)

    async def try_once(self) -> bool:
        """One look; a failure is a log line."""
        try:
            await self.ensure()
        except (ApiError, Unreachable) as error:
            log.warning("the certificate could not be looked after", problem=str(error))
            return False
        return True

    async def _store(self, fresh: Kept, version: str, reason: str) -> Kept:
        """Write the Secret; if somebody was faster, what they wrote."""
        data = {name: _base64(getattr(fresh, part)) for name, part in PARTS.items()}
        body = {"metadata": {"resourceVersion": version}, "data": data}
        content = msgspec.json.encode(body)
        try:
            await self._client.request("PATCH", self._path, content, content_type=MERGE_PATCH)
        except ApiError as error:
            if error.status != CONFLICT:
                raise
            return _read(msgspec.json.decode(await self._client.request("GET", self._path)))
        log.info("the pod's Secret was renewed", secret=self._wanted.secret, reason=reason)
        return fresh

    async def _register(self, kept: Kept, *, must_exist: bool = True) -> None:
        """Let the API server trust us; only an entry that says otherwise is written."""
        if not self._wanted.registration or not self._wanted.names:
            return
        path = f"{_REGISTRATIONS}/{self._wanted.registration}"
        try:
            webhooks = msgspec.json.decode(await self._client.request("GET", path))["webhooks"]
        except ApiError as error:
            if error.status == NOT_FOUND and not must_exist:
                return
            raise
        bundle = _base64(kept.ca)
        patch: list[dict[str, Any]] = []
        for number, entry in enumerate(webhooks):
            if entry["clientConfig"].get("caBundle") != bundle:
                at = f"/webhooks/{number}"
                patch.append({"op": "test", "path": f"{at}/name", "value": entry["name"]})
                patch.append({"op": "add", "path": f"{at}/clientConfig/caBundle", "value": bundle})
        if patch:
            body = msgspec.json.encode(patch)
            await self._client.request("PATCH", path, body, content_type=JSON_PATCH)


@contextlib.asynccontextmanager
async def keeping(
    wanted: Certificates, namespace: str, kubeconfig: str | None, now: Callable[[], datetime]
) -> AsyncIterator[None]:
    """Everything is there when the block begins, and looked after for as long as it lasts."""
    client = await Client.connect(kubeconfig, "gpu-scheduler/keeper")
    keeper = Keeper(client, wanted, namespace, now)
    try:
        await keeper.until_there()
        task = asyncio.create_task(keeper.run(), name="keeper")
        task.add_done_callback(_say_why)
        try:
            yield
        finally:
            task.cancel()
    finally:
        await client.close()


def _say_why(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and task.exception() is not None:
        log.error("the keeper ended", exc_info=task.exception())


def write_files(directory: Path, kept: Kept) -> None:
    """Lay the parts as files, each as a whole; those that did not change are left alone."""
    directory.mkdir(mode=0o750, parents=True, exist_ok=True)
    for name, part in PARTS.items():
        content: bytes = getattr(kept, part)
        path = directory / name
        if not content or (path.exists() and path.read_bytes() == content):
            continue
        draft = directory / f".{name}"
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
        draft.replace(path)


def _read(secret: Any) -> Kept:
    data = secret.get("data") or {}
    parts = {part: base64.b64decode(data.get(name) or "") for name, part in PARTS.items()}
    return Kept(**parts)


def _base64(content: bytes) -> str:
    return base64.b64encode(content).decode("ascii")
