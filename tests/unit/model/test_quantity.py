"""Quantities against the answers of the real Kubernetes parser."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from scheduler.model.quantity import LIMIT, QuantityError, format_value, milli_value, value

GOLDEN = Path(__file__).parents[2] / "golden" / "quantity.json"
ROWS: list[dict[str, Any]] = json.loads(GOLDEN.read_text(encoding="utf-8"))
ACCEPTED = [row for row in ROWS if "refused" not in row]
REFUSED = [row["text"] for row in ROWS if "refused" in row]


def rounded(nano: int, unit: int) -> int:
    """The documented reading of an exact amount: away from zero, within 64 bits."""
    quotient, rest = divmod(abs(nano), unit)
    magnitude = min(quotient + (rest > 0), LIMIT)
    return magnitude if nano >= 0 else -magnitude


def trustworthy(row: dict[str, Any]) -> bool:
    """False where the parser's own 64-bit readings wrap around or round towards zero."""
    nano = int(row["nano"])
    return nano >= 0 and nano // 10**6 < LIMIT


def test_golden_file_has_enough_cases() -> None:
    """A truncated golden file would otherwise pass."""
    assert len(ACCEPTED) > 300
    assert len(REFUSED) > 60
    assert sum(trustworthy(row) for row in ACCEPTED) > 200


@pytest.mark.parametrize("row", [pytest.param(row, id=ascii(row["text"])) for row in ACCEPTED])
def test_an_accepted_text_reads_as_its_exact_amount(row: dict[str, Any]) -> None:
    """Both readings follow from the exact amount of the real parser, and from its readings."""
    nano = int(row["nano"])
    assert value(row["text"]) == rounded(nano, 10**9)
    assert milli_value(row["text"]) == rounded(nano, 10**6)
    if trustworthy(row):
        assert (value(row["text"]), milli_value(row["text"])) == (row["value"], row["milli"])


@pytest.mark.parametrize("row", [pytest.param(row, id=ascii(row["text"])) for row in ACCEPTED])
def test_the_canonical_spelling_reads_the_same(row: dict[str, Any]) -> None:
    """The API server stores some amounts in another spelling, which must not change them."""
    assert milli_value(row["canonical"]) == milli_value(row["text"])


@pytest.mark.parametrize("text", [pytest.param(text, id=ascii(text)) for text in REFUSED])
def test_a_refused_text_is_refused_in_one_line(text: str) -> None:
    """Both readings refuse with one line that shows the text."""
    for read in (value, milli_value):
        with pytest.raises(QuantityError) as refusal:
            read(text)
        message = str(refusal.value)
        assert message.startswith(repr(text))
        assert len(message.splitlines()) == 1
        assert refusal.value.text == text


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        pytest.param("1K", "write 'k' (1000) or 'Ki' (1024)", id="capital-k"),
        pytest.param("", "it is empty", id="empty"),
        pytest.param(" 1", "blanks are not allowed", id="blank"),
        pytest.param("1GB", "unknown suffix 'GB'", id="bytes"),
        pytest.param("one", "it must start with a number", id="word"),
        pytest.param("Ei", "it has no digits", id="suffix-only"),
    ],
)
def test_a_refusal_says_what_to_do(text: str, hint: str) -> None:
    """The message names the mistake, not only the text."""
    with pytest.raises(QuantityError) as refusal:
        value(text)
    assert hint in str(refusal.value)
    assert hint in refusal.value.problem


@pytest.mark.parametrize(
    ("number", "units", "millis"),
    [
        pytest.param(3, 3, 3000, id="int"),
        pytest.param(-2, -2, -2000, id="negative-int"),
        pytest.param(0.5, 1, 500, id="yaml-float"),
        pytest.param(0.1, 1, 100, id="float-that-binary-cannot-hold"),
        pytest.param(1e21, LIMIT, LIMIT, id="huge-float"),
    ],
)
def test_a_number_without_quotes_reads_as_its_text(
    number: int | float, units: int, millis: int
) -> None:
    """JSON and YAML may hold a plain number, which the real parser reads as written."""
    assert (value(number), milli_value(number)) == (units, millis)


@pytest.mark.parametrize("thing", [True, False, None, [], float("nan"), float("inf")])
def test_other_types_are_refused_with_the_same_error(thing: Any) -> None:
    """A wrong type in a file is a user's mistake like any other (and True is not 1)."""
    value(1)
    with pytest.raises((QuantityError, TypeError)):
        value(thing)


@pytest.mark.parametrize(
    ("text", "millis"),
    [
        pytest.param("9" * 6000, LIMIT, id="long"),
        pytest.param("0." + "0" * 6000 + "1", 1, id="tiny"),
        pytest.param("1." + "0" * 300 + "1", 1001, id="a-hair-above-one"),
        pytest.param("1." + "0" * 300 + "1Ki", 1024_001, id="a-hair-above-one-ki"),
        pytest.param("1e2000000000", LIMIT, id="huge-exponent"),
        pytest.param("1e-2000000000", 1, id="tiny-exponent"),
        pytest.param("1e" + "0" * 6000, 1000, id="long-exponent"),
        pytest.param("0e2000000000", 0, id="zero-with-a-huge-exponent"),
        pytest.param("0." + "3" * 6000 + "Ki", 341334, id="long-binary"),
    ],
)
def test_hostile_lengths_and_exponents_are_read(text: str, millis: int) -> None:
    """Any user may put such a text into a pod; it must neither fail nor be printed."""
    assert milli_value(text) == millis


def test_a_long_refused_text_is_cut_in_the_message() -> None:
    """A message fits into an event."""
    with pytest.raises(QuantityError) as refusal:
        value("1" + "z" * 100_000)
    assert len(str(refusal.value)) < 300


@pytest.mark.parametrize(
    ("resource", "amount", "text"),
    [
        pytest.param("cpu", 1500, "1500m", id="cpu-milli"),
        pytest.param("cpu", 2000, "2", id="cpu-whole"),
        pytest.param("cpu", 0, "0", id="cpu-none"),
        pytest.param("cpu", -500, "-500m", id="cpu-negative"),
        pytest.param("requests.cpu", 500, "500m", id="cpu-of-a-quota"),
        pytest.param("memory", 16 * 2**30, "16Gi", id="memory-gi"),
        pytest.param("memory", 1536 * 2**20, "1536Mi", id="memory-mi"),
        pytest.param("memory", 2**40, "1Ti", id="memory-ti"),
        pytest.param("memory", 2**70, "1024Ei", id="memory-beyond-the-last-unit"),
        pytest.param("memory", 1001, "1001", id="memory-odd"),
        pytest.param("memory", 200 * 10**9, "200G", id="memory-decimal"),
        pytest.param("memory", 500 * 10**6, "500M", id="memory-decimal-mega"),
        pytest.param("memory", 0, "0", id="memory-none"),
        pytest.param("memory", -(2**20), "-1Mi", id="memory-negative"),
        pytest.param("hugepages-2Mi", 2**21, "2Mi", id="hugepages"),
        pytest.param("limits.memory", 2**30, "1Gi", id="memory-of-a-quota"),
        pytest.param("ephemeral-storage", 2**30, "1Gi", id="ephemeral-storage"),
        pytest.param("nvidia.com/gpu", 1024, "1024", id="devices-are-counted"),
        pytest.param("pods", 110, "110", id="pods"),
    ],
)
def test_amounts_are_shown_in_their_usual_unit(resource: str, amount: int, text: str) -> None:
    """Messages use the largest unit that stays exact."""
    assert format_value(resource, amount) == text
