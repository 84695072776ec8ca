"""``python -m webhook.register_cli``: what would not work is not registered."""

from __future__ import annotations

import datetime
from pathlib import Path

import pytest

from scheduler.controllers.certificates.issuer import make_certificates
from tools.controlplane.ports import LOOPBACK, free_ports
from webhook.register_cli import main


@pytest.fixture
def authority(tmp_path: Path) -> Path:
    """A certificate of some authority."""
    now = datetime.datetime(2026, 11, 1, tzinfo=datetime.UTC)
    path = tmp_path / "ca.crt"
    path.write_bytes(make_certificates(["a"], [], 1, now=now).ca_pem)
    return path


def test_a_webhook_that_does_not_answer_is_not_registered(
    authority: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One line has the place and the problem, and nothing is printed for kubectl to apply."""
    url = f"https://{LOOPBACK}:{free_ports(1)[0]}"

    status = main(["--url", url, "--ca-file", str(authority), "--wait-s", "0"])

    said = capsys.readouterr()
    assert (status, said.out) == (1, "")
    assert said.err.startswith(f"webhook.register_cli: {url} with {authority}: ")
    assert "Connection refused" in said.err
    assert said.err.count("\n") == 1


def test_unreadable_ca_file_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status = main(["--url", "https://a:1", "--ca-file", str(tmp_path / "none"), "--wait-s", "0"])

    assert status == 1
    assert "No such file or directory" in capsys.readouterr().err


def test_an_address_without_tls_is_refused(
    authority: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """API servers speak to webhooks by TLS alone."""
    with pytest.raises(SystemExit):
        main(["--url", "http://a:1", "--ca-file", str(authority)])

    assert "http://a:1: expected https://HOST:PORT" in capsys.readouterr().err
