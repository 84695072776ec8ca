"""The credentials and TLS settings that a kubeconfig has itself, without a plugin.

As in client-go, ``...-data`` takes precedence over the file of the same name, and a token's file
over a token. A file name is relative to the kubeconfig's folder.
"""

from __future__ import annotations

import base64
import contextlib
import ssl
import tempfile
from pathlib import Path

from scheduler.watch.credentials.authorization import Authorization, Constant, TokenFile
from scheduler.watch.credentials.errors import NoCluster, unreadable
from scheduler.watch.credentials.kubeconfig import Selected


def user_authorization(chosen: Selected) -> Authorization:
    """The user's token or password; no header for a certificate, or without a user."""
    user, where = chosen.user, f"{chosen.user_file}: user of context {chosen.context}"
    if user.token_file:
        path = _path(chosen.user_file, user.token_file)
        token = TokenFile(path)
        try:
            if not token.read():
                raise NoCluster(f"{where}: tokenFile: {path}: is empty")
        except OSError as error:
            raise unreadable(f"{where}: tokenFile", path, error) from error
        except UnicodeError as error:
            raise NoCluster(f"{where}: tokenFile: {path}: is no token") from error
        return token
    if user.token:
        return Constant(f"Bearer {user.token}")
    if user.username and user.password:
        words = f"{user.username}:{user.password}".encode()
        return Constant(f"Basic {base64.b64encode(words).decode()}")
    return Constant()


def cluster_tls(chosen: Selected) -> ssl.SSLContext | None:
    """The settings for a URL with https: the authority, and the user's certificate."""
    if not chosen.cluster.server.startswith("https"):
        return None
    tls = _trusting(chosen)
    if chosen.cluster.insecure_skip_tls_verify:
        tls.check_hostname = False
        tls.verify_mode = ssl.CERT_NONE
    _present_certificate(tls, chosen)
    return tls


def _trusting(chosen: Selected) -> ssl.SSLContext:
    cluster, where = chosen.cluster, f"{chosen.cluster_file}: cluster of context {chosen.context}"
    if cluster.certificate_authority_data:
        where += ": certificate-authority-data"
        data = _decoded(where, cluster.certificate_authority_data)
        try:
            return ssl.create_default_context(cadata=data.decode("ascii"))
        except (ssl.SSLError, ValueError) as error:
            raise NoCluster(f"{where}: has no certificate in PEM") from error
    if not cluster.certificate_authority:
        return ssl.create_default_context()
    path = _path(chosen.cluster_file, cluster.certificate_authority)
    where += ": certificate-authority"
    try:
        return ssl.create_default_context(cafile=str(path))
    except ssl.SSLError as error:
        raise NoCluster(f"{where}: {path}: has no certificate in PEM") from error
    except OSError as error:
        raise unreadable(where, path, error) from error


def _present_certificate(tls: ssl.SSLContext, chosen: Selected) -> None:
    """Load the user's certificate and key; OpenSSL reads files only."""
    user, where = chosen.user, f"{chosen.user_file}: user of context {chosen.context}"
    with contextlib.ExitStack() as files:
        certificate = _as_file(
            *(files, chosen.user_file, f"{where}: client-certificate"),
            *(user.client_certificate_data, user.client_certificate),
        )
        if certificate is None:
            return
        key = _as_file(
            *(files, chosen.user_file, f"{where}: client-key"),
            *(user.client_key_data, user.client_key),
        )
        try:
            tls.load_cert_chain(certificate, key, password="")  # OpenSSL must not ask
        except ssl.SSLError as error:
            problem = "client-certificate and client-key: are no certificate and its key in PEM"
            raise NoCluster(f"{where}: {problem}") from error


def _as_file(
    files: contextlib.ExitStack, kubeconfig: str, where: str, data: str, name: str
) -> Path | None:
    """The file that a user names, or one with the data; that one ends with ``files``."""
    if data:
        folder = files.enter_context(tempfile.TemporaryDirectory(prefix="gpu-scheduler-"))
        path = Path(folder) / "pem"
        path.write_bytes(_decoded(f"{where}-data", data))
        return path
    if not name:
        return None
    path = _path(kubeconfig, name)
    try:
        path.open("rb").close()
    except OSError as error:
        raise unreadable(where, path, error) from error
    return path


def _path(kubeconfig: str, name: str) -> Path:
    return Path(kubeconfig).expanduser().parent / name


def _decoded(where: str, data: str) -> bytes:
    try:
        return base64.b64decode("".join(data.split()), validate=True)
    except ValueError as error:
        raise NoCluster(f"{where}: is not base64") from error
