"""The keeper against an API server: what it writes, in which order, and who wins a race."""

from __future__ import annotations

import base64
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from scheduler.config import Certificates
from scheduler.keeper import PARTS, Keeper, Kept, renewed
from scheduler.watch.client import Client
from tests.http.fakeapi import FakeApi, failure, name_of, reply

NOW = datetime(2026, 11, 1, tzinfo=UTC)
SECRET = "/api/v1/namespaces/ours/secrets/pair"
REGISTRATION = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/ours"


def secret_of(kept: Kept) -> dict[str, Any]:
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


def registration(*bundles: bytes) -> dict[str, Any]:
    """A registration whose entries trust these authorities."""
    entries = [
        {"name": f"entry-{n}", "clientConfig": {"caBundle": base64.b64encode(one).decode()}}
        for n, one in enumerate(bundles)
    ]
    return {"webhooks": entries}


@pytest.fixture
def keeper(client: Client, tmp_path: Path) -> Keeper:
    """One that keeps everything."""
    return Keeper(client, wanted(tmp_path), "ours", lambda: NOW)


def wanted(directory: Path) -> Certificates:
    """A configuration that keeps everything."""
    where = str(directory / "certs")
    return Certificates(secret="pair", directory=where, names=("a.svc",), registration="ours")


async def test_an_authority_is_trusted_before_its_certificate_is_used(
    api: FakeApi, keeper: Keeper, tmp_path: Path
) -> None:
    api.script(f"GET {SECRET}", reply(secret_of(Kept())))
    api.script(f"PATCH {SECRET}", reply({}))
    api.script(f"GET {REGISTRATION}", reply(registration(b"old")))
    api.script(f"PATCH {REGISTRATION}", reply({}))
    await keeper.ensure()
    calls = [name_of(seen) for seen in api.seen]
    assert calls.index(f"PATCH {REGISTRATION}") < calls.index(f"PATCH {SECRET}")
    stored = next(seen.json for seen in api.seen if name_of(seen) == f"PATCH {SECRET}")
    assert stored["metadata"] == {"resourceVersion": "7"}
    assert (
        base64.b64decode(stored["data"]["tls.crt"]) == (tmp_path / "certs" / "tls.crt").read_bytes()
    )


async def test_who_loses_the_race_takes_what_the_winner_wrote(
    api: FakeApi, keeper: Keeper, tmp_path: Path
) -> None:
    winner, _ = renewed(Kept(), wanted(tmp_path), NOW)
    api.script(f"GET {SECRET}", reply(secret_of(Kept())), reply(secret_of(winner)))
    api.script(f"PATCH {SECRET}", failure(409, "Conflict"))
    api.script(f"GET {REGISTRATION}", reply(registration(b"of the loser")))
    api.script(f"PATCH {REGISTRATION}", reply({}))
    await keeper.ensure()
    assert (tmp_path / "certs" / "tls.crt").read_bytes() == winner.certificate
    last = next(s.json for s in reversed(api.seen) if name_of(s) == f"PATCH {REGISTRATION}")
    assert base64.b64decode(last[-1]["value"]) == winner.ca


async def test_where_all_is_well_nothing_is_written(
    api: FakeApi, keeper: Keeper, tmp_path: Path
) -> None:
    kept, _ = renewed(Kept(), wanted(tmp_path), NOW)
    api.script(f"GET {SECRET}", reply(secret_of(kept)))
    api.script(f"GET {REGISTRATION}", reply(registration(kept.ca, kept.ca)))
    await keeper.ensure()
    assert {seen.method for seen in api.seen} == {"GET"}


async def test_only_entries_that_say_otherwise_are_written_and_by_their_name(
    api: FakeApi, keeper: Keeper, tmp_path: Path
) -> None:
    kept, _ = renewed(Kept(), wanted(tmp_path), NOW)
    api.script(f"GET {SECRET}", reply(secret_of(kept)))
    api.script(f"GET {REGISTRATION}", reply(registration(kept.ca, b"other")))
    api.script(f"PATCH {REGISTRATION}", reply({}))
    await keeper.ensure()
    assert [step["path"] for step in api.seen[-1].json] == [
        "/webhooks/1/name",
        "/webhooks/1/clientConfig/caBundle",
    ]


async def test_a_registration_that_is_gone_does_not_keep_the_pod_from_starting(
    api: FakeApi, keeper: Keeper, tmp_path: Path
) -> None:
    """The files are laid even though the registration cannot be written (yet)."""
    api.script(f"GET {SECRET}", reply(secret_of(Kept())))
    api.script(f"PATCH {SECRET}", reply({}))
    assert await keeper.try_once() is False
    assert (tmp_path / "certs" / "token").exists()
    await keeper.until_there()
