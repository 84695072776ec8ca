"""The price table of the installation: read again when its file has changed."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

from structlog.testing import capture_logs

from scheduler.model.cost.prices import NO_PRICES
from scheduler.report.price_table import PriceTableReader


def test_changed_file_is_read_again(tmp_path: Path) -> None:
    file = tmp_path / "prices.yaml"
    reader = PriceTableReader(str(file))
    assert (reader.read(), reader.problem) == (NO_PRICES, "")

    file.write_text("currency: EUR\ndefault: 1.5\n")
    assert reader.read().of("any", {}) == Fraction(3, 2)
    file.write_text("currency: EUR\ndefault: 2\n")
    assert reader.read().of("any", {}) == 2


def test_bad_table_has_no_prices_and_one_log_line(tmp_path: Path) -> None:
    file = tmp_path / "prices.yaml"
    file.write_text("currency: EUR\ndefault: free\n")
    reader = PriceTableReader(str(file))

    with capture_logs() as lines:
        found = [reader.read() for _ in range(3)]

    assert found == [NO_PRICES] * 3
    assert reader.problem.startswith("$.default: expected a price")
    assert [(line["event"], line["path"]) for line in lines] == [("price table invalid", str(file))]


def test_folder_in_place_of_a_file_is_a_problem_until_it_is_a_file(tmp_path: Path) -> None:
    file = tmp_path / "prices.yaml"
    file.write_text("currency: EUR\ndefault: 2\n")
    reader = PriceTableReader(str(file))
    assert reader.read().of("any", {}) == 2
    content = file.read_bytes()
    file.unlink()
    file.mkdir()
    assert (reader.read(), reader.problem) == (NO_PRICES, "Is a directory")

    file.rmdir()
    file.write_bytes(content)
    assert (reader.read().of("any", {}), reader.problem) == (Fraction(2), "")


def test_without_a_path_there_are_no_prices() -> None:
    assert PriceTableReader("").read() == NO_PRICES
