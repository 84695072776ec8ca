"""What a selector reads of a device: devices that are equal in it have equal results.

The partitions of a cluster's GPUs differ in their names and ids, which few selectors read. Most
selectors name each attribute; of any other use of ``device`` nothing is known.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Final

import msgspec

from scheduler.model.dra.cel.device_facts import DeviceFacts
from scheduler.model.dra.cel.tokens import STRING, Tokens

_WHOLE: Final = ("driver", "allowMultipleAllocations")
_MAPS: Final = ("attributes", "capacity")


class ReadFacts(msgspec.Struct, frozen=True):
    """The attributes and capacities that a selector names, as domain and name."""

    attributes: tuple[tuple[str, str], ...] = ()
    capacity: tuple[tuple[str, str], ...] = ()

    def of(self, device: DeviceFacts) -> Hashable:
        """The facts of a device; numbers and truth values are different."""
        driver = device.driver
        found: list[object] = [driver, device.allow_multiple]
        for named, values in (
            (self.attributes, device.attributes),
            (self.capacity, device.capacity),
        ):
            for domain, name in named:
                value = values.get(f"{domain}/{name}")
                own = values.get(name) if domain == driver else None
                found.extend((type(value), value, type(own), own))
        return tuple(found)


def read_facts(text: str) -> ReadFacts | None:
    """What a selector reads; None where that is not known.

    >>> read_facts('device.attributes["x.example"].type == "gpu"')
    ReadFacts(attributes=(('x.example', 'type'),), capacity=())
    >>> read_facts('device.attributes["x.example"].size() > 0') is None
    True
    """
    tokens = Tokens(text)
    found: dict[str, dict[tuple[str, str], None]] = {kind: {} for kind in _MAPS}
    for index in range(len(tokens)):
        if tokens.text(index) != "device":
            continue
        kind = tokens.text(index + 2)
        if tokens.text(index - 1) == "." or tokens.text(index + 1) != ".":
            return None
        if kind in _WHOLE:
            continue
        key = _key(tokens, index + 3) if kind in _MAPS else None
        if key is None:
            return None
        found[kind][key] = None
    return ReadFacts(tuple(found["attributes"]), tuple(found["capacity"]))


def _key(tokens: Tokens, index: int) -> tuple[str, str] | None:
    """The domain and the name that follow a map: ``["domain"].name``, or with ``?``."""
    domain, index = _in_brackets(tokens, index)
    if domain is None:
        return None
    if tokens.text(index) == ".":
        at = index + 2 if tokens.text(index + 1) == "?" else index + 1
        name = tokens.text(at)
        # A call is one of the map: it reads every name.
        is_name = name.isidentifier() and tokens.text(at + 1) != "("
        return (domain, name) if is_name else None
    name_in_brackets, _ = _in_brackets(tokens, index)
    return (domain, name_in_brackets) if name_in_brackets is not None else None


def _in_brackets(tokens: Tokens, index: int) -> tuple[str | None, int]:
    """The string between brackets, and the index behind them."""
    at = index + 2 if tokens.are(index, "[", "?") else index + 1
    if tokens.text(index) != "[" or not tokens.are(at, STRING, "]"):
        return None, index
    return tokens.literal(at), at + 2
