"""When a pod's own certificate is made anew, and what of the former one is kept."""

from __future__ import annotations

import stat
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
import pytest
from cryptography import x509

from scheduler.config import Certificates
from scheduler.keeper import Kept, renewed, write_files

NOW = datetime(2026, 11, 1, tzinfo=UTC)
NAMES = ("gpu-scheduler-webhook", "gpu-scheduler-webhook.gpu-scheduler-system.svc")
WANTED = Certificates(secret="s", directory="d", names=NAMES, days=90)
FIRST, _ = renewed(Kept(), WANTED, NOW)


def names_of(kept: Kept) -> set[str]:
    """The names in a certificate."""
    found = x509.load_pem_x509_certificate(kept.certificate)
    extension = found.extensions.get_extension_for_class(x509.SubjectAlternativeName)
    return set(extension.value.get_values_for_type(x509.DNSName))


def authorities(kept: Kept) -> int:
    """How many are trusted."""
    return len(x509.load_pem_x509_certificates(kept.ca))


def test_an_empty_secret_gets_a_certificate_of_the_wanted_names_and_a_token() -> None:
    assert names_of(FIRST) == set(NAMES)
    assert len(FIRST.token) >= 32
    assert authorities(FIRST) == 1


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
def test_it_is_renewed_when_two_thirds_of_its_life_are_over(days: int, is_due: bool) -> None:
    fresh, reason = renewed(FIRST, WANTED, NOW + timedelta(days=days))
    assert bool(reason) == is_due
    assert (fresh.certificate != FIRST.certificate) == is_due
    assert fresh.token == FIRST.token


def test_the_former_authority_stays_trusted_until_it_expires() -> None:
    second, _ = renewed(FIRST, WANTED, NOW + timedelta(days=61))
    assert second.ca.endswith(FIRST.ca)
    third, _ = renewed(second, WANTED, NOW + timedelta(days=61 + 61))
    assert not third.ca.endswith(FIRST.ca), "expired by now"
    assert authorities(third) == 2


@pytest.mark.parametrize(
    ("change", "said"),
    [
        pytest.param({"key": b""}, "its key is gone", id="no-key"),
        pytest.param({"certificate": b"nonsense"}, "there was no certificate", id="nonsense"),
        pytest.param({"ca": renewed(Kept(), WANTED, NOW)[0].ca}, "not of its authority", id="ca"),
        pytest.param({"token": b""}, "there was no token", id="no-token"),
    ],
)
def test_what_is_broken_is_made_anew_and_the_reason_is_said(
    change: dict[str, bytes], said: str
) -> None:
    fresh, reason = renewed(msgspec.structs.replace(FIRST, **change), WANTED, NOW)
    assert said in reason
    assert renewed(fresh, WANTED, NOW) == (fresh, "")


def test_a_changed_name_of_the_service_is_a_reason() -> None:
    other = Certificates(secret="s", directory="d", names=("other",))
    assert renewed(FIRST, other, NOW)[1] == "it is of other names"


def test_without_names_only_the_token_is_kept() -> None:
    fresh, reason = renewed(Kept(), Certificates(secret="s", directory="d"), NOW)
    assert (fresh.certificate, fresh.key, fresh.ca) == (b"", b"", b"")
    assert fresh.token
    assert reason == "there was no token"


def test_files_are_whole_and_for_our_user_only(tmp_path: Path) -> None:
    write_files(tmp_path / "certs", FIRST)
    found = {path.name: path.read_bytes() for path in (tmp_path / "certs").iterdir()}
    assert found == {
        "ca.crt": FIRST.ca,
        "tls.crt": FIRST.certificate,
        "tls.key": FIRST.key,
        "token": FIRST.token,
    }
    assert stat.S_IMODE((tmp_path / "certs" / "tls.key").stat().st_mode) == 0o600
