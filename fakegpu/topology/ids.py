"""Ids of devices: drawn from their place, so that they outlive every restart and every new cut."""

from __future__ import annotations

import hashlib


def gpu_id(node: str, index: int) -> str:
    """The id of a GPU: the same for ever, and the same as the seed operator's.

    >>> gpu_id("node1", 0)
    'GPU-9c371748-0caa-5ed1-a957-7da694d693b6'
    """
    return "GPU-" + _uuid5(f"{node}-{index}")


def mig_id(node: str, index: int, profile: str, position: int) -> str:
    """The id of a MIG instance: the same whenever the same one is cut again."""
    return "MIG-" + _uuid5(f"{node}-{index}-{profile}-{position}")


def _uuid5(name: str) -> str:
    """A UUID of version 5 in the nil namespace (RFC 9562): no clock, no chance."""
    digest = bytearray(hashlib.sha1(bytes(16) + name.encode(), usedforsecurity=False).digest()[:16])
    digest[6] = digest[6] & 0x0F | 0x50
    digest[8] = digest[8] & 0x3F | 0x80
    text = digest.hex()
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"
