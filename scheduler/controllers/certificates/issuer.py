"""Creates certificates: a leaf of an existing authority, or both at once for demo and tests.

In a cluster the authority is created once, at installation; ``rotator`` only signs leaves with it.
``make_certificates`` creates an authority for one leaf and does not store its key, so the key
cannot leak. Keys are elliptic, because they are generated in a millisecond.
"""

from __future__ import annotations

import datetime
import ipaddress
from collections.abc import Iterable
from typing import Final, NamedTuple

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

_CA_NAME: Final = "gpu-scheduler webhook authority"
_SERVER_NAME: Final = "gpu-scheduler webhook"
#: Certificates start a little earlier, to tolerate clock skew.
_EARLIER: Final = datetime.timedelta(minutes=5)
_PEM: Final = serialization.Encoding.PEM


class CertificateBundle(NamedTuple):
    """An authority's certificate, and a serving certificate and key that it signed."""

    ca_pem: bytes
    cert_pem: bytes
    key_pem: bytes


class Authority(NamedTuple):
    """An authority's certificate, and the key that signs with it."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey


class NotAnAuthority(ValueError):
    """A certificate and a key that do not form an authority; the text has the reason."""


def read_authority(certificate_pem: bytes, key_pem: bytes) -> Authority:
    """The authority of these two PEM texts; raises NotAnAuthority."""
    try:
        certificate = x509.load_pem_x509_certificate(certificate_pem)
        key = serialization.load_pem_private_key(key_pem, password=None)
        limits = certificate.extensions.get_extension_for_class(x509.BasicConstraints).value
    except (ValueError, TypeError, UnsupportedAlgorithm, x509.ExtensionNotFound) as error:
        raise NotAnAuthority(f"certificate or key cannot be read: {error}") from error
    if not isinstance(key, ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey):
        raise NotAnAuthority("the key is neither ECDSA nor RSA")
    if key.public_key() != certificate.public_key():
        raise NotAnAuthority("the key is not the certificate's")
    if not limits.ca:
        raise NotAnAuthority("the certificate is not one of an authority")
    return Authority(certificate, key)


def make_authority(days: int, *, now: datetime.datetime) -> Authority:
    """A new authority, valid for this number of days."""
    key = ec.generate_private_key(ec.SECP256R1())
    period = (now - _EARLIER, now + datetime.timedelta(days=days))
    certificate = (
        _builder(_name(_CA_NAME), _name(_CA_NAME), key.public_key(), period)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs_certificates=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), False)
        .sign(key, hashes.SHA256())
    )
    return Authority(certificate, key)


def issue(
    authority: Authority,
    names: Iterable[str],
    ips: Iterable[str],
    days: int,
    *,
    now: datetime.datetime,
) -> CertificateBundle:
    """A serving certificate for these names and addresses; it never outlives its authority."""
    key = ec.generate_private_key(ec.SECP256R1())
    hosts: list[x509.GeneralName] = [x509.DNSName(name) for name in names]
    hosts += [x509.IPAddress(ipaddress.ip_address(ip)) for ip in ips]
    end = min(now + datetime.timedelta(days=days), authority.certificate.not_valid_after_utc)
    issuer = authority.certificate.subject
    certificate = (
        _builder(_name(_SERVER_NAME), issuer, key.public_key(), (now - _EARLIER, end))
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectAlternativeName(hosts), critical=False)
        .add_extension(_issuer_key(authority), critical=False)
        .sign(authority.key, hashes.SHA256())
    )
    return CertificateBundle(
        authority.certificate.public_bytes(_PEM),
        certificate.public_bytes(_PEM),
        key.private_bytes(_PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()),
    )


def make_certificates(
    names: Iterable[str], ips: Iterable[str], days: int, *, now: datetime.datetime
) -> CertificateBundle:
    """A serving certificate for these names and addresses, and a new authority."""
    return issue(make_authority(days, now=now), names, ips, days, now=now)


def _issuer_key(authority: Authority) -> x509.AuthorityKeyIdentifier:
    """The authority's own key identifier: tools hash the key in different ways."""
    extensions = authority.certificate.extensions
    try:
        found = extensions.get_extension_for_class(x509.SubjectKeyIdentifier)
    except x509.ExtensionNotFound:
        return x509.AuthorityKeyIdentifier.from_issuer_public_key(authority.key.public_key())
    return x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(found.value)


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePublicKey,
    period: tuple[datetime.datetime, datetime.datetime],
) -> x509.CertificateBuilder:
    begin, end = period
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(begin)
        .not_valid_after(end)
    )


def _name(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )
