"""Serves the newest valid certificate without a restart.

The files are a mounted Secret and may change at any moment, one after the other. A pair is read
into memory, checked, and then loaded into the running TLS context; while the pair is invalid the
last valid one stays in use.
"""

from __future__ import annotations

import asyncio
import datetime
import os
import ssl
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

import structlog
from cryptography import x509

CERTIFICATE: Final = "tls.crt"
KEY: Final = "tls.key"
POLL_S: Final = 1.0

_log = structlog.get_logger(__name__)


class CertificateError(Exception):
    """An invalid pair; the message has the files and the problem."""


class CertificateFiles(NamedTuple):
    """The content of both files."""

    certificate: bytes
    key: bytes


_NOTHING: Final = CertificateFiles(b"", b"")


class LiveCertificate:
    """A TLS context that follows the files of a directory."""

    def __init__(self, directory: Path, *, client_ca: Path | None = None) -> None:
        """Load the current files, or raise :class:`CertificateError`.

        With ``client_ca`` a client may send a certificate, which must be one of that CA.
        """
        self._directory = directory
        self._is_broken = False
        self.context = _server_context()
        if client_ca is not None:
            _trust(self.context, client_ca)
        self._seen = self._read()
        self._served = _NOTHING
        self.expires = self._serve(self._seen)

    async def follow(self, *, poll_s: float = POLL_S) -> None:
        """Check the files periodically, until cancelled."""
        while True:
            await asyncio.sleep(poll_s)
            self.refresh()

    def refresh(self) -> bool:
        """Load a changed pair; returns whether a valid one was loaded."""
        found = self._read()
        if found == self._seen:
            return False
        self._seen = found
        try:
            self.expires = self._serve(found)
        except CertificateError as error:
            if not self._is_broken:
                _log.warning("certificate rejected, previous one kept", error=str(error))
            self._is_broken = True
            return False
        self._is_broken = False
        _log.info("certificate loaded", expires=self.expires.isoformat())
        return True

    def seconds_to_expiry(self, now: datetime.datetime) -> float:
        """Seconds until the served certificate expires; negative after that."""
        return (self.expires - now).total_seconds()

    @property
    def served(self) -> CertificateFiles:
        """The pair in use."""
        return self._served

    def _read(self) -> CertificateFiles | str:
        """The current content of both files, or the reason why they cannot be read."""
        try:
            return CertificateFiles(
                *((self._directory / name).read_bytes() for name in (CERTIFICATE, KEY))
            )
        except OSError as error:
            return str(error)

    def _serve(self, found: CertificateFiles | str) -> datetime.datetime:
        """Load a valid pair into the running context; returns its expiry."""
        where = f"{self._directory}: {CERTIFICATE} and {KEY}"
        if isinstance(found, str):
            raise CertificateError(f"{where} cannot be read: {found}")
        try:
            expires = x509.load_pem_x509_certificate(found.certificate).not_valid_after_utc
            # Loading an invalid pair drops the loaded one, so a second context checks it first.
            for context in (_server_context(), self.context):
                _load(context, found)
        except (ssl.SSLError, ValueError) as error:
            raise CertificateError(f"{where} are not a pair: {error}") from error
        self._served = found
        return expires


def context_for_clients_of(authority: str, served: CertificateFiles) -> ssl.SSLContext:
    """A context that requires a client certificate of this authority (PEM).

    Without an authority every handshake fails. ssl.SSLError if it is invalid.
    """
    context = _server_context()
    context.verify_mode = ssl.CERT_REQUIRED
    # As strict as the API server with its clients: many authorities lack the extensions that
    # X509_STRICT wants.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    if authority:
        context.load_verify_locations(cadata=authority)
    _load(context, served)
    return context


def _load(context: ssl.SSLContext, found: CertificateFiles) -> None:
    with _in_memory(found.certificate) as cert, _in_memory(found.key) as key:
        context.load_cert_chain(cert, key, password="")


def _server_context() -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    return context


def _trust(context: ssl.SSLContext, client_ca: Path) -> None:
    try:
        context.load_verify_locations(cafile=client_ca)
    except (OSError, ssl.SSLError) as error:
        raise CertificateError(f"{client_ca}: no authority for clients: {error}") from error
    context.verify_mode = ssl.CERT_OPTIONAL


@contextmanager
def _in_memory(content: bytes) -> Iterator[str]:
    """A path to these bytes, for a library that reads only files; it touches no disk on Linux."""
    if sys.platform != "linux":
        with tempfile.NamedTemporaryFile() as file:
            file.write(content)
            file.flush()
            yield file.name
        return
    descriptor = os.memfd_create("tls")
    try:
        with open(descriptor, "wb", closefd=False) as file:
            file.write(content)
        yield f"/proc/self/fd/{descriptor}"
    finally:
        os.close(descriptor)
