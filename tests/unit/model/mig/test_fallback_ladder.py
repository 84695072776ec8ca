"""Ladders: which texts are ladders, and what a request may become on one."""

from __future__ import annotations

import pytest

from scheduler.model.mig.fallback_ladder import OFF, Ladder, LadderError, Tier, parse_ladder
from tests.builders import GPU, MIG_1G, MIG_2G, MIG_3G

MIG_1G20 = "nvidia.com/mig-1g.20gb"

GOOD = [
    pytest.param("2g.20gb->1g.10gb", (MIG_2G, MIG_1G), False, id="two-tiers"),
    pytest.param(
        "2g.20gb->1g.20gb->1g.10gb", (MIG_2G, MIG_1G20, MIG_1G), False, id="memory-before-compute"
    ),
    pytest.param(
        " 3g.40gb -> 2g.20gb ->gpu ", (MIG_3G, MIG_2G, GPU), False, id="blanks-and-a-whole-gpu"
    ),
    pytest.param("1g.10gb->2g.20gb", (MIG_1G, MIG_2G), False, id="upwards"),
    pytest.param("2g.20gb->1g.10gb->fail", (MIG_2G, MIG_1G), True, id="ends-in-a-refusal"),
    pytest.param("2g.20gb->fail", (MIG_2G,), True, id="one-tier-or-a-refusal"),
    pytest.param("off", (), False, id="off"),
    pytest.param(
        "1g.10gb.me->1g.10gb",
        ("nvidia.com/mig-1g.10gb.me", MIG_1G),
        False,
        id="attribute-in-a-resource-name",
    ),
]

BAD = [
    pytest.param("", "''", id="empty"),
    pytest.param("2g.20gb", "has one tier; write FROM->TO, or off", id="one-tier"),
    pytest.param("fail", "names no tier", id="nothing-but-fail"),
    pytest.param("fail->1g.10gb", "'fail'", id="fail-not-last"),
    pytest.param("2g.20gb->off", "'off'", id="off-inside"),
    pytest.param("2g.20gb->2g.20gb", "names a tier twice", id="a-tier-twice"),
    pytest.param("2g.20gb=>1g.10gb", "'2g.20gb=>1g.10gb'", id="wrong-arrow"),
    pytest.param("2g.20GB->1g.10gb", "'2g.20GB'", id="capitals"),
    pytest.param("nvidia.com/mig-2g.20gb->1g.10gb", "is not a MIG profile", id="resource-name"),
    pytest.param("2g.20gb->\u0661g.10gb", "is not a MIG profile", id="digits-of-another-script"),
    pytest.param("->".join(f"{n}g.{n}gb" for n in range(1, 10)), "at most 8", id="too-long"),
    pytest.param("2g.20gb->" + "x" * 500, "x" * 37 + "...", id="long-nonsense-is-cut"),
]

A100 = (("gpu-type", "a100"),)
LABELLED = [
    pytest.param("2g.20gb->1g.10gb[gpu-type=a100]", Tier(MIG_1G, A100), id="one-label"),
    pytest.param("2g.20gb -> 1g.10gb [ gpu-type = a100 ]", Tier(MIG_1G, A100), id="blanks"),
    pytest.param(
        "2g.20gb->gpu[zone=b,x.example/gpu-type=a100]->fail",
        Tier(GPU, (("x.example/gpu-type", "a100"), ("zone", "b"))),
        id="several-in-any-order",
    ),
    pytest.param("2g.20gb->1g.10gb[fast=]", Tier(MIG_1G, (("fast", ""),)), id="an-empty-value"),
]
UNLABELLED = [
    pytest.param("2g.20gb->1g.10gb[a100]", "'a100' is not a label", id="no-value"),
    pytest.param("2g.20gb->1g.10gb[]", "'' is not a label", id="nothing"),
    pytest.param("2g.20gb->1g.10gb[a=b", "is not a MIG profile", id="not-closed"),
    pytest.param("2g.20gb->1g.10gb[a=b]c", "is not a MIG profile", id="something-behind"),
    pytest.param("2g.20gb->1g.10gb[-=b]", "is not a label", id="a-bad-key"),
    pytest.param("2g.20gb->1g.10gb[a=ö]", "is not a label", id="a-bad-value"),
    pytest.param("2g.20gb->1g.10gb[a=b,a=c]", "has two values of 'a'", id="two-values"),
    pytest.param("2g.20gb[a=b]->1g.10gb", "give the pod a nodeSelector", id="the-first-tier"),
    pytest.param("2g.20gb->1g.10gb[a=b]->1g.10gb[a=b]", "names a tier twice", id="twice"),
]


@pytest.mark.parametrize(("text", "last"), LABELLED)
def test_a_tier_may_count_on_some_nodes_only(text: str, last: Tier) -> None:
    assert parse_ladder(text).tiers == (Tier(MIG_2G), last)
    assert parse_ladder("2g.20gb->" + last.text).tiers[1] == last


@pytest.mark.parametrize(("text", "part"), UNLABELLED)
def test_labels_that_cannot_be_read_are_refused(text: str, part: str) -> None:
    with pytest.raises(LadderError) as refused:
        parse_ladder(text)

    assert part in str(refused.value)
    assert len(str(refused.value)) < 200


def test_one_profile_may_be_two_tiers_on_different_nodes() -> None:
    ladder = parse_ladder("2g.20gb->1g.10gb[gpu-type=h100]->1g.10gb[gpu-type=a100]")

    assert [tier.text for tier in ladder.below(MIG_2G)] == [
        "1g.10gb[gpu-type=h100]",
        "1g.10gb[gpu-type=a100]",
    ]
    assert ladder.below(MIG_1G) == ()


@pytest.mark.contract("S0-25", "S0-26")
@pytest.mark.parametrize(("text", "tiers", "is_strict"), GOOD)
def test_a_ladder_lists_its_tiers_in_order(
    text: str, tiers: tuple[str, ...], is_strict: bool
) -> None:
    assert parse_ladder(text) == Ladder(tuple(map(Tier, tiers)), is_strict)


@pytest.mark.parametrize(("text", "part"), BAD)
def test_invalid_ladder_is_refused_with_the_wrong_part(text: str, part: str) -> None:
    with pytest.raises(LadderError) as refused:
        parse_ladder(text)

    assert part in str(refused.value)
    assert len(str(refused.value)) < 200


BELOW = [
    pytest.param("2g.20gb->1g.20gb->1g.10gb", MIG_2G, (MIG_1G20, MIG_1G), id="all-lower-ones"),
    pytest.param("2g.20gb->1g.20gb->1g.10gb", MIG_1G20, (MIG_1G,), id="from-the-middle"),
    pytest.param("2g.20gb->1g.20gb->1g.10gb", MIG_1G, (), id="nothing-below-the-last"),
    pytest.param("2g.20gb->1g.10gb", MIG_3G, (), id="not-on-the-ladder"),
    pytest.param("off", MIG_2G, (), id="off"),
]


@pytest.mark.parametrize(("text", "resource", "lower"), BELOW)
def test_request_may_become_any_later_tier(
    text: str, resource: str, lower: tuple[str, ...]
) -> None:
    assert parse_ladder(text).below(resource) == tuple(map(Tier, lower))


def test_ladder_off_offers_no_tier() -> None:
    assert parse_ladder("off") == OFF
