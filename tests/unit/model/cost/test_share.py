"""The share of a GPU: the larger of compute and memory, never more than the GPU together."""

from __future__ import annotations

from fractions import Fraction

import pytest

from scheduler.model.cost.share import billed, slice_share, usable_share
from scheduler.model.mig.gpu_models import GPU_MODELS

A100, A30 = GPU_MODELS["A100-80"], GPU_MODELS["A30-24"]


@pytest.mark.parametrize(
    ("model", "profile", "share"),
    [
        pytest.param("A100-80", "1g.10gb", "1/7", id="compute-is-larger"),
        pytest.param("A100-80", "1g.20gb", "1/4", id="memory-is-larger"),
        pytest.param("A100-80", "2g.20gb", "2/7", id="two"),
        pytest.param("A100-80", "3g.40gb", "1/2", id="half-of-the-memory"),
        pytest.param("A100-80", "4g.40gb", "4/7", id="four"),
        pytest.param("A100-80", "7g.80gb", "1", id="all"),
        pytest.param("A100-80", "1c.3g.40gb", "1/6", id="compute-instance"),
        pytest.param("A100-40", "1g.10gb", "1/4", id="the-same-name-on-another-board"),
        pytest.param("A30-24", "1g.6gb", "1/4", id="quarter"),
        pytest.param("A30-24", "2g.12gb", "1/2", id="two-quarters"),
        pytest.param("RTX-PRO-5000", "1g.24gb", "1/2", id="half"),
    ],
)
def test_share_is_the_larger_of_compute_and_memory(model: str, profile: str, share: str) -> None:
    assert slice_share(GPU_MODELS[model], profile) == Fraction(share)


@pytest.mark.parametrize(
    ("profile", "memory_mib", "share"),
    [
        pytest.param("2g.20gb", 81920, "2/7", id="compute"),
        pytest.param("1g.20gb", 81920, "1/4", id="memory"),
        pytest.param("2g.20gb", 0, "2/7", id="unknown-memory"),
        pytest.param("8g.90gb", 81920, "1", id="at-most-the-gpu"),
        pytest.param("strange", 81920, "1", id="no-profile"),
    ],
)
def test_share_of_an_unknown_board_is_by_name(profile: str, memory_mib: int, share: str) -> None:
    assert slice_share(None, profile, memory_mib) == Fraction(share)


def test_a_gpu_is_never_billed_as_more_than_itself() -> None:
    mixed = [slice_share(A100, "4g.40gb"), slice_share(A100, "3g.40gb")]

    assert sum(mixed) == Fraction(15, 14)
    assert billed(mixed) == [Fraction(8, 15), Fraction(7, 15)]
    assert billed(mixed, gpus=2) == mixed


@pytest.mark.parametrize(
    ("layout", "profiles", "share"),
    [
        pytest.param((("4g.40gb", 0),), {"4g.40gb"}, "0", id="stranded"),
        pytest.param((("4g.40gb", 0),), {"1g.10gb", "4g.40gb"}, "3/7", id="small-ones-fit"),
        pytest.param((("4g.40gb", 0),), {"2g.20gb", "4g.40gb"}, "2/7", id="in-part"),
        pytest.param((("2g.20gb", 0), ("2g.20gb", 4)), {"3g.40gb"}, "0", id="in-the-way"),
        pytest.param((("?", 0),), {"1g.10gb"}, "0", id="unknown-layout"),
        pytest.param((("1g.10gb", 0),), {"1g.5gb"}, "0", id="profile-of-another-board"),
    ],
)
def test_room_for_the_profiles_in_use(
    layout: tuple[tuple[str, int], ...], profiles: set[str], share: str
) -> None:
    assert usable_share(A100, layout, profiles) == Fraction(share)


def test_media_engines_are_used_once() -> None:
    assert usable_share(A30, (("1g.6gb+me", 0),), {"1g.6gb+me"}) == 0
    assert usable_share(A30, (("1g.6gb", 0),), {"1g.6gb+me"}) == Fraction(1, 4)
