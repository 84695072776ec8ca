"""Whole numbers in foreign texts, read without ever handling more digits than fit.

``int`` takes time that grows with the square of the digits, refuses more than 4,300 of them by an
exception, and reads digits of every alphabet. So the digits are looked at before they are counted.
"""

from __future__ import annotations


def whole(text: str, most: int) -> int | None:
    """The number from 0 to ``most`` that a text of ASCII digits says; None for anything else.

    >>> whole("12", 99), whole("100", 99), whole("-1", 99), whole("", 99), whole("٣", 99)
    (12, None, None, None, None)
    """
    if len(text) > len(str(most)) or not (text.isascii() and text.isdigit()):
        return None
    number = int(text)
    return number if number <= most else None
