"""Renews the pod's serving certificate and the replicas' token, without cert-manager.

    Secret of the authority (created once, at installation) ── only read ─────────┐
    Secret of the pod <── leaf, renewed at 2/3 of its life <── any replica <──────┘
       │ ca.crt tls.crt tls.key token
       └──> files in memory, for the webhook and the server of other replicas in this pod

The API server trusts the authority by the registration's caBundle, which the chart renders together
with the authority. So no permission on the registration is needed, and none is given.

Every check starts from the objects that exist, so the next one repairs what a crash left. If two
replicas renew at once, the Secret's resourceVersion decides, and the loser takes the certificate of
the winner. The authority of the former certificate stays in ca.crt as long as it is valid, so that
replicas trust each other during the change.

It never logs a key, never writes the authority, and touches the two configured Secrets only.
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
from scheduler.controllers.certificates.issuer import (
    Authority,
    NotAnAuthority,
    issue,
    read_authority,
)
from scheduler.watch.client import MERGE_PATCH, ApiError, Client, Unreachable

#: A replaced authority is adopted within this time; until then reviews fail.
LOOK_S: Final = 15.0
RETRY_S: Final = 2.0
FAILED_S: Final = 10.0
CONFLICT: Final = 409
AUTHORITIES_MAX: Final = 2
PARTS: Final = {"ca.crt": "ca", "tls.crt": "certificate", "tls.key": "key", "token": "token"}
AUTHORITY_PARTS: Final = ("ca.crt", "ca.key")

log = structlog.get_logger("certificates")


class CertSecret(msgspec.Struct, frozen=True):
    """A Secret's content; an empty part is one that is missing."""

    ca: bytes = b""
    certificate: bytes = b""
    key: bytes = b""
    token: bytes = b""


def renewed(
    kept: CertSecret, authority: Authority | None, wanted: Certificates, now: datetime
) -> tuple[CertSecret, str]:
    """The content to store, and the reason for a change; no reason if it is unchanged.

    Without an authority only the token is stored.
    """
    reasons = []
    if not kept.token:
        kept = msgspec.structs.replace(kept, token=secrets.token_urlsafe(32).encode())
        reasons.append("there was no token")
    fault = _fault(kept, authority, wanted, now) if authority else ""
    if authority and fault:
        made = issue(authority, wanted.names, [], wanted.days, now=now)
        former = [one for one in _trusted(kept.ca, now) if one != made.ca_pem]
        ca = b"".join([made.ca_pem, *former][:AUTHORITIES_MAX])
        kept = CertSecret(ca=ca, certificate=made.cert_pem, key=made.key_pem, token=kept.token)
        reasons.append(fault)
    return kept, ", ".join(reasons)


def _fault(kept: CertSecret, authority: Authority, wanted: Certificates, now: datetime) -> str:
    """The reason for a new certificate, or an empty text."""
    try:
        mine = x509.load_pem_x509_certificate(kept.certificate)
        trusted = x509.load_pem_x509_certificates(kept.ca)[0]
        names = mine.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (ValueError, IndexError, x509.ExtensionNotFound):
        return "there was no certificate"
    if trusted != authority.certificate or not _is_issued_by(mine, authority):
        return "it is not of the authority"
    if set(names.get_values_for_type(x509.DNSName)) != set(wanted.names):
        return "it is of other names"
    if not kept.key:
        return "its key is gone"
    begin, end = mine.not_valid_before_utc, mine.not_valid_after_utc
    due = begin + (end - begin) * 2 / 3
    return f"two thirds of its life were over at {due.isoformat()}" if now >= due else ""


def _is_issued_by(mine: x509.Certificate, authority: Authority) -> bool:
    try:
        mine.verify_directly_issued_by(authority.certificate)
    except (ValueError, TypeError, InvalidSignature):
        return False
    return True


def _trusted(bundle: bytes, now: datetime) -> list[bytes]:
    """The authorities of a bundle that are still valid."""
    try:
        found = x509.load_pem_x509_certificates(bundle)
    except ValueError:
        return []
    return [one.public_bytes(Encoding.PEM) for one in found if one.not_valid_after_utc > now]


class CertRotator:
    """Checks the authority, the Secret and the files, one check at a time."""

    def __init__(
        self, client: Client, wanted: Certificates, namespace: str, now: Callable[[], datetime]
    ) -> None:
        self._client = client
        self._wanted = wanted
        folder = f"/api/v1/namespaces/{namespace}/secrets"
        self._path = f"{folder}/{wanted.secret}"
        self._authority_path = f"{folder}/{wanted.authority}"
        self._now = now

    async def ensure(self) -> None:
        """Renew expired parts; raises ApiError, Unreachable or NotAnAuthority."""
        secret = msgspec.json.decode(await self._client.request("GET", self._path))
        kept = _read(secret)
        authority = await self._authority() if self._wanted.names else None
        fresh, reason = renewed(kept, authority, self._wanted, self._now())
        if reason:
            kept = await self._store(fresh, secret["metadata"]["resourceVersion"], reason)
        write_files(Path(self._wanted.directory), kept)

    async def _authority(self) -> Authority:
        secret = msgspec.json.decode(await self._client.request("GET", self._authority_path))
        data = secret.get("data") or {}
        try:
            found = read_authority(*(base64.b64decode(data[name]) for name in AUTHORITY_PARTS))
        except (LookupError, ValueError) as error:
            raise NotAnAuthority(f"Secret {self._wanted.authority}: {error}") from error
        end = found.certificate.not_valid_after_utc
        if end <= self._now():
            raise NotAnAuthority(f"Secret {self._wanted.authority}: it expired at {end}")
        return found

    async def run(self) -> None:
        """Check at intervals until cancelled; after a failure the interval is shorter."""
        pause_s = LOOK_S
        while True:
            await asyncio.sleep(pause_s)
            pause_s = LOOK_S if await self.try_once() else FAILED_S

    async def until_there(self) -> None:
        """The first check, repeated until it succeeds: the pod cannot start without files."""
        directory = Path(self._wanted.directory)
        needed = PARTS if self._wanted.names else ("token",)
        while True:
            is_done = await self.try_once()
            if is_done or all((directory / name).exists() for name in needed):
                return
            await asyncio.sleep(RETRY_S)

    async def try_once(self) -> bool:
        """One check; a failure is a log line."""
        try:
            await self.ensure()
        except (ApiError, Unreachable, NotAnAuthority) as error:
            log.warning("certificate check failed", problem=str(error))
            return False
        return True

    async def _store(self, fresh: CertSecret, version: str, reason: str) -> CertSecret:
        """Write the Secret; returns the content of another replica if that one wrote first."""
        data = {name: _base64(getattr(fresh, part)) for name, part in PARTS.items()}
        body = {"metadata": {"resourceVersion": version}, "data": data}
        content = msgspec.json.encode(body)
        try:
            await self._client.request("PATCH", self._path, content, content_type=MERGE_PATCH)
        except ApiError as error:
            if error.status != CONFLICT:
                raise
            return _read(msgspec.json.decode(await self._client.request("GET", self._path)))
        log.info("certificate Secret renewed", secret=self._wanted.secret, reason=reason)
        return fresh


@contextlib.asynccontextmanager
async def rotating(
    wanted: Certificates, namespace: str, kubeconfig: str | None, now: Callable[[], datetime]
) -> AsyncIterator[None]:
    """The files exist when the block begins, and are renewed while it lasts."""
    client = await Client.connect(kubeconfig, "gpu-scheduler/certificates")
    rotator = CertRotator(client, wanted, namespace, now)
    try:
        await rotator.until_there()
        task = asyncio.create_task(rotator.run(), name="certificates")
        task.add_done_callback(_log_failure)
        try:
            yield
        finally:
            task.cancel()
    finally:
        await client.close()


def _log_failure(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and task.exception() is not None:
        log.error("certificate rotator exited", exc_info=task.exception())


def write_files(directory: Path, kept: CertSecret) -> None:
    """Write the parts as files, each atomically; an unchanged file is not written."""
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


def _read(secret: Any) -> CertSecret:
    data = secret.get("data") or {}
    parts = {part: base64.b64decode(data.get(name) or "") for name, part in PARTS.items()}
    return CertSecret(**parts)


def _base64(content: bytes) -> str:
    return base64.b64encode(content).decode("ascii")
