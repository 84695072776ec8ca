"""MIG ladders: which tier a request may become when its own has nothing free.

Grammar: tiers joined by ``->``, largest wish first: ``2g.20gb->1g.20gb->1g.10gb``.
``gpu`` names a whole GPU. The last word may be ``fail``: then a request that finds no
tier is refused at admission instead of waiting. ``off`` alone forbids any change.
"""

from __future__ import annotations

import re

import msgspec

from scheduler.model import names

_TIER = re.compile(
    r"gpu|(?:[1-9][0-9]?c\.)?[1-9][0-9]?g\.[1-9][0-9]{0,3}gb(?:[+.-](?:me(?:\.all)?|gfx))*"
)
TIERS_MAX = 8


class LadderError(ValueError):
    """A ladder that cannot be read; the text says which part and what to write instead."""


class Ladder(msgspec.Struct, frozen=True):
    """Tiers as resource names, in the order in which they are tried; ``is_strict`` = ``fail``."""

    tiers: tuple[str, ...] = ()
    is_strict: bool = False

    def below(self, resource: str) -> tuple[str, ...]:
        """The tiers that a request for ``resource`` may become, in order.

        >>> parse_ladder("2g.20gb->1g.10gb").below("nvidia.com/mig-2g.20gb")
        ('nvidia.com/mig-1g.10gb',)
        """
        if resource not in self.tiers:
            return ()
        return self.tiers[self.tiers.index(resource) + 1 :]

    def without(self, resources: frozenset[str]) -> Ladder:
        """The ladder without some of its tiers."""
        if resources.isdisjoint(self.tiers):
            return self
        return Ladder(tuple(tier for tier in self.tiers if tier not in resources), self.is_strict)


OFF = Ladder()


def parse_ladder(text: str) -> Ladder:
    """Read a ladder; LadderError says what is wrong with which tier."""
    stripped = text.strip()
    if stripped == "off":
        return OFF
    words = [word.strip() for word in stripped.split("->")]
    is_strict = words[-1] == "fail"
    tiers = words[:-1] if is_strict else words
    if len(tiers) > TIERS_MAX:
        raise LadderError(f"ladder has {len(tiers)} tiers; at most {TIERS_MAX} are allowed")
    for tier in tiers:
        if not _TIER.fullmatch(tier):
            raise LadderError(
                f"ladder tier {tier[:40]!r} is not a MIG profile such as 1g.10gb"
                ' (or "gpu", "off" alone, "fail" last)'
            )
    if len(set(tiers)) != len(tiers):
        raise LadderError(f"ladder {stripped[:80]!r} names a tier twice")
    if not tiers:
        raise LadderError(f"ladder {stripped!r} names no tier; write FROM->TO->fail")
    if len(tiers) < 2 and not is_strict:
        raise LadderError(f"ladder {stripped[:80]!r} has one tier; write FROM->TO, or off")
    return Ladder(tuple(names.mig_resource(tier) for tier in tiers), is_strict)
