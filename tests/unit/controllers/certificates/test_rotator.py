"""When a pod's own certificate is renewed, and what of the former one is kept."""

from __future__ import annotations

import stat
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
)

from scheduler.config import Certificates, ConfigError, parse
from scheduler.controllers.certificates.issuer import (
    NotAnAuthority,
    make_authority,
    make_certificates,
    read_authority,
)
from scheduler.controllers.certificates.rotator import CertSecret, renewed, write_files

NOW = datetime(2026, 11, 1, tzinfo=UTC)
NAMES = ("gpu-scheduler-webhook", "gpu-scheduler-webhook.gpu-scheduler-system.svc")
WANTED = Certificates(secret="s", directory="d", names=NAMES, authority="a", days=90)
AUTHORITY = make_authority(3650, now=NOW)
OTHER = make_authority(3650, now=NOW)
FIRST, _ = renewed(CertSecret(), AUTHORITY, WANTED, NOW)


def names_of(kept: CertSecret) -> set[str]:
    """The names in a certificate."""
    found = x509.load_pem_x509_certificate(kept.certificate)
    extension = found.extensions.get_extension_for_class(x509.SubjectAlternativeName)
    return set(extension.value.get_values_for_type(x509.DNSName))


def authorities(kept: CertSecret) -> int:
    """How many are trusted."""
    return len(x509.load_pem_x509_certificates(kept.ca))


def test_empty_secret_gets_a_certificate_for_the_names_and_a_token() -> None:
    assert names_of(FIRST) == set(NAMES)
    assert len(FIRST.token) >= 32
    assert FIRST.ca == AUTHORITY.certificate.public_bytes(Encoding.PEM)


@pytest.mark.parametrize(
    ("days", "is_due"),
    [
        pytest.param(0, False, id="just-made"),
        pytest.param(59, False, id="before-two-thirds"),
        pytest.param(61, True, id="after-two-thirds"),
        pytest.param(400, True, id="long-expired"),
    ],
)
@pytest.mark.contract("S2-B13", "S0-B10")
def test_certificate_is_renewed_after_two_thirds_of_its_lifetime(days: int, is_due: bool) -> None:
    fresh, reason = renewed(FIRST, AUTHORITY, WANTED, NOW + timedelta(days=days))
    assert bool(reason) == is_due
    assert (fresh.certificate != FIRST.certificate) == is_due
    assert fresh.ca == FIRST.ca, "the authority is made once"
    assert fresh.token == FIRST.token


def test_replaced_ca_signs_at_once_and_the_former_stays_trusted() -> None:
    second, reason = renewed(FIRST, OTHER, WANTED, NOW)
    assert reason == "it is not of the authority"
    mine = x509.load_pem_x509_certificate(second.certificate)
    mine.verify_directly_issued_by(OTHER.certificate)
    assert second.ca.endswith(FIRST.ca)
    assert authorities(second) == 2
    assert renewed(second, OTHER, WANTED, NOW) == (second, "")


def test_expired_former_ca_is_removed() -> None:
    short, _ = renewed(CertSecret(), make_authority(1, now=NOW), WANTED, NOW)
    fresh, _ = renewed(short, AUTHORITY, WANTED, NOW + timedelta(days=2))
    assert authorities(fresh) == 1


def test_a_certificate_does_not_outlive_its_authority() -> None:
    short = make_authority(10, now=NOW)
    kept, _ = renewed(CertSecret(), short, WANTED, NOW)
    mine = x509.load_pem_x509_certificate(kept.certificate)
    assert mine.not_valid_after_utc == short.certificate.not_valid_after_utc


def pem(one: object) -> bytes:
    """A key as the authority's Secret holds it."""
    assert hasattr(one, "private_bytes")
    text: bytes = one.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return text


CA_PEM = AUTHORITY.certificate.public_bytes(Encoding.PEM)
LEAF = make_certificates(["a"], [], 1, now=NOW)


@pytest.mark.parametrize(
    ("certificate", "key", "said"),
    [
        pytest.param(CA_PEM, pem(OTHER.key), "the key is not the certificate's", id="pair"),
        pytest.param(b"", pem(AUTHORITY.key), "cannot be read", id="no-certificate"),
        pytest.param(CA_PEM, b"nonsense", "cannot be read", id="no-key"),
        pytest.param(LEAF.cert_pem, LEAF.key_pem, "not one of an authority", id="leaf"),
    ],
)
def test_certificate_that_is_no_ca_is_refused(certificate: bytes, key: bytes, said: str) -> None:
    with pytest.raises(NotAnAuthority, match=said):
        read_authority(certificate, key)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        pytest.param({"key": b""}, "its key is gone", id="no-key"),
        pytest.param({"certificate": b"nonsense"}, "there was no certificate", id="nonsense"),
        pytest.param(
            {"ca": renewed(CertSecret(), OTHER, WANTED, NOW)[0].ca}, "not of the auth", id="ca"
        ),
        pytest.param({"token": b""}, "there was no token", id="no-token"),
    ],
)
def test_broken_secret_is_replaced_and_the_reason_is_logged(
    change: dict[str, bytes], said: str
) -> None:
    fresh, reason = renewed(msgspec.structs.replace(FIRST, **change), AUTHORITY, WANTED, NOW)
    assert said in reason
    assert renewed(fresh, AUTHORITY, WANTED, NOW) == (fresh, "")


def test_changed_service_name_renews_the_certificate() -> None:
    other = Certificates(secret="s", directory="d", names=("other",))
    assert renewed(FIRST, AUTHORITY, other, NOW)[1] == "it is of other names"


def test_names_without_an_authority_are_refused_with_what_is_missing() -> None:
    """As a chart of before decision 0025 configures it."""
    text = b"apiVersion: gpu-scheduler.io/v1\nkind: GpuSchedulerConfiguration\n"

    with pytest.raises(ConfigError, match=r"\$\.certificates\.authority"):
        parse(text + b"certificates: {secret: s, directory: d, names: [a.svc]}\n")


def test_without_names_only_the_token_is_kept() -> None:
    fresh, reason = renewed(CertSecret(), None, Certificates(secret="s", directory="d"), NOW)
    assert (fresh.certificate, fresh.key, fresh.ca) == (b"", b"", b"")
    assert fresh.token
    assert reason == "there was no token"


def test_files_are_atomic_and_private(tmp_path: Path) -> None:
    write_files(tmp_path / "certs", FIRST)
    found = {path.name: path.read_bytes() for path in (tmp_path / "certs").iterdir()}
    assert found == {
        "ca.crt": FIRST.ca,
        "tls.crt": FIRST.certificate,
        "tls.key": FIRST.key,
        "token": FIRST.token,
    }
    assert stat.S_IMODE((tmp_path / "certs" / "tls.key").stat().st_mode) == 0o600
