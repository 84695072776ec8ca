"""MIG types: kinds of instance, the profiles that name them, the boards with these profiles.

A board's memory is divided into slices, and an instance may begin only at certain ones::

    slice   0   1   2   3   4   5   6   7        slice 7 belongs to 3g at 4, a double 1g
    4g     |---------------|                     at 6, or 7g; a plain 1g cannot use it
    3g     |---------------|---------------|
    2g     |-------|-------|-------|
    1gD    |-------|-------|-------|-------|
    1g     |---|---|---|---|---|---|---|

The same name means different kinds on different boards (``1g.10gb`` is one slice of an A100 80 GB
and two of an A100 40 GB), so a kind always depends on board *and* name. A name that a board does
not know is None, never an error: such instances are counted, not positioned.
"""

from __future__ import annotations

import enum
import re
from functools import cache
from typing import Final

import msgspec

from scheduler.model import well_known

_PROFILE: Final = re.compile(
    r"(?:([1-9][0-9]?)c\.)?([1-9][0-9]?)g\.([1-9][0-9]{0,3})gb((?:[+.-](?:me\.all|me|gfx))*)"
)
_PREFIXES: Final = (well_known.MIG_PREFIX, "mig-", "mig ")
_VARIANT: Final = re.compile(r"[+.-](?:me\.all|me|gfx)")
#: Maximum relative difference between a profile's gigabytes and its slices; beyond it the name is
#: unknown.
_TOLERANCE: Final = 0.08


class ProfileShape(enum.Enum):
    """The shape of an instance; sizes and starts are counted in memory slices.

    The columns: label, slices of the boards that have it, starts, size, compute slices, most
    instances on one GPU, and the driver's profile id if a listing showed it.
    """

    ONE = ("1g", 8, (0, 1, 2, 3, 4, 5, 6), 1, 1, 7, 19)
    ONE_MEDIA = ("1g+me", 8, (0, 1, 2, 3, 4, 5, 6), 1, 1, 1, 20)
    ONE_DOUBLE = ("1gD", 8, (0, 2, 4, 6), 2, 1, 4, 15)
    TWO = ("2g", 8, (0, 2, 4), 2, 2, 3, 14)
    THREE = ("3g", 8, (0, 4), 4, 3, 2, 9)
    FOUR = ("4g", 8, (0,), 4, 4, 1, 5)
    SEVEN = ("7g", 8, (0,), 8, 7, 1, 0)
    QUARTER = ("1g", 4, (0, 1, 2, 3), 1, 1, 4, 14)
    QUARTER_MEDIA = ("1g+me", 4, (0, 1, 2, 3), 1, 1, 1, 21)
    TWO_QUARTERS = ("2g", 4, (0, 2), 2, 2, 2, 5)
    TWO_QUARTERS_MEDIA = ("2g+me", 4, (0, 2), 2, 2, 1, 6)
    FOUR_QUARTERS = ("4g", 4, (0,), 4, 4, 1, 0)
    HALF = ("1g", 2, (0, 1), 1, 1, 2, None)
    TWO_HALVES = ("2g", 2, (0,), 2, 2, 1, None)

    def __init__(
        self,
        label: str,
        model_slices: int,
        starts: tuple[int, ...],
        size: int,
        compute: int,
        max_count: int,
        profile_id: int | None,
    ) -> None:
        self.label = label
        self.model_slices = model_slices
        self.starts = starts
        self.size = size
        self.compute = compute
        self.max_count = max_count
        self.profile_id = profile_id

    @property
    def is_media(self) -> bool:
        """Whether it uses the GPU's media engines, of which there is one set."""
        return self.label.endswith("+me")

    def mask(self, start: int) -> int:
        """The memory slices in use from ``start`` on, as bits."""
        return ((1 << self.size) - 1) << start


class Profile(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One profile of one board; ``memory_mib`` is from a listing, None without one."""

    name: str
    kind: ProfileShape
    memory_mib: int | None = None

    @property
    def resource(self) -> str:
        """The resource that a device plugin advertises, with a dot in place of a ``+``."""
        return well_known.mig_resource(self.name.replace("+", "."))

    @property
    def starts(self) -> tuple[int, ...]:
        """Legal first memory slices."""
        return self.kind.starts

    @property
    def size(self) -> int:
        """Memory slices."""
        return self.kind.size

    @property
    def compute(self) -> int:
        """Compute slices."""
        return self.kind.compute

    @property
    def max_count(self) -> int:
        """The most instances on one GPU."""
        return self.kind.max_count

    @property
    def nominal_mib(self) -> int:
        """The gigabytes of the name; an instance has a little less (``memory_mib``)."""
        return nominal_mib(self.name)


class GpuModel(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """A GPU model with MIG; one object for each, so it is compared by identity.

    ``profiles`` by name. ``aliases`` are names that other drivers use for the same kinds.
    """

    name: str
    memory_slices: int
    memory_gb: int
    profiles: dict[str, Profile]
    aliases: dict[str, Profile] = {}

    @property
    def compute_slices(self) -> int:
        """Compute slices: one fewer than memory slices on the large boards."""
        return 7 if self.memory_slices == 8 else self.memory_slices

    @property
    def plain(self) -> tuple[Profile, ...]:
        """One profile for each kind without media engines: sufficient for every layout."""
        chosen: dict[ProfileShape, Profile] = {}
        for profile in self.profiles.values():
            if not profile.kind.is_media:
                chosen.setdefault(profile.kind, profile)
        return tuple(chosen.values())

    @property
    def whole(self) -> Profile:
        """The profile of the whole board."""
        return next(p for p in self.profiles.values() if p.size == self.memory_slices)


def canonical(text: str) -> str:
    """The canonical spelling of a profile name; any other text is trimmed and in lower case.

    >>> canonical("nvidia.com/mig-1g.10gb.me"), canonical("1g.24gb.me.all"), canonical("1G.24GB-me")
    ('1g.10gb+me', '1g.24gb+me.all', '1g.24gb-me')
    """
    name = text.strip().lower()
    for prefix in _PREFIXES:
        name = name.removeprefix(prefix)
    found = _PROFILE.fullmatch(name)
    if found is None:
        return name
    # "-me" is a variant of its own (no media engines); only the dot stands for a plus.
    variants = "".join(
        part if part[0] == "-" else "+" + part[1:] for part in _VARIANT.findall(found[4])
    )
    compute = f"{found[1]}c." if found[1] else ""
    return f"{compute}{found[2]}g.{found[3]}gb{variants}"


def is_profile(text: str) -> bool:
    """Whether a text has a profile's form, for any board."""
    return _PROFILE.fullmatch(canonical(text)) is not None


def nominal_mib(text: str) -> int:
    """The gigabytes of a profile's name, in MiB; 0 for any other text.

    >>> nominal_mib("nvidia.com/mig-2g.20gb"), nominal_mib("gpu")
    (20480, 0)
    """
    found = _PROFILE.fullmatch(canonical(text))
    return int(found[3]) * 1024 if found else 0


def size_key(text: str) -> tuple[int, int, bool, str]:
    """The sort key of profiles: memory, then compute, then plain ones before those with extras."""
    found = _PROFILE.fullmatch(canonical(text))
    return (int(found[3]), int(found[2]), bool(found[4]), text) if found else (0, 0, False, text)


def compute_instances(text: str) -> int | None:
    """Compute slices of a compute instance: ``1c.3g.20gb`` -> 1; None for a GPU instance."""
    found = _PROFILE.fullmatch(canonical(text))
    return int(found[1]) if found and found[1] else None


@cache
def profile_of(gpu_model: GpuModel, text: str) -> Profile | None:
    """The profile of a name on a board; None if the board does not have it.

    For a compute instance (``1c.3g.20gb``) this is the profile of its GPU instance.
    """
    name = canonical(text)
    name = re.sub(r"^[0-9]+c\.", "", name)
    return (
        gpu_model.profiles.get(name) or gpu_model.aliases.get(name) or _by_slices(gpu_model, name)
    )


def _by_slices(gpu_model: GpuModel, name: str) -> Profile | None:
    """A name with differently rounded gigabytes, as in other driver versions."""
    found = _PROFILE.fullmatch(name)
    if found is None:
        return None
    compute, gigabytes, variant = int(found[2]), int(found[3]), found[4]
    for profile in gpu_model.profiles.values():
        share = gpu_model.memory_gb * profile.size / gpu_model.memory_slices
        known = _PROFILE.fullmatch(profile.name)
        is_same = known is not None and known[4] == variant and profile.compute == compute
        if is_same and abs(gigabytes - share) <= _TOLERANCE * share:
            return Profile(name=name, kind=profile.kind)
    return None
