"""Reads kubeconfig files, and chooses the context, with its cluster and user.

The rules are those of client-go (tools/clientcmd): ``--kubeconfig`` is one file, the variable
KUBECONFIG a list of files, and ``~/.kube/config`` the default. Files are merged: the first one that
has a name decides. File names in a kubeconfig are relative to its folder.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, NoReturn

import msgspec

from scheduler.watch.credentials.errors import NoCluster

VARIABLE: Final = "KUBECONFIG"
DEFAULT: Final = "~/.kube/config"
BYTES_MAX: Final = 4 << 20
NAMES_MAX: Final = 10


class Cluster(msgspec.Struct, frozen=True, rename="kebab"):
    """An API server."""

    server: str = ""
    certificate_authority: str = ""
    certificate_authority_data: str = ""
    insecure_skip_tls_verify: bool = False


class User(msgspec.Struct, frozen=True, rename="kebab"):
    """The credentials of a user; ``exec`` and ``auth_provider`` name plugins."""

    client_certificate: str = ""
    client_certificate_data: str = ""
    client_key: str = ""
    client_key_data: str = ""
    token: str = ""
    token_file: str = msgspec.field(default="", name="tokenFile")
    username: str = ""
    password: str = ""
    exec: dict[str, Any] | None = None
    auth_provider: dict[str, Any] | None = None

    @property
    def needs_plugin(self) -> bool:
        """Whether a program or a provider gives the credentials."""
        return bool(self.exec or self.auth_provider)


class Context(msgspec.Struct, frozen=True):
    """The names of a cluster and a user."""

    cluster: str = ""
    user: str = ""
    namespace: str = ""


class _NamedCluster(msgspec.Struct, frozen=True):
    name: str = ""
    cluster: Cluster | None = None


class _NamedUser(msgspec.Struct, frozen=True):
    name: str = ""
    user: User | None = None


class _NamedContext(msgspec.Struct, frozen=True):
    name: str = ""
    context: Context | None = None


class _File(msgspec.Struct, frozen=True, rename="kebab"):
    current_context: str | None = None
    contexts: tuple[_NamedContext, ...] | None = None
    clusters: tuple[_NamedCluster, ...] | None = None
    users: tuple[_NamedUser, ...] | None = None


class Selected(msgspec.Struct, frozen=True, kw_only=True):
    """A context with its cluster and its user, and the files that have these."""

    context: str
    namespace: str
    cluster: Cluster
    cluster_file: str
    user: User
    user_file: str


class _Merged(msgspec.Struct):
    """The entries of all files by name, each with its file."""

    current: str = ""
    contexts: dict[str, Context] = {}
    clusters: dict[str, tuple[str, Cluster]] = {}
    users: dict[str, tuple[str, User]] = {}

    def add(self, path: str, file: _File) -> None:
        """Add a file; what earlier files have stays."""
        self.current = self.current or file.current_context or ""
        for context in file.contexts or ():
            if context.name:
                self.contexts.setdefault(context.name, context.context or Context())
        for cluster in file.clusters or ():
            self.clusters.setdefault(cluster.name, (path, cluster.cluster or Cluster()))
        for user in file.users or ():
            self.users.setdefault(user.name, (path, user.user or User()))


def selected(file: str | None, context: str | None, environment: Mapping[str, str]) -> Selected:
    """The context of this name, or the current one; NoCluster has the defect in one line."""
    paths = [file] if file is not None else _paths(environment)
    found = [path for path in paths if Path(path).expanduser().exists()]
    if not found:
        if file is not None:
            raise NoCluster(f"{file}: no such kubeconfig file")
        verb = "does not exist" if len(paths) == 1 else "do not exist"
        raise NoCluster(f"no cluster: {', '.join(paths)} {verb} (pass --kubeconfig FILE)")
    merged = _Merged()
    for path in found:
        merged.add(path, _read(path))
    name = _chosen(context, merged, ", ".join(found))
    return _resolved(name, merged, ", ".join(found))


def _paths(environment: Mapping[str, str]) -> list[str]:
    listed = [path for path in environment.get(VARIABLE, "").split(os.pathsep) if path]
    return listed or [DEFAULT]


def _read(path: str) -> _File:
    try:
        with Path(path).expanduser().open("rb") as opened:
            data = opened.read(BYTES_MAX + 1)
    except OSError as error:
        raise NoCluster(f"{path}: {error.strerror}") from error
    if len(data) > BYTES_MAX:
        raise NoCluster(f"{path}: is larger than {BYTES_MAX >> 20} MiB, which no kubeconfig is")
    try:
        content = msgspec.yaml.decode(data)
    except (msgspec.MsgspecError, UnicodeError, RecursionError, ValueError) as error:
        raise NoCluster(f"{path}: is not YAML: {str(error).splitlines()[0]}") from error
    if not isinstance(content, dict):
        raise NoCluster(f"{path}: is no kubeconfig")
    try:
        return msgspec.convert(content, _File)
    except msgspec.ValidationError as error:
        raise NoCluster(f"{path}: {_field_first(str(error))}") from error


def _field_first(text: str) -> str:
    """A message of msgspec with its field in front.

    >>> _field_first("Expected `str`, got `int` - at `$.users[0].user.token`")
    'users[0].user.token: expected `str`, got `int`'
    """
    problem, _, place = text.partition(" - at ")
    where = place.strip("`").removeprefix("$.")
    return f"{where}: {problem[:1].lower()}{problem[1:]}" if where else text


def _chosen(wanted: str | None, merged: _Merged, where: str) -> str:
    """The name of the context; it exists."""
    names = sorted(merged.contexts)
    if not names:
        raise NoCluster(f"no cluster: {where} has no context")
    more = f" and {len(names) - NAMES_MAX} more" if len(names) > NAMES_MAX else ""
    there = f"there are: {', '.join(names[:NAMES_MAX])}{more}"
    if wanted is not None:
        if wanted not in merged.contexts:
            raise NoCluster(f"context {wanted} does not exist; {there}")
        return wanted
    if not merged.current:
        raise NoCluster(f"{where} has no current context (pass --context NAME; {there})")
    if merged.current not in merged.contexts:
        raise NoCluster(f"the current context {merged.current} of {where} does not exist; {there}")
    return merged.current


def _resolved(name: str, merged: _Merged, where: str) -> Selected:
    context = merged.contexts[name]
    if context.cluster not in merged.clusters:
        _lacks(where, name, "cluster", context.cluster)
    cluster_file, cluster = merged.clusters[context.cluster]
    if not cluster.server:
        raise NoCluster(f"{cluster_file}: cluster {context.cluster}: server is missing")
    if context.user and context.user not in merged.users:
        _lacks(where, name, "user", context.user)
    user_file, user = merged.users.get(context.user, (cluster_file, User()))
    return Selected(
        context=name,
        namespace=context.namespace,
        cluster=cluster,
        cluster_file=cluster_file,
        user=user,
        user_file=user_file,
    )


def _lacks(where: str, context: str, what: str, name: str) -> NoReturn:
    problem = f"{what} {name} does not exist" if name else f"{what} is missing"
    raise NoCluster(f"{where}: context {context}: {problem}")
