"""Quantities: readings are exact, monotone and never raise anything but QuantityError."""

from __future__ import annotations

from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from scheduler.model.quantity import LIMIT, QuantityError, format_value, milli_value, value

FACTORS = {
    "": Fraction(1), "n": Fraction(1, 10**9), "u": Fraction(1, 10**6), "m": Fraction(1, 1000),
    "k": Fraction(10**3), "M": Fraction(10**6), "G": Fraction(10**9), "T": Fraction(10**12),
    "P": Fraction(10**15), "E": Fraction(10**18), "Ki": Fraction(2**10), "Mi": Fraction(2**20),
    "Gi": Fraction(2**30), "Ti": Fraction(2**40), "Pi": Fraction(2**50), "Ei": Fraction(2**60),
    "e3": Fraction(1000), "E-12": Fraction(1, 10**12), "e+1": Fraction(10),
}  # fmt: skip

signs = st.sampled_from(["", "+", "-"])
digits = st.text("0123456789", min_size=1, max_size=60)
fractions = st.none() | st.text("0123456789", max_size=60)
suffixes = st.sampled_from(sorted(FACTORS))


def away_from_zero(amount: Fraction) -> int:
    """Round to a whole number away from zero and clamp to 64 bits."""
    magnitude = min(-(-abs(amount.numerator) // amount.denominator), LIMIT)
    return magnitude if amount >= 0 else -magnitude


@given(sign=signs, whole=digits, fraction=fractions, suffix=suffixes)
def test_readings_equal_exact_arithmetic(
    sign: str, whole: str, fraction: str | None, suffix: str
) -> None:
    """No digit, suffix or length makes a reading differ from exact fractions."""
    number = sign + whole + ("" if fraction is None else "." + fraction)
    amount = Fraction(sign + whole + ("." + fraction if fraction else "")) * FACTORS[suffix]
    if suffix.endswith("i"):
        amount = max(Fraction(-LIMIT), min(Fraction(LIMIT), amount))
    assert value(number + suffix) == away_from_zero(amount)
    assert milli_value(number + suffix) == away_from_zero(amount * 1000)


def outcome(text: str) -> tuple[int, int] | str:
    """Both readings, or the line of the refusal."""
    try:
        return value(text), milli_value(text)
    except QuantityError as refusal:
        return str(refusal)


@given(st.text(max_size=12) | st.text("0123456789.+-eEinumkKMGTP ", max_size=12))
def test_no_text_does_anything_but_read_or_be_refused(text: str) -> None:
    """Whatever is in a pod, the answer is an amount within the limit or one line."""
    answer = outcome(text)
    if isinstance(answer, str):
        assert len(answer.splitlines()) == 1
    else:
        assert abs(answer[0]) <= abs(answer[1]) <= LIMIT


@given(st.integers(-LIMIT, LIMIT), st.sampled_from(["memory", "hugepages-1Gi", "nvidia.com/gpu"]))
def test_a_shown_amount_reads_back(amount: int, resource: str) -> None:
    """What a message shows is the amount itself, not an approximation."""
    assert value(format_value(resource, amount)) == amount


@given(st.integers(-LIMIT, LIMIT))
def test_shown_cpu_reads_back_in_milli(amount: int) -> None:
    """Cpu is shown from milli units and reads back as such."""
    assert milli_value(format_value("cpu", amount)) == amount
