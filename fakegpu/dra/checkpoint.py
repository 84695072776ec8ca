"""Which claims are prepared, kept in a file that survives the agent.

A kubelet asks for a claim again whenever a pod with it begins, and expects the same answer. The
file carries a checksum: what was torn by a crash of the machine is not believed.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import msgspec

from fakegpu.atomic_write import replace
from fakegpu.dra.cdi import CdiDevice


class HeldDevice(msgspec.Struct, frozen=True):
    """A device of a prepared claim, and what the runtime does for it."""

    request: str
    pool: str
    device: str
    cdi: CdiDevice
    share_id: str = ""


class PreparedClaim(msgspec.Struct, frozen=True):
    """A claim that is prepared."""

    namespace: str
    name: str
    devices: tuple[HeldDevice, ...]


class _File(msgspec.Struct, frozen=True):
    checksum: str
    prepared: msgspec.Raw


class Unreadable(ValueError):
    """The file says nothing that can be believed; one line."""


class Checkpoint:
    """One driver's file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.claims: dict[str, PreparedClaim] = {}

    def load(self) -> None:
        """Read it, or Unreadable; no file means no claims."""
        try:
            content = self._path.read_bytes()
        except FileNotFoundError:
            return
        try:
            file = msgspec.json.decode(content, type=_File)
            if file.checksum != _checksum(bytes(file.prepared)):
                raise Unreadable(f"{self._path}: its checksum is not that of what it says")
            self.claims = msgspec.json.decode(file.prepared, type=dict[str, PreparedClaim])
        except msgspec.MsgspecError as error:
            raise Unreadable(f"{self._path}: {error}") from error

    def put(self, uid: str, claim: PreparedClaim) -> None:
        """A claim is prepared."""
        self._save({**self.claims, uid: claim})

    def drop(self, uid: str) -> None:
        """A claim is not prepared any more."""
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
