"""``gpuctl why`` asks the leader through kubectl, where the user may forward a port."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.builders import pod_json
from tests.http.fakeapi import FakeApi, reply
from tests.http.gpuctl.test_cluster_access import EVENTS, LEASE, POD, REVIEW
from tests.http.gpuctl.test_why_command import (
    DECISIONS,
    HOLDER,
    REFUSED,
    WAITS,
    User,
    told,
)


@pytest.fixture
def person(api: FakeApi, tmp_path: Path) -> User:
    api.script(EVENTS, reply({"items": []}))
    return User(api, tmp_path)


def install_kubectl(folder: Path, api: FakeApi, monkeypatch: pytest.MonkeyPatch) -> None:
    """A kubectl that forwards to the made-up server; what it was told is written before that."""
    address = api.url.removeprefix("http://")
    program = folder / "kubectl"
    line = f'echo "Forwarding from {address} -> 8090"'
    program.write_text(f'#!/bin/sh\necho "$@" > {folder}/words\n{line}\nexec sleep 60\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")


async def test_leader_is_asked_through_kubectl_where_the_user_may(
    person: User, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install_kubectl(tmp_path, person.api, monkeypatch)
    person.api.script(POD, reply(pod_json("a", status={"conditions": [WAITS]})))
    person.api.script(LEASE, reply(HOLDER))
    person.api.script(REVIEW, reply({"status": {"allowed": True}}, 201))
    person.api.script(DECISIONS, told(REFUSED, waits=True))

    result = await person.types("why", "a", "-o", "wide")

    assert result.status == 2
    assert "n1    NodeResourcesFit  TOO_MANY_PODS  Too many pods" in result.out
    assert "more:" not in result.out
    assert "port-forward pod/leader-1 :8090" in (tmp_path / "words").read_text()


@pytest.mark.parametrize("words", [(), ("--no-forward",)], ids=["no-right", "not-wanted"])
async def test_user_without_the_right_or_with_the_flag_starts_no_forward(
    person: User, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    install_kubectl(tmp_path, person.api, monkeypatch)
    person.api.script(POD, reply(pod_json("a", status={"conditions": [WAITS]})))
    person.api.script(LEASE, reply(HOLDER))
    person.api.script(REVIEW, reply({"status": {"allowed": bool(words)}}, 201))

    result = await person.types("why", "a", *words)

    assert result.status == 2
    assert "port-forward pod/leader-1 8090:8090" in result.out
    assert not (tmp_path / "words").exists()


async def test_leader_outside_of_the_cluster_is_asked_by_its_url(
    person: User, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No command to forward is printed: it could not work."""
    install_kubectl(tmp_path, person.api, monkeypatch)
    missing = """echo 'Error from server (NotFound): pods "leader-1" not found' >&2\nexit 1"""
    (tmp_path / "kubectl").write_text(f"#!/bin/sh\n{missing}\n")
    person.api.script(POD, reply(pod_json("a", status={"conditions": [WAITS]})))
    person.api.script(LEASE, reply(HOLDER))
    person.api.script(REVIEW, reply({"status": {"allowed": True}}, 201))

    result = await person.types("why", "a")

    assert "the leader leader-1 is not a pod of namespace gpu-scheduler-system" in result.out
    assert "port-forward" not in result.out
