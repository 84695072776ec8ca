"""Makes a PNG smaller: a page has few colours, so each pixel becomes a byte of a palette.

Colours beyond 256 become the nearest ones of the palette; these are shades at the edges of letters.
"""

from __future__ import annotations

import struct
import zlib
from collections import Counter
from collections.abc import Iterator
from typing import Final

SIGNATURE: Final = b"\x89PNG\r\n\x1a\n"
PALETTE_MAX: Final = 256
#: Rare colours at most so far from one of the palette (squares of the channels) become that one.
SIMILAR: Final = 300
#: Bytes of a pixel by the colour type of the header.
PIXEL_BYTES: Final = {2: 3, 6: 4}


def smaller(png: bytes) -> bytes:
    """The same picture with a palette; it must be 8-bit RGB or RGBA, as a browser writes it."""
    width, height, size, raw = _decoded(png)
    pixels = [
        [bytes(row[at : at + 3]) for at in range(0, len(row), size)]
        for row in _rows(raw, width * size, size)
    ]
    counts = Counter(colour for row in pixels for colour in row)
    palette = _palette([colour for colour, _ in counts.most_common()])
    index = {colour: at for at, colour in enumerate(palette)}
    for colour in counts.keys() - index.keys():
        index[colour] = _nearest(colour, palette)
    body = b"".join(b"\0" + bytes(map(index.__getitem__, row)) for row in pixels)
    chunks = (
        (b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)),
        (b"PLTE", b"".join(palette)),
        (b"IDAT", zlib.compress(body, 9)),
        (b"IEND", b""),
    )
    return SIGNATURE + b"".join(_chunk(kind, data) for kind, data in chunks)


def _palette(colours: list[bytes]) -> list[bytes]:
    """The most frequent colours, and of the rare ones those that differ from them."""
    palette = colours[: PALETTE_MAX // 2]
    for colour in colours[len(palette) :]:
        if len(palette) == PALETTE_MAX:
            break
        if _distance(colour, palette[_nearest(colour, palette)]) > SIMILAR:
            palette.append(colour)
    return palette


def _nearest(colour: bytes, palette: list[bytes]) -> int:
    return min(range(len(palette)), key=lambda at: _distance(colour, palette[at]))


def _distance(one: bytes, other: bytes) -> int:
    return sum((a - b) ** 2 for a, b in zip(one, other, strict=True))


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def _chunks(png: bytes) -> Iterator[tuple[bytes, bytes]]:
    assert png.startswith(SIGNATURE), "not a PNG"
    at = len(SIGNATURE)
    while at < len(png):
        (length,) = struct.unpack_from(">I", png, at)
        yield png[at + 4 : at + 8], png[at + 8 : at + 8 + length]
        at += length + 12


def _decoded(png: bytes) -> tuple[int, int, int, bytes]:
    """Width, height, bytes of a pixel, and the filtered rows."""
    chunks = list(_chunks(png))
    width, height, depth, kind = struct.unpack_from(">IIBB", dict(chunks)[b"IHDR"])
    assert depth == 8, "not 8 bits a channel"
    data = b"".join(data for name, data in chunks if name == b"IDAT")
    return width, height, PIXEL_BYTES[kind], zlib.decompress(data)


def _rows(raw: bytes, stride: int, size: int) -> Iterator[bytearray]:
    """The rows without their filters; the row above the first one is zero."""
    above = bytearray(stride)
    for start in range(0, len(raw), stride + 1):
        row = bytearray(raw[start + 1 : start + 1 + stride])
        _unfilter(raw[start], row, above, size)
        yield row
        above = row


def _unfilter(kind: int, row: bytearray, above: bytearray, size: int) -> None:
    if kind == 0:
        return
    for at, value in enumerate(row):
        left = row[at - size] if at >= size else 0
        if kind == 1:
            guess = left
        elif kind == 2:
            guess = above[at]
        elif kind == 3:
            guess = (left + above[at]) // 2
        else:
            guess = _paeth(left, above[at], above[at - size] if at >= size else 0)
        row[at] = (value + guess) & 255


def _paeth(left: int, above: int, corner: int) -> int:
    guess = left + above - corner
    to_left, to_above, to_corner = abs(guess - left), abs(guess - above), abs(guess - corner)
    if to_left <= to_above and to_left <= to_corner:
        return left
    return above if to_above <= to_corner else corner
