"""The nodes that have a container image, from ``status.images``.

Large clusters have a hundred image names on each node, so the nodes of an image are the bits of one
number: two kilobytes per name at 15,000 nodes.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from scheduler.model.node import Node


class ImageOnNodes(msgspec.Struct, frozen=True, gc=False):
    """An image of one size: the bits of the nodes that have it, and how many nodes have the name
    in any size."""

    size: int
    bits: int
    nodes: int


class ImageNodes:
    """Image names with sizes, and the nodes that have them."""

    def __init__(self) -> None:
        self._bits: dict[str, dict[int, int]] = {}
        self._places: dict[str, int] = {}
        self._free: list[int] = []
        #: Whether no node shows an image.
        self.is_empty = True

    def bit_of(self, node_name: str) -> int:
        """The bit of a node; 0 for a node without images."""
        place = self._places.get(node_name)
        return 0 if place is None else 1 << place

    def change(self, before: Node | None, after: Node | None) -> None:
        """A node is new, changed or gone."""
        old = before.images if before is not None else ()
        new = after.images if after is not None else ()
        if old is new or old == new:
            return
        node = after or before
        assert node is not None
        bit = self._bit(node.name)
        gone, come = set(old).difference(new), set(new).difference(old)
        for name, size in gone:
            self._remove(name, size, bit)
        for name, size in come:
            sizes = self._bits.setdefault(name, {})
            sizes[size] = sizes.get(size, 0) | bit
        self.is_empty = not self._bits
        if not new:
            self._free.append(self._places.pop(node.name))

    def of(self, image: str) -> Iterator[ImageOnNodes]:
        """One image, once per size."""
        sizes = self._bits.get(image)
        if sizes is None:
            return
        count = sum(bits.bit_count() for bits in sizes.values())
        for size, bits in sizes.items():
            yield ImageOnNodes(size, bits, count)

    def _bit(self, node_name: str) -> int:
        place = self._places.get(node_name)
        if place is None:
            place = self._free.pop() if self._free else len(self._places)
            self._places[node_name] = place
        return 1 << place

    def _remove(self, name: str, size: int, bit: int) -> None:
        sizes = self._bits[name]
        sizes[size] &= ~bit
        if not sizes[size]:
            del sizes[size]
            if not sizes:
                del self._bits[name]
