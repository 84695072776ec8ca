"""The change that a command line describes: nodes to add, nodes to drain, MIG layouts."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec

from gpuctl.input_error import InputError
from scheduler.model.integer_text import whole

ADDED_MAX: Final = 1000
#: Instances of one profile on one GPU.
INSTANCES_MAX: Final = 100
LIKE: Final = "like="


class AddedNodes(msgspec.Struct, frozen=True):
    """``count`` nodes of a shape: the name of a node, or MODELxCOUNT."""

    shape: str
    count: int
    is_name: bool = False


class NewLayout(msgspec.Struct, frozen=True):
    """The MIG instances of each GPU of a node: ``named`` by mig-manager, or ``profiles``."""

    node_name: str
    named: str = ""
    profiles: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """The layout as it was written."""
        return self.named or ",".join(self.profiles)


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that changes, in the order in which it happens."""

    added: tuple[AddedNodes, ...] = ()
    drained: tuple[str, ...] = ()
    layouts: tuple[NewLayout, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.added or self.drained or self.layouts)

    @property
    def emptied(self) -> tuple[str, ...]:
        """The nodes from which pods move."""
        return tuple(dict.fromkeys((*self.drained, *(one.node_name for one in self.layouts))))


def parse_change(added: Iterable[str], drained: Iterable[str], layouts: Iterable[str]) -> Change:
    """The change; InputError names the option and the form of its value."""
    nodes = tuple(dict.fromkeys(drained))
    found = tuple(map(_layout, layouts))
    names = [one.node_name for one in found]
    for name in names:
        if names.count(name) > 1 or name in nodes:
            raise InputError(f"node {name} is in --layout and in another --layout or --drain")
    return Change(added=tuple(map(_added, added)), drained=nodes, layouts=found)


def _added(text: str) -> AddedNodes:
    shape, colon, number = text.rpartition(":")
    count = whole(number, ADDED_MAX)
    name = shape.removeprefix(LIKE)
    if not colon or not count or not name:
        raise InputError(
            f"--add-nodes {text}: write SHAPE:N with N from 1 to {ADDED_MAX}, for example"
            " h100x8:2 or like=NODE:2"
        )
    return AddedNodes(name, count, is_name=shape != name)


def _layout(text: str) -> NewLayout:
    node_name, _, layout = text.partition("=")
    words = [word.strip() for word in layout.split(",")]
    if not node_name or not all(words):
        raise InputError(
            f"--layout {text}: write NODE=PROFILE[:N],... for each GPU, for example"
            " n1=3g.40gb:2 or n1=all-balanced"
        )
    if len(words) == 1 and words[0].startswith("all-"):
        return NewLayout(node_name, named=words[0])
    return NewLayout(node_name, profiles=tuple(one for word in words for one in _profiles(word)))


def _profiles(word: str) -> list[str]:
    profile, colon, number = word.partition(":")
    count = whole(number, INSTANCES_MAX) if colon else 1
    if not count:
        raise InputError(f"--layout: {word} is no PROFILE:N with N from 1 to {INSTANCES_MAX}")
    return [profile] * count
