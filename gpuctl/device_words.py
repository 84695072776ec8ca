"""Numbers with their word."""

from __future__ import annotations


def counted(count: int, word: str) -> str:
    """A number and its word in the plural where it needs one.

    >>> counted(1, "pod"), counted(2, "GPU")
    ('1 pod', '2 GPUs')
    """
    return f"{count} {word}" if count == 1 else f"{count} {word}s"
