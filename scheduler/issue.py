"""Making a serving certificate on the spot: for a cluster (keeper.py), the demo and tests.

An authority is founded for one certificate, and its key is forgotten at once: what is never
written cannot leak, and a renewal founds the next authority. Elliptic keys, because they are made
in a millisecond.
"""

from __future__ import annotations

import datetime
import ipaddress
from collections.abc import Iterable
from typing import Final, NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

_CA_NAME: Final = "gpu-scheduler webhook authority"
_SERVER_NAME: Final = "gpu-scheduler webhook"
#: Certificates start a little earlier, so that two clocks need not agree to the second.
_EARLIER: Final = datetime.timedelta(minutes=5)
_PEM: Final = serialization.Encoding.PEM


class CertificateBundle(NamedTuple):
    """An authority's certificate, and a serving certificate and key that it signed."""

    ca_pem: bytes
    cert_pem: bytes
    key_pem: bytes


def make_certificates(
    names: Iterable[str], ips: Iterable[str], days: int, *, now: datetime.datetime
) -> CertificateBundle:
    """One serving certificate for these names and addresses, and the authority to trust."""
    ca_key, key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    hosts: list[x509.GeneralName] = [x509.DNSName(name) for name in names]
    hosts += [x509.IPAddress(ipaddress.ip_address(ip)) for ip in ips]
    period = (now - _EARLIER, now + datetime.timedelta(days=days))
    authority = (
        _builder(_CA_NAME, ca_key.public_key(), period)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs_certificates=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(ca_key.public_key()), False)
        .sign(ca_key, hashes.SHA256())
    )
    certificate = (
        _builder(_SERVER_NAME, key.public_key(), period)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectAlternativeName(hosts), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(ca_key.public_key()), critical=False
        )
        .sign(ca_key, hashes.SHA256())
    )
    return CertificateBundle(
        authority.public_bytes(_PEM),
        certificate.public_bytes(_PEM),
        key.private_bytes(_PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()),
    )


def _builder(
    common_name: str,
    key: ec.EllipticCurvePublicKey,
    period: tuple[datetime.datetime, datetime.datetime],
) -> x509.CertificateBuilder:
    begin, end = period
    return (
        x509.CertificateBuilder()
        .subject_name(_name(common_name))
        .issuer_name(_name(_CA_NAME))
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
