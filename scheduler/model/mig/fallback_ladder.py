"""MIG ladders: the tiers that a request may become when its own is not free.

Grammar: tiers joined by ``->``, in the order in which they are tried, smaller or larger than the
one before: ``2g.20gb->1g.20gb->1g.10gb``. ``gpu`` is a whole GPU. Every tier but the first may have
labels that select nodes: ``2g.20gb->1g.10gb[gpu-type=a100]``. The last word may be ``fail``: then a
request without a free tier is rejected at admission instead of waiting. ``off`` alone forbids any
change.
"""

from __future__ import annotations

import re
from typing import Final

import msgspec

from scheduler.model import well_known
from scheduler.model.gpu.gpu_map import shown
from scheduler.model.limits import LADDER_LENGTH_MAX, LADDER_TIERS_MAX
from scheduler.model.selector import is_label_key, is_label_value

_PROFILE: Final = re.compile(
    r"gpu|(?:[1-9][0-9]?c\.)?[1-9][0-9]?g\.[1-9][0-9]{0,3}gb(?:[+.-](?:me(?:\.all)?|gfx))*"
)
_TIER: Final = re.compile(r"([^\[\]]*?)\s*(?:\[([^\[\]]*)\])?")
_SHOWN_MAX: Final = 40

Labels = tuple[tuple[str, str], ...]


class LadderError(ValueError):
    """An invalid ladder; the text has the invalid part and the expected form."""


class Tier(msgspec.Struct, frozen=True, gc=False):
    """One step: a resource, and the labels of its nodes (none: all nodes)."""

    resource: str
    labels: Labels = ()

    @property
    def text(self) -> str:
        """The text in a ladder."""
        profile = well_known.mig_profile(self.resource)
        if not self.labels:
            return profile
        return f"{profile}[{','.join(f'{key}={value}' for key, value in self.labels)}]"


class Ladder(msgspec.Struct, frozen=True):
    """Tiers in the order in which they are tried; ``is_strict`` if the last word is ``fail``."""

    tiers: tuple[Tier, ...] = ()
    is_strict: bool = False

    def mentions(self, resource: str) -> bool:
        """Whether the ladder contains a resource."""
        return any(tier.resource == resource for tier in self.tiers)

    def below(self, resource: str) -> tuple[Tier, ...]:
        """The tiers that a request for ``resource`` may become, in order.

        >>> [tier.text for tier in parse_ladder("2g.20gb->1g.10gb").below("nvidia.com/mig-2g.20gb")]
        ['1g.10gb']
        """
        places = [at for at, tier in enumerate(self.tiers) if tier.resource == resource]
        return self.tiers[places[-1] + 1 :] if places else ()


OFF: Final = Ladder()


def parse_ladder(text: str) -> Ladder:
    """Parse a ladder; LadderError has the invalid tier and its problem."""
    if len(text) > LADDER_LENGTH_MAX:
        raise LadderError(
            f"ladder has {len(text)} characters; at most {LADDER_LENGTH_MAX} are read"
        )
    stripped = text.strip()
    if stripped == "off":
        return OFF
    words = [word.strip() for word in stripped.split("->")]
    is_strict = words[-1] == "fail"
    tiers = tuple(map(_tier, _checked(words[:-1] if is_strict else words)))
    whole = _quoted(stripped, 2 * _SHOWN_MAX)
    if len(set(tiers)) != len(tiers):
        raise LadderError(f"ladder {whole} names a tier twice")
    if not tiers:
        raise LadderError(f"ladder {whole} names no tier; write FROM->TO->fail")
    if len(tiers) < 2 and not is_strict:
        raise LadderError(f"ladder {whole} has one tier; write FROM->TO, or off")
    if tiers[0].labels:
        raise LadderError(
            f"ladder tier {_quoted(tiers[0].text)}: the first tier is the requested one, and"
            " takes no labels; give the pod a nodeSelector"
        )
    return Ladder(tiers, is_strict)


def _checked(words: list[str]) -> list[str]:
    if len(words) > LADDER_TIERS_MAX:
        raise LadderError(f"ladder has {len(words)} tiers; at most {LADDER_TIERS_MAX} are allowed")
    return words


def _quoted(text: str, length_max: int = _SHOWN_MAX) -> str:
    return f"'{shown(text, length_max)}'"


def _tier(word: str) -> Tier:
    found = _TIER.fullmatch(word)
    if found is None or not _PROFILE.fullmatch(found[1]):
        raise LadderError(
            f"ladder tier {_quoted(word)} is not a MIG profile such as 1g.10gb"
            ' (or "gpu", "off" alone, "fail" last)'
        )
    # A resource name has a dot in place of a plus.
    resource = well_known.mig_resource(found[1].replace("+", "."))
    return Tier(resource, () if found[2] is None else _labels(found[2], word))


def _labels(text: str, word: str) -> Labels:
    pairs: dict[str, str] = {}
    for part in text.split(","):
        key, equals, value = (piece.strip() for piece in part.partition("="))
        if not equals or not is_label_key(key) or not is_label_value(value):
            raise LadderError(
                f"ladder tier {_quoted(word)}: {_quoted(part)} is not a label; write"
                " PROFILE[key=value] or PROFILE[key=value,key=value]"
            )
        if pairs.setdefault(key, value) != value:
            raise LadderError(
                f"ladder tier {_quoted(word)} has two values of {_quoted(key)}; no node has both"
            )
    return tuple(sorted(pairs.items()))
