"""The prepared claims, stored in a file that survives the agent.

A kubelet calls prepare whenever a pod with the claim starts, and expects the same response. The
file has a checksum: a file that is damaged by a crash of the machine is rejected.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import msgspec

from fakegpu.atomic_write import replace
from fakegpu.dra.cdi import CdiDevice


class HeldDevice(msgspec.Struct, frozen=True):
    """A device of a prepared claim, and its CDI ids."""

    request: str
    pool: str
    device: str
    cdi: CdiDevice
    share_id: str = ""


class PreparedClaim(msgspec.Struct, frozen=True):
    """A prepared claim."""

    namespace: str
    name: str
    devices: tuple[HeldDevice, ...]


class _File(msgspec.Struct, frozen=True):
    checksum: str
    prepared: msgspec.Raw


class Unreadable(ValueError):
    """The file is damaged; one line."""


class Checkpoint:
    """One driver's file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.claims: dict[str, PreparedClaim] = {}

    def load(self) -> None:
        """Read the file, or raise Unreadable; a missing file means no claims."""
        try:
            content = self._path.read_bytes()
        except FileNotFoundError:
            return
        try:
            file = msgspec.json.decode(content, type=_File)
            if file.checksum != _checksum(bytes(file.prepared)):
                raise Unreadable(f"{self._path}: the checksum does not match the content")
            self.claims = msgspec.json.decode(file.prepared, type=dict[str, PreparedClaim])
        except msgspec.MsgspecError as error:
            raise Unreadable(f"{self._path}: {error}") from error

    def put(self, uid: str, claim: PreparedClaim) -> None:
        """Store a prepared claim."""
        self._save({**self.claims, uid: claim})

    def drop(self, uid: str) -> None:
        """Remove a claim."""
        if uid in self.claims:
            self._save({key: one for key, one in self.claims.items() if key != uid})

    def _save(self, claims: dict[str, PreparedClaim]) -> None:
        prepared = msgspec.json.encode(claims)
        document: dict[str, Any] = {
            "checksum": _checksum(prepared),
            "prepared": msgspec.Raw(prepared),
        }
        replace(self._path, msgspec.json.encode(document), survives_power_loss=True)
        self.claims = claims


def _checksum(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
