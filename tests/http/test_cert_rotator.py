"""The certificate rotator against an API server: writes, their order, and races."""

from __future__ import annotations

import base64
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
)

from scheduler.config import Certificates
from scheduler.controllers.certificates.issuer import Authority, make_authority
from scheduler.controllers.certificates.rotator import (
    PARTS,
    CertRotator,
    CertSecret,
    renewed,
    write_files,
)
from scheduler.watch.client import Client
from tests.http.fakeapi import FakeApi, failure, name_of, reply

NOW = datetime(2026, 11, 1, tzinfo=UTC)
LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)
SECRET = "/api/v1/namespaces/ours/secrets/pair"
AUTHORITY_SECRET = "/api/v1/namespaces/ours/secrets/authority"
AUTHORITY = make_authority(3650, now=NOW)
OTHER = make_authority(3650, now=NOW)


def secret_of(kept: CertSecret) -> dict[str, Any]:
    """A Secret as the API server shows it."""
    data = {
        name: base64.b64encode(getattr(kept, part)).decode()
        for name, part in PARTS.items()
        if getattr(kept, part)
    }
    return {
        "metadata": {"name": "pair", "resourceVersion": "7"},
        **({"data": data} if data else {}),
    }


def authority_of(authority: Authority) -> dict[str, Any]:
    """The Secret that the chart makes."""
    key = authority.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    parts = {"ca.crt": authority.certificate.public_bytes(Encoding.PEM), "ca.key": key}
    data = {name: base64.b64encode(part).decode() for name, part in parts.items()}
    return {"metadata": {"name": "authority"}, "data": data}


@pytest.fixture
def keeper(client: Client, tmp_path: Path) -> CertRotator:
    """One that keeps everything."""
    return CertRotator(client, wanted(tmp_path), "ours", lambda: NOW)


def wanted(directory: Path) -> Certificates:
    """A configuration that keeps everything."""
    where = str(directory / "certs")
    return Certificates(secret="pair", directory=where, names=("a.svc",), authority="authority")


async def test_empty_secret_is_filled_by_the_ca_and_nothing_else_is_written(
    api: FakeApi, keeper: CertRotator, tmp_path: Path
) -> None:
    api.script(f"GET {SECRET}", reply(secret_of(CertSecret())))
    api.script(f"GET {AUTHORITY_SECRET}", reply(authority_of(AUTHORITY)))
    api.script(f"PATCH {SECRET}", reply({}))
    await keeper.ensure()
    calls = [name_of(seen) for seen in api.seen]
    assert calls == [f"GET {SECRET}", f"GET {AUTHORITY_SECRET}", f"PATCH {SECRET}"]
    stored = api.seen[-1].json
    assert stored["metadata"] == {"resourceVersion": "7"}
    assert set(stored["data"]) == {"ca.crt", "tls.crt", "tls.key", "token"}
    assert (
        base64.b64decode(stored["data"]["tls.crt"]) == (tmp_path / "certs" / "tls.crt").read_bytes()
    )


async def test_loser_of_the_race_takes_the_certificate_of_the_winner(
    api: FakeApi, keeper: CertRotator, tmp_path: Path
) -> None:
    winner, _ = renewed(CertSecret(), AUTHORITY, wanted(tmp_path), NOW)
    api.script(f"GET {SECRET}", reply(secret_of(CertSecret())), reply(secret_of(winner)))
    api.script(f"GET {AUTHORITY_SECRET}", reply(authority_of(AUTHORITY)))
    api.script(f"PATCH {SECRET}", failure(409, "Conflict"))
    await keeper.ensure()
    assert (tmp_path / "certs" / "tls.crt").read_bytes() == winner.certificate


async def test_valid_secret_is_not_written(
    api: FakeApi, keeper: CertRotator, tmp_path: Path
) -> None:
    kept, _ = renewed(CertSecret(), AUTHORITY, wanted(tmp_path), NOW)
    api.script(f"GET {SECRET}", reply(secret_of(kept)))
    api.script(f"GET {AUTHORITY_SECRET}", reply(authority_of(AUTHORITY)))
    await keeper.ensure()
    assert {seen.method for seen in api.seen} == {"GET"}


async def test_replaced_ca_signs_at_the_next_check(
    api: FakeApi, keeper: CertRotator, tmp_path: Path
) -> None:
    kept, _ = renewed(CertSecret(), AUTHORITY, wanted(tmp_path), NOW)
    api.script(f"GET {SECRET}", reply(secret_of(kept)))
    api.script(f"GET {AUTHORITY_SECRET}", reply(authority_of(OTHER)))
    api.script(f"PATCH {SECRET}", reply({}))
    await keeper.ensure()
    served = x509.load_pem_x509_certificate((tmp_path / "certs" / "tls.crt").read_bytes())
    served.verify_directly_issued_by(OTHER.certificate)


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(failure(404, "NotFound"), id="missing"),
        pytest.param(reply({"metadata": {}, "data": {}}), id="empty"),
        pytest.param(reply({"metadata": {}, "data": {"ca.crt": "eA==", "ca.key": "!"}}), id="bad"),
        pytest.param(reply(authority_of(make_authority(1, now=LONG_AGO))), id="expired"),
    ],
)
async def test_served_certificate_stays_without_a_ca_that_can_sign(
    api: FakeApi, keeper: CertRotator, tmp_path: Path, answer: Any
) -> None:
    """The problem is a line in the log, and the pod goes on with the files that it has."""
    kept, _ = renewed(CertSecret(), AUTHORITY, wanted(tmp_path), NOW)
    write_files(tmp_path / "certs", kept)
    api.script(f"GET {SECRET}", reply(secret_of(kept)))
    api.script(f"GET {AUTHORITY_SECRET}", answer)
    assert await keeper.try_once() is False
    await keeper.until_there()
    assert (tmp_path / "certs" / "tls.crt").read_bytes() == kept.certificate
    assert {seen.method for seen in api.seen} == {"GET"}
