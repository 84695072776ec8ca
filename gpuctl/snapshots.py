"""Reads the scheduler's snapshot: from the leader's decisions API, or from a file."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

import msgspec

from gpuctl import cluster_access
from gpuctl.cluster_access import Access
from gpuctl.input_error import STDIN, InputError
from gpuctl.targets import parse
from scheduler.model.pods.pod import Pod
from scheduler.report.decisions.api_types import API_VERSION, SNAPSHOT_VERSION, Snapshot
from scheduler.watch.client import TIMEOUT_S

WAIT_DEFAULT_S: Final = 60
#: Added to the request's timeout, because encoding a large cluster takes a while.
MARGIN_S: Final = 60.0
NAMES_MAX: Final = 5


async def fetch(
    access: Access,
    server: str | None,
    command: str,
    awaited: str | None = None,
    wait_s: int = WAIT_DEFAULT_S,
) -> bytes:
    """The leader's snapshot as sent; NotReached names the part that did not answer, and how an
    administrator runs the ``command``.

    With ``awaited`` (namespace/name) the leader answers with its next decision on that pod.
    """
    if server is not None:
        return await _request(server, awaited, wait_s)
    async with cluster_access.cluster(access) as client:
        leader = await cluster_access.reachable_leader(client, access, command)
        async with cluster_access.forwarded(access, leader) as url:
            return await _request(url, awaited, wait_s)


async def _request(url: str, awaited: str | None, wait_s: int) -> bytes:
    async with cluster_access.server(url) as client:
        if awaited is None:
            return await cluster_access.ask(client, "/snapshot", {}, TIMEOUT_S + MARGIN_S)
        params = {"next": awaited, "wait": str(wait_s)}
        return await cluster_access.ask(client, "/snapshot", params, wait_s + MARGIN_S)


def read(file: str) -> Snapshot:
    """The snapshot in a file; InputError describes the defect in one line."""
    try:
        content = sys.stdin.buffer.read() if file == STDIN else Path(file).read_bytes()
    except OSError as error:
        raise InputError(f"{file}: {error.strerror}") from error
    return decode(content, file)


def pending_pods(snapshot: Snapshot, word: str, namespace: str | None = None) -> list[Pod]:
    """The waiting pods that a word names (``gpuctl.targets``), of one namespace or of any.

    InputError names the pods that wait.
    """
    target = parse(word)
    space = target.namespace or namespace
    queue = snapshot.state.queue
    found = [one.pod for one in queue if space in (None, one.pod.namespace) and target.has(one.pod)]
    if found:
        return found
    name = f"{target.kind} {space}/{target.name}" if space else str(target)
    keys = sorted(one.pod.key for one in queue)
    shown = ", ".join(keys[:NAMES_MAX]) or "none"
    more = f" and {len(keys) - NAMES_MAX} more" if len(keys) > NAMES_MAX else ""
    raise InputError(f"{name} is not pending (pending pods: {shown}{more})")


def decode(content: bytes, source: str) -> Snapshot:
    """The snapshot in these bytes; ``source`` names their origin in error messages."""
    try:
        head = msgspec.json.decode(content, type=dict[str, msgspec.Raw])
        kind = (_text(head, "apiVersion"), _text(head, "kind"))
        if kind != (API_VERSION, "Snapshot"):
            raise InputError(
                f"{source}: is no snapshot of gpu-scheduler ({' '.join(kind).strip()})"
            )
        version = msgspec.json.decode(head.get("version", b"0"), type=int)
        if version != SNAPSHOT_VERSION:
            raise InputError(
                f"{source}: is of version {version}; this gpuctl reads version {SNAPSHOT_VERSION},"
                f" use the one of {_text(head, 'program')}"
            )
        return msgspec.json.decode(content, type=Snapshot)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise InputError(f"{source}: is no snapshot: {str(error)[:200]}") from error


def _text(head: dict[str, msgspec.Raw], key: str) -> str:
    return msgspec.json.decode(head.get(key, b'""'), type=str)
