"""What can be cut on a GPU, against an oracle that tries every subset of every placement."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest

from scheduler.model.mig import layout as mig_layout

A100 = mig_layout.GPU_MODELS["A100-80"]
A30 = mig_layout.GPU_MODELS["A30-24"]
SEED = mig_layout.GPU_MODELS["H200-70"]

# The oracle's own table, written from NVIDIA's listings and not from the product's.
Spec = dict[str, tuple[int, Sequence[int], int]]
Subset = frozenset[tuple[str, int]]

SEVENTHS: Spec = {
    "1g.10gb": (1, range(7), 1),
    "1g.20gb": (2, (0, 2, 4, 6), 1),
    "2g.20gb": (2, (0, 2, 4), 2),
    "3g.40gb": (4, (0, 4), 3),
    "4g.40gb": (4, (0,), 4),
    "7g.80gb": (8, (0,), 7),
}
QUARTERS: Spec = {
    "1g.6gb": (1, range(4), 1),
    "2g.12gb": (2, (0, 2), 2),
    "4g.24gb": (4, (0,), 4),
}


def every_subset(spec: Spec) -> set[Subset]:
    """All sets of placements of which no two share a memory slice, by trying all sets."""
    places = [(name, start) for name, (_, starts, _) in spec.items() for start in starts]
    slices = {
        (name, start): frozenset(range(start, start + spec[name][0])) for name, start in places
    }
    found: list[tuple[Subset, frozenset[int]]] = [(frozenset(), frozenset())]
    for place in places:
        found += [
            (chosen | {place}, taken | slices[place])
            for chosen, taken in found
            if not taken & slices[place]
        ]
    return {chosen for chosen, _ in found}


def without_doubles(spec: Spec) -> Spec:
    return {name: row for name, row in spec.items() if name != "1g.20gb"}


def maximal(states: set[Subset]) -> set[Subset]:
    places = {place for state in states for place in state}
    return {s for s in states if not any(s | {p} in states for p in places - s)}


CASES = [
    pytest.param(A100, SEVENTHS, 723, 78, id="seven-slices"),
    pytest.param(A100, without_doubles(SEVENTHS), 298, 19, id="seven-slices-without-doubles"),
    pytest.param(A30, QUARTERS, 26, 5, id="four-slices"),
]


@pytest.mark.parametrize(("gpu_model", "spec", "states", "ends"), CASES)
def test_the_layouts_are_those_of_an_exhaustive_search(
    gpu_model: mig_layout.GpuModel, spec: Spec, states: int, ends: int
) -> None:
    expected = every_subset(spec)
    profiles = [gpu_model.profiles[name] for name in spec]
    drawn = list(mig_layout.layouts(gpu_model, profiles))
    assert {frozenset(layout) for layout in drawn} == expected
    assert len(drawn) == len(expected) == states
    assert drawn[0] == ()
    assert len(maximal(expected)) == ends
    assert all(mig_layout.is_legal(gpu_model, layout) for layout in drawn)
    assert all(layout == mig_layout.layout_of(layout) for layout in drawn)


@pytest.mark.parametrize(("gpu_model", "spec"), [(A100, SEVENTHS), (A30, QUARTERS)])
def test_what_still_fits_is_what_the_search_finds_for_every_layout(
    gpu_model: mig_layout.GpuModel, spec: Spec
) -> None:
    states = every_subset(spec)
    ends = maximal(states)
    for state in states:
        layout = mig_layout.layout_of(state)
        for name, (_, starts, _) in spec.items():
            free = tuple(
                s for s in starts if (name, s) not in state and state | {(name, s)} in states
            )
            assert mig_layout.fits(gpu_model, layout, name) == free
        assert any(mig_layout.capacity(gpu_model, layout).values()) == (state not in ends)


@pytest.mark.parametrize(("gpu_model", "spec"), [(A100, SEVENTHS), (A30, QUARTERS)])
def test_capacity_is_the_most_that_any_layout_above_this_one_has(
    gpu_model: mig_layout.GpuModel, spec: Spec
) -> None:
    states = every_subset(spec)
    for state in list(states)[:: 1 if len(states) < 100 else 7]:
        more = mig_layout.capacity(gpu_model, mig_layout.layout_of(state))
        for name in spec:
            only = (s - state for s in states if s >= state)
            counts = (len(extra) for extra in only if all(n == name for n, _ in extra))
            assert more[name] == max(counts), (state, name)


def test_compute_slices_never_forbid_what_memory_slices_allow() -> None:
    for gpu_model in mig_layout.GPU_MODELS.values():
        used = [
            sum(gpu_model.profiles[name].compute for name, _ in layout)
            for layout in mig_layout.layouts(gpu_model)
        ]
        assert max(used) == gpu_model.compute_slices


def test_the_media_engines_are_given_once_per_gpu() -> None:
    one = (("1g.10gb+me", 6),)
    assert mig_layout.fits(A100, one, "1g.10gb+me") == ()
    assert mig_layout.fits(A100, one, "1g.10gb") == (0, 1, 2, 3, 4, 5)
    assert mig_layout.capacity(A100, ())["1g.10gb+me"] == 1
    assert mig_layout.capacity(A100, one)["1g.10gb+me"] == 0
    both = (("1g.6gb+me", 0), ("2g.12gb+me", 2))
    assert not mig_layout.is_legal(A30, both)
    media = [A30.profiles["1g.6gb+me"], A30.profiles["2g.12gb+me"]]
    assert len(list(mig_layout.layouts(A30, media))) == 1 + 4 + 2


@pytest.mark.contract("S0-4")
def test_seed_gpu_holds_as_many_of_each_profile_as_its_table_says() -> None:
    most = mig_layout.capacity(SEED, ())
    wanted = {"1g.10gb": 7, "2g.20gb": 3, "3g.40gb": 2, "7g.70gb": 1}
    assert {name: most[name] for name in wanted} == wanted
    assert [SEED.profiles[name].compute for name in wanted] == [1, 2, 3, 7]


def slots(text: str) -> Iterator[tuple[str, int]]:
    for word in text.split():
        name, _, start = word.partition("@")
        yield name, int(start)


LEGAL = [
    pytest.param("2g.20gb@0 2g.20gb@2 2g.20gb@4 1g.10gb@6", id="medium"),
    pytest.param(" ".join(f"1g.10gb@{at}" for at in range(7)), id="small"),
    pytest.param("7g.70gb@0", id="whole"),
    pytest.param("4g.40gb@0 3g.40gb@4", id="halves"),
    pytest.param("", id="nothing-cut"),
]
ILLEGAL = [
    pytest.param(
        "2g.20gb@0 2g.20gb@2 2g.20gb@4 2g.20gb@6",
        "2g.20gb cannot begin at slice 6 of H200-70, only at 0, 2, 4",
        id="four-2g",
    ),
    pytest.param("1g.10gb@7", "only at 0, 1, 2, 3, 4, 5, 6", id="1g-in-the-last-slice"),
    pytest.param("4g.40gb@4", "only at 0", id="4g-on-the-right"),
    pytest.param("3g.40gb@0 2g.20gb@2", "2g.20gb at slice 2 overlaps another", id="overlap"),
    pytest.param("2g.20gb@0 2g.20gb@0", "overlaps another", id="twice-the-same"),
    pytest.param("1g.10gb+me@0 1g.10gb+me@1", "needs the media engines", id="media-twice"),
    pytest.param("5g.50gb@0", "5g.50gb is no profile of H200-70", id="unknown-name"),
]


@pytest.mark.contract("S0-5")
@pytest.mark.parametrize("text", LEGAL)
def test_valid_layouts(text: str) -> None:
    assert mig_layout.flaw(SEED, tuple(slots(text))) is None


@pytest.mark.contract("S0-5")
@pytest.mark.parametrize(("text", "part"), ILLEGAL)
def test_invalid_layouts_are_explained(text: str, part: str) -> None:
    assert part in (mig_layout.flaw(SEED, tuple(slots(text))) or "legal")
    assert not mig_layout.is_legal(SEED, tuple(slots(text)))


@pytest.mark.contract("S3-B10")
def test_unknown_instance_offers_no_placement() -> None:
    """An unknown name is not an error, and never free room."""
    odd = (("9g.99gb", 0),)
    assert mig_layout.fits(A100, odd, "1g.10gb") == ()
    assert not any(mig_layout.capacity(A100, odd).values())
    assert mig_layout.fits(A100, (), "9g.99gb") == ()
