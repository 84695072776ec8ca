"""Fetches the webhook's serving certificate and checks it against the caBundle."""

from __future__ import annotations

import asyncio
import ssl

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.x509.extensions import ExtensionNotFound

from gpuctl.doctor.facts import Certificate, Unread

FETCH_TIMEOUT_S = 5.0


async def fetch(host: str, port: int) -> bytes | Unread:
    """The certificate that a server presents, without verification."""
    try:
        text = await asyncio.to_thread(
            ssl.get_server_certificate, (host, port), timeout=FETCH_TIMEOUT_S
        )
    except OSError as error:
        return Unread(f"{host}:{port} cannot be reached from here: {error}")
    return text.encode()


def check(pem: bytes, bundle: bytes) -> Certificate | Unread:
    """A certificate's names and validity, and whether an authority of the bundle issued it."""
    try:
        certificate = x509.load_pem_x509_certificates(pem)[0]
    except ValueError as error:
        return Unread(f"the webhook's serving certificate is invalid: {error}")
    try:
        authorities = x509.load_pem_x509_certificates(bundle)
    except ValueError:
        authorities = []
    return Certificate(
        names=_names(certificate),
        begins=certificate.not_valid_before_utc,
        ends=certificate.not_valid_after_utc,
        is_trusted=any(_issued(certificate, authority) for authority in authorities),
    )


def _names(certificate: x509.Certificate) -> tuple[str, ...]:
    try:
        extension = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName)
    except ExtensionNotFound:
        return ()
    dns = extension.value.get_values_for_type(x509.DNSName)
    addresses = extension.value.get_values_for_type(x509.IPAddress)
    return (*dns, *map(str, addresses))


def _issued(certificate: x509.Certificate, authority: x509.Certificate) -> bool:
    try:
        certificate.verify_directly_issued_by(authority)
    except (ValueError, TypeError, InvalidSignature):
        return False
    return True
