"""A ladder is read as it was written, or refused with one short printable line."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from scheduler.model import well_known
from scheduler.model.mig.fallback_ladder import LadderError, parse_ladder

tier = st.one_of(
    st.just("gpu"),
    st.builds("{}g.{}gb".format, st.integers(1, 9), st.integers(1, 200)),
    st.builds("{}g.{}gb.me".format, st.integers(1, 9), st.integers(1, 200)),
)
tiers = st.lists(tier, min_size=2, max_size=8, unique=True)
blanks = st.sampled_from(["", " ", "  "])


@given(tiers, st.booleans(), blanks)
def test_a_written_ladder_reads_back(written: list[str], strict: bool, blank: str) -> None:
    words = [*written, "fail"] if strict else written
    found = parse_ladder(f"{blank}->{blank}".join(words))

    assert [tier.resource for tier in found.tiers] == [
        well_known.mig_resource(one) for one in written
    ]
    assert found.is_strict is strict


@given(tiers)
def test_remaining_tiers_shrink_along_the_ladder(written: list[str]) -> None:
    found = parse_ladder("->".join(written))

    below = [found.below(one.resource) for one in found.tiers]
    assert below == [found.tiers[place + 1 :] for place in range(len(written))]


@given(st.text(st.sampled_from("0129g.b-> ofail\n\u0663"), max_size=40) | st.text())
@example("\U00018d09" * 80)
def test_any_text_is_a_ladder_or_refused_with_one_line(text: str) -> None:
    problem = None
    try:
        parse_ladder(text)
    except LadderError as error:
        problem = str(error)

    assert problem is None or (problem.isprintable() and len(problem) < 250)
