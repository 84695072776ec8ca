"""The served certificate follows its files, and half a pair is never served."""

from __future__ import annotations

import asyncio
import datetime
import ssl
import stat
from contextlib import suppress
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from structlog.testing import capture_logs

from scheduler.controllers.certificates.issuer import CertificateBundle, make_certificates
from tests.patience import PATIENCE_S
from webhook.certs import CertificateError, LiveCertificate

NOW = datetime.datetime.now(datetime.UTC)


def make(days: int = 1) -> CertificateBundle:
    """A pair for the loopback address."""
    return make_certificates(["localhost"], ["127.0.0.1"], days, now=NOW)


def write(folder: Path, bundle: CertificateBundle) -> None:
    """As a Secret is mounted."""
    (folder / "tls.crt").write_bytes(bundle.cert_pem)
    (folder / "tls.key").write_bytes(bundle.key_pem)


def served(live: LiveCertificate) -> bytes:
    """The certificate that a client is shown, by a real handshake."""
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client.check_hostname = False
    client.verify_mode = ssl.CERT_NONE
    to_client, to_server = ssl.MemoryBIO(), ssl.MemoryBIO()
    here = client.wrap_bio(to_client, to_server)
    there = live.context.wrap_bio(to_server, to_client, server_side=True)
    for end in (here, there, here, there):
        with suppress(ssl.SSLWantReadError):
            end.do_handshake()
    shown = here.getpeercert(binary_form=True)
    assert shown is not None
    return ssl.DER_cert_to_PEM_cert(shown).encode()


@pytest.mark.contract("S0-27", "S0-28", "S2-17")
def test_a_made_certificate_is_trusted_by_its_authority_for_its_names(tmp_path: Path) -> None:
    """A chain of one authority and one elliptic key, for every name that was asked for."""
    bundle = make_certificates(
        ["gpu-scheduler-webhook.ns.svc", "localhost"], ["127.0.0.1", "::1"], 30, now=NOW
    )
    certificate = x509.load_pem_x509_certificate(bundle.cert_pem)
    authority = x509.load_pem_x509_certificate(bundle.ca_pem)

    certificate.verify_directly_issued_by(authority)
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["gpu-scheduler-webhook.ns.svc", "localhost"]
    assert [str(ip) for ip in names.get_values_for_type(x509.IPAddress)] == ["127.0.0.1", "::1"]
    assert certificate.not_valid_before_utc < NOW < certificate.not_valid_after_utc
    assert (certificate.not_valid_after_utc - NOW).days in (29, 30)


@pytest.mark.contract("S0-B10", "S2-B13")
def test_the_authoritys_key_is_in_nothing_that_is_handed_out() -> None:
    """The only key in the bundle is the server's."""
    bundle = make()
    key = serialization.load_pem_private_key(bundle.key_pem, None).public_key()
    certificate = x509.load_pem_x509_certificate(bundle.cert_pem)
    authority = x509.load_pem_x509_certificate(bundle.ca_pem)

    assert b"".join(bundle).count(b"PRIVATE KEY-----\n") == 2
    assert key == certificate.public_key() != authority.public_key()


@pytest.mark.contract("S0-29", "S2-B13")
def test_a_new_pair_is_served_without_a_restart(tmp_path: Path) -> None:
    """The very same context, so open listeners see it."""
    first, second = make(), make(days=9)
    write(tmp_path, first)
    live = LiveCertificate(tmp_path)
    before = served(live)
    write(tmp_path, second)
    with capture_logs() as lines:
        taken = live.refresh()

    assert taken
    assert (before, served(live)) == (first.cert_pem, second.cert_pem)
    assert [line["log_level"] for line in lines] == ["info"]
    assert live.seconds_to_expiry(NOW) == pytest.approx(9 * 86400, abs=1)
    assert not live.refresh()


def test_incomplete_pair_keeps_the_last_one_with_a_warning(tmp_path: Path) -> None:
    """Certificate first, then a key in two pieces, then a while of nothing."""
    first, second = make(), make()
    write(tmp_path, first)
    live = LiveCertificate(tmp_path)
    half = len(second.key_pem) // 2
    steps: list[tuple[str, bytes | None]] = [
        ("tls.crt", second.cert_pem),
        ("tls.key", second.key_pem[:half]),
        ("tls.key", None),
        ("tls.crt", b""),
    ]
    with capture_logs() as lines:
        for name, content in steps:
            if content is None:
                (tmp_path / name).unlink()
            else:
                (tmp_path / name).write_bytes(content)
            assert not live.refresh()
            assert not live.refresh()
            assert served(live) == first.cert_pem
        write(tmp_path, second)
        assert live.refresh()

    assert served(live) == second.cert_pem
    assert [line["event"] for line in lines] == [
        "certificate rejected, previous one kept",
        "certificate loaded",
    ]


async def test_the_files_are_followed_in_the_background(tmp_path: Path) -> None:
    """Writing the files is enough."""
    write(tmp_path, make())
    live = LiveCertificate(tmp_path)
    before = live.expires
    write(tmp_path, make(days=5))
    follow = asyncio.create_task(live.follow(poll_s=0.01))
    async with asyncio.timeout(PATIENCE_S):
        while True:
            if live.expires != before:
                break
            await asyncio.sleep(0.01)
    follow.cancel()

    assert live.expires > before


@pytest.mark.contract("S2-B5")
@pytest.mark.parametrize(
    ("certificate", "key", "problem"),
    [
        pytest.param(None, None, "cannot be read", id="missing"),
        pytest.param("own", "other", "are not a pair", id="other-key"),
        pytest.param("own", "encrypted", "are not a pair", id="encrypted-key"),
        pytest.param("nonsense", "own", "are not a pair", id="nonsense"),
    ],
)
def test_a_start_without_a_good_pair_says_what_is_wrong(
    certificate: str | None, key: str | None, problem: str, tmp_path: Path
) -> None:
    """One line with the folder, instead of a pod that hangs."""
    own, other = make(), make()
    encrypted = serialization.load_pem_private_key(own.key_pem, None).private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.BestAvailableEncryption(b"secret"),
    )
    texts = {"own": own.cert_pem, "nonsense": b"nonsense"}
    keys = {"own": own.key_pem, "other": other.key_pem, "encrypted": encrypted}
    if certificate and key:
        (tmp_path / "tls.crt").write_bytes(texts[certificate])
        (tmp_path / "tls.key").write_bytes(keys[key])

    with pytest.raises(CertificateError) as caught:
        LiveCertificate(tmp_path)

    assert str(caught.value).startswith(f"{tmp_path}: tls.crt and tls.key {problem}")


def test_a_bad_client_authority_is_named(tmp_path: Path) -> None:
    """The file of --client-ca."""
    write(tmp_path, make())

    with pytest.raises(CertificateError, match=r"nowhere\.crt: no authority for clients"):
        LiveCertificate(tmp_path, client_ca=tmp_path / "nowhere.crt")


def test_the_folder_is_only_read(tmp_path: Path) -> None:
    """A Secret's mount is read-only, and so may be the rest of the container."""
    write(tmp_path, make())
    tmp_path.chmod(stat.S_IRUSR | stat.S_IXUSR)
    LiveCertificate(tmp_path)

    assert sorted(path.name for path in tmp_path.iterdir()) == ["tls.crt", "tls.key"]
