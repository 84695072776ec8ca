"""Tokens, passwords, certificates and authorities that a kubeconfig or a pod has itself."""

from __future__ import annotations

import base64
import ssl
from pathlib import Path
from typing import Any

import pytest
import yaml

from scheduler.watch.credentials import service_account
from scheduler.watch.credentials.access import ClusterAccess, find
from scheduler.watch.credentials.authorization import TOKEN_AGE_MAX_S, TokenFile
from scheduler.watch.credentials.errors import NoCluster
from tools.controlplane.pki import Authority, Pair

HTTPS = "https://127.0.0.1:6443/"


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def pair(authority: Authority) -> Pair:
    return authority.client("jane")


def encoded(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode()


def written(folder: Path, cluster: dict[str, Any], user: dict[str, Any]) -> str:
    """A kubeconfig with this cluster and user."""
    content = {
        "current-context": "a",
        "contexts": [{"name": "a", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": HTTPS} | cluster}],
        "users": [{"name": "u", "user": user}],
    }
    file = folder / "kubeconfig"
    file.write_text(yaml.safe_dump(content))
    return str(file)


async def access(folder: Path, cluster: dict[str, Any], user: dict[str, Any]) -> ClusterAccess:
    return await find(written(folder, cluster, user), None, {})


async def defect(folder: Path, cluster: dict[str, Any], user: dict[str, Any]) -> str:
    """The line without the kubeconfig's name, which it begins with."""
    with pytest.raises(NoCluster) as found:
        await access(folder, cluster, user)
    line, start = str(found.value), f"{folder}/kubeconfig: "
    assert line.startswith(start)
    assert "\n" not in line
    return line.removeprefix(start).replace(str(folder), "F")


# --- the header ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("user", "expected"),
    [
        pytest.param({}, None, id="none"),
        pytest.param({"token": "t"}, "Bearer t", id="token"),
        pytest.param({"tokenFile": "token"}, "Bearer in-a-file", id="token-file"),
        pytest.param({"tokenFile": "token", "token": "t"}, "Bearer in-a-file", id="file-first"),
        pytest.param({"username": "u", "password": "p"}, "Basic dTpw", id="password"),
        pytest.param({"username": "u"}, None, id="no-password"),
        pytest.param({"exec": None, "auth-provider": None, "token": "t"}, "Bearer t", id="nulls"),
    ],
)
async def test_header_has_the_credentials_of_the_user(
    tmp_path: Path, user: dict[str, Any], expected: str | None
) -> None:
    (tmp_path / "token").write_text(" in-a-file\n")

    found = await access(tmp_path, {"server": "http://h:1/"}, user)

    assert await found.authorization.header() == expected
    assert (found.url, found.tls) == ("http://h:1", None)


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        pytest.param(None, "F/token: No such file or directory", id="absent"),
        pytest.param(b" \n", "F/token: is empty", id="empty"),
        pytest.param(b"\xff", "F/token: is no token", id="binary"),
    ],
)
async def test_unreadable_token_file_is_named(
    tmp_path: Path, content: bytes | None, expected: str
) -> None:
    if content is not None:
        (tmp_path / "token").write_bytes(content)

    line = await defect(tmp_path, {"server": "http://h"}, {"tokenFile": "token"})

    assert line == f"user of context a: tokenFile: {expected}"


async def test_rotated_token_is_read_within_a_minute(tmp_path: Path) -> None:
    now = [100.0]
    file = tmp_path / "token"
    file.write_text("first")
    token = TokenFile(file, lambda: now[0])
    assert token.read() == "first"

    file.write_text("second")
    now[0] += TOKEN_AGE_MAX_S - 1
    assert await token.header() == "Bearer first"
    now[0] += 1
    assert await token.header() == "Bearer second"


@pytest.mark.parametrize("content", [None, b"", b"\xff"], ids=["absent", "empty", "binary"])
async def test_last_token_counts_while_the_file_is_unreadable(
    tmp_path: Path, content: bytes | None
) -> None:
    """The kubelet replaces a link; the next reading is a minute later."""
    now = [100.0]
    file = tmp_path / "token"
    file.write_text("first")
    token = TokenFile(file, lambda: now[0])
    token.read()

    file.unlink()
    if content is not None:
        file.write_bytes(content)
    now[0] += TOKEN_AGE_MAX_S
    assert await token.header() == "Bearer first"
    file.write_text("second")
    now[0] += TOKEN_AGE_MAX_S
    assert await token.header() == "Bearer second"


# --- TLS -----------------------------------------------------------------------------------------


def subjects(tls: ssl.SSLContext | None) -> list[str]:
    """The common names of the trusted authorities."""
    assert tls is not None
    subjects: list[Any] = [one["subject"] for one in tls.get_ca_certs()]
    return [part[0][1] for subject in subjects for part in subject if part[0][0] == "commonName"]


@pytest.mark.parametrize("form", ["file", "data"])
async def test_authority_is_a_file_or_data(tmp_path: Path, authority: Authority, form: str) -> None:
    file = authority.files.certificate
    cluster = {
        "file": {"certificate-authority": str(file)},
        "data": {"certificate-authority-data": encoded(file), "certificate-authority": "absent"},
    }[form]

    found = await access(tmp_path, cluster, {})

    assert subjects(found.tls) == ["gpu-scheduler-control-plane"]
    assert found.tls is not None
    assert found.tls.verify_mode is ssl.CERT_REQUIRED
    assert found.url == HTTPS.rstrip("/")


async def test_file_names_are_relative_to_the_kubeconfig(
    tmp_path: Path, authority: Authority, pair: Pair
) -> None:
    (tmp_path / "ca").write_bytes(authority.files.certificate.read_bytes())
    (tmp_path / "crt").write_bytes(pair.certificate.read_bytes())
    (tmp_path / "key").write_bytes(pair.key.read_bytes())

    user = {"client-certificate": "crt", "client-key": "key"}
    found = await access(tmp_path, {"certificate-authority": "ca"}, user)

    assert subjects(found.tls) == ["gpu-scheduler-control-plane"]


async def test_data_of_a_key_is_in_no_file_afterwards(
    tmp_path: Path, pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    user = {
        "client-certificate-data": encoded(pair.certificate),
        "client-key-data": encoded(pair.key),
    }

    await access(tmp_path, {"insecure-skip-tls-verify": True}, user)

    assert [one.name for one in tmp_path.iterdir()] == ["kubeconfig"]


async def test_insecure_cluster_is_not_verified(tmp_path: Path) -> None:
    found = await access(tmp_path, {"insecure-skip-tls-verify": True}, {})

    assert found.tls is not None
    assert (found.tls.verify_mode, found.tls.check_hostname) == (ssl.CERT_NONE, False)


GARBAGE = base64.b64encode(b"no certificate").decode()


@pytest.mark.parametrize(
    ("cluster", "user", "expected"),
    [
        pytest.param(
            {"certificate-authority": "absent"},
            {},
            "cluster of context a: certificate-authority: F/absent: No such file or directory",
            id="authority-absent",
        ),
        pytest.param(
            {"certificate-authority": "kubeconfig"},
            {},
            "cluster of context a: certificate-authority: F/kubeconfig: has no certificate in PEM",
            id="authority-no-pem",
        ),
        pytest.param(
            {"certificate-authority-data": "?"},
            {},
            "cluster of context a: certificate-authority-data: is not base64",
            id="authority-no-base64",
        ),
        pytest.param(
            {"certificate-authority-data": GARBAGE},
            {},
            "cluster of context a: certificate-authority-data: has no certificate in PEM",
            id="authority-data-no-pem",
        ),
        pytest.param(
            {},
            {"client-certificate": "absent", "client-key": "absent"},
            "user of context a: client-certificate: F/absent: No such file or directory",
            id="certificate-absent",
        ),
        pytest.param(
            {},
            {"client-certificate": "kubeconfig", "client-key": "absent"},
            "user of context a: client-key: F/absent: No such file or directory",
            id="key-absent",
        ),
        pytest.param(
            {},
            {"client-certificate": "kubeconfig", "client-key-data": "?"},
            "user of context a: client-key-data: is not base64",
            id="key-no-base64",
        ),
        pytest.param(
            {},
            {"client-certificate-data": GARBAGE, "client-key-data": GARBAGE},
            "user of context a: client-certificate and client-key: are no certificate and its key"
            " in PEM",
            id="no-pair",
        ),
    ],
)
async def test_defect_of_a_field_names_the_file_and_the_field(
    tmp_path: Path, cluster: dict[str, Any], user: dict[str, Any], expected: str
) -> None:
    assert await defect(tmp_path, cluster, user) == expected


# --- in a pod ------------------------------------------------------------------------------------


@pytest.fixture
def mounted(tmp_path: Path, authority: Authority) -> Path:
    (tmp_path / "token").write_text("of-the-pod\n")
    (tmp_path / "ca.crt").write_bytes(authority.files.certificate.read_bytes())
    return tmp_path


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        pytest.param("10.0.0.1", "https://10.0.0.1:443", id="ipv4"),
        pytest.param("fd00::1", "https://[fd00::1]:443", id="ipv6"),
    ],
)
async def test_pod_has_the_address_the_token_and_the_authority(
    mounted: Path, host: str, expected: str
) -> None:
    environment = {service_account.HOST: host, service_account.PORT: "443"}

    found = service_account.read(environment, mounted)

    assert found.url == expected
    assert await found.token.header() == "Bearer of-the-pod"
    assert subjects(found.tls) == ["gpu-scheduler-control-plane"]


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        pytest.param("token", None, "token: No such file or directory", id="no-token"),
        pytest.param("token", b"", "token: is empty", id="empty-token"),
        pytest.param("token", b"\xff", "token: is no token", id="binary-token"),
        pytest.param("ca.crt", None, "ca.crt: No such file or directory", id="no-authority"),
        pytest.param("ca.crt", b"x", "ca.crt: has no certificate in PEM", id="bad-authority"),
    ],
)
def test_missing_part_of_the_pod_is_named(
    mounted: Path, name: str, content: bytes | None, expected: str
) -> None:
    (mounted / name).unlink()
    if content is not None:
        (mounted / name).write_bytes(content)

    with pytest.raises(NoCluster) as found:
        service_account.read({service_account.HOST: "h", service_account.PORT: "1"}, mounted)
    assert str(found.value) == f"the pod's ServiceAccount: {mounted}/{expected}"


async def test_pod_without_the_port_is_no_cluster() -> None:
    with pytest.raises(NoCluster) as found:
        await find(None, None, {service_account.HOST: "h"})
    assert str(found.value) == (
        "the pod's ServiceAccount: the variable KUBERNETES_SERVICE_PORT is empty"
    )
