"""Whole numbers in untrusted texts, without conversions of long digit strings.

The time of ``int`` grows with the square of the digits; it raises for more than 4,300 of them, and
accepts digits of every alphabet. So the digits are checked before the conversion.
"""

from __future__ import annotations


def whole(text: str, most: int) -> int | None:
    """The number from 0 to ``most`` in a text of ASCII digits; None for any other text.

    >>> whole("12", 99), whole("100", 99), whole("-1", 99), whole("", 99), whole("٣", 99)
    (12, None, None, None, None)
    """
    if not text or len(text) > len(str(most)) or not (text.isascii() and text.isdigit()):
        return None
    number = int(text)
    return number if number <= most else None
