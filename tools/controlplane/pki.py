"""Creates the certificates and keys of one control plane.

One authority signs servers and clients. All files are in the control plane's directory. They are
for the loopback interface only.
"""

from __future__ import annotations

import datetime
import ipaddress
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

VALID_DAYS = 365
#: Certificates are valid from a little earlier, to allow for clock skew.
EARLIER = datetime.timedelta(minutes=5)

PrivateKey = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey


class Pair(NamedTuple):
    """A certificate and its private key, as files."""

    certificate: Path
    key: Path


class Authority:
    """The certificate authority of one control plane."""

    def __init__(
        self, directory: Path, hosts: Iterable[str] = (), new_key: PrivateKey | None = None
    ) -> None:
        """Open the authority in a directory, or create it.

        ``hosts`` are names of its own. ``new_key`` is the key of a created one; without it, it is
        of the elliptic curve P-256.
        """
        self.directory = directory
        self.files = Pair(directory / "ca.crt", directory / "ca.key")
        if not self.files.key.exists():
            self._found(tuple(hosts), new_key or ec.generate_private_key(ec.SECP256R1()))
        key = serialization.load_pem_private_key(self.files.key.read_bytes(), password=None)
        assert isinstance(key, PrivateKey), "the authority's key is ours"
        self._key = key
        self._certificate = x509.load_pem_x509_certificate(self.files.certificate.read_bytes())

    def _found(self, hosts: tuple[str, ...], key: PrivateKey) -> None:
        self.directory.mkdir(parents=True, exist_ok=True)
        subject = _name("gpu-scheduler-control-plane", ())
        builder = (
            _builder(subject, subject, key.public_key())
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(_CA_USAGE, critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), False)
        )
        certificate = _with_hosts(builder, hosts).sign(key, hashes.SHA256())
        self.files.certificate.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        write_key(self.files.key, key)

    def client(self, user: str, groups: Iterable[str] = ()) -> Pair:
        """Sign a client certificate: the common name is the user, organisations are groups."""
        return self._sign(f"client-{_file_name(user)}", _name(user, groups), ())

    def server(self, name: str, hosts: Iterable[str]) -> Pair:
        """Sign a serving certificate for host names and addresses."""
        return self._sign(f"server-{_file_name(name)}", _name(name, ()), tuple(hosts))

    def _sign(self, stem: str, subject: x509.Name, hosts: tuple[str, ...]) -> Pair:
        key = ec.generate_private_key(ec.SECP256R1())
        usage = ExtendedKeyUsageOID.SERVER_AUTH if hosts else ExtendedKeyUsageOID.CLIENT_AUTH
        issuer_key = self._key.public_key()
        builder = (
            _builder(subject, self._certificate.subject, key.public_key())
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key), False)
        )
        builder = _with_hosts(builder, hosts)
        pair = Pair(self.directory / f"{stem}.crt", self.directory / f"{stem}.key")
        certificate = builder.sign(self._key, hashes.SHA256())
        pair.certificate.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        write_key(pair.key, key)
        return pair


_CA_USAGE = x509.KeyUsage(
    digital_signature=True,
    key_cert_sign=True,
    crl_sign=True,
    content_commitment=False,
    key_encipherment=False,
    data_encipherment=False,
    key_agreement=False,
    encipher_only=False,
    decipher_only=False,
)


def service_account_key(directory: Path) -> Path:
    """Return the key that signs ServiceAccount tokens; create it if missing."""
    path = directory / "service-account.key"
    if not path.exists():
        write_key(path, ec.generate_private_key(ec.SECP256R1()))
    return path


def write_key(path: Path, key: PrivateKey) -> None:
    """Write a private key with mode 0600 from the start."""
    path.touch(mode=0o600)
    path.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.TraditionalOpenSSL,
            serialization.NoEncryption(),
        )
    )


def _builder(
    subject: x509.Name, issuer: x509.Name, public_key: ec.EllipticCurvePublicKey | rsa.RSAPublicKey
) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public_key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - EARLIER)
        .not_valid_after(now + datetime.timedelta(days=VALID_DAYS))
    )


def _with_hosts(
    builder: x509.CertificateBuilder, hosts: tuple[str, ...]
) -> x509.CertificateBuilder:
    if not hosts:
        return builder
    names = x509.SubjectAlternativeName([_general_name(host) for host in hosts])
    return builder.add_extension(names, critical=False)


def _name(common_name: str, organisations: Iterable[str]) -> x509.Name:
    attributes = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, each) for each in organisations]
    return x509.Name([*attributes, x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _file_name(text: str) -> str:
    return "".join(letter if letter.isalnum() or letter in "-." else "-" for letter in text)
