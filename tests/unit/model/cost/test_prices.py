"""The price table: which price a GPU has, and what is said about a bad table."""

from __future__ import annotations

from fractions import Fraction

import pytest

from scheduler.model.cost.prices import ENTRIES_MAX, NO_PRICES, PriceTableError, parse_prices

TABLE = parse_prices("""
currency: EUR
default: 1.10
models:
  H100: 2.40
  A100-SXM4-80GB: 1.80
  A100: "1.20"
special:
  - nodeSelector: {pool: spot}
    models: {H100: 0.9}
  - nodeSelector: {pool: spot, zone: a}
    default: 0
""")
H100, A100 = "NVIDIA-H100-80GB-HBM3", "NVIDIA-A100-SXM4-80GB"


@pytest.mark.parametrize(
    ("product", "labels", "price"),
    [
        pytest.param(H100, {}, "12/5", id="a-word-of-the-name"),
        pytest.param("NVIDIA H100 80GB HBM3", {}, "12/5", id="name-with-spaces"),
        pytest.param(A100, {}, "9/5", id="most-words"),
        pytest.param("NVIDIA-A100-PCIE-40GB", {}, "6/5", id="fewer-words"),
        pytest.param("Tesla-T4", {}, "11/10", id="default"),
        pytest.param("NVIDIA-H1000", {}, "11/10", id="part-of-a-word-is-no-word"),
        pytest.param(H100, {"pool": "spot"}, "9/10", id="special"),
        pytest.param(A100, {"pool": "spot"}, "9/5", id="special-without-the-model"),
        pytest.param(A100, {"pool": "spot", "zone": "a"}, "0", id="later-special-default"),
        pytest.param(H100, {"pool": "other"}, "12/5", id="other-label"),
    ],
)
def test_price_by_model_and_labels(product: str, labels: dict[str, str], price: str) -> None:
    assert TABLE.of(product, labels) == Fraction(price)


@pytest.mark.parametrize("content", ["", "{}", "# later\n", "default: null"])
def test_empty_table_has_no_price(content: str) -> None:
    found = parse_prices(content)

    assert found == NO_PRICES
    assert not found
    assert found.of(H100, {}) is None


PRICE = "expected a price per hour from 0 to 1000000 with at most 6 digits after the point, got"


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        pytest.param("default: 1", "$.currency: expected 1 to 8 characters", id="no-currency"),
        pytest.param("currency: E\ndefault: -1", f"$.default: {PRICE} '-1'", id="negative"),
        pytest.param(
            "currency: E\nmodels: {H100: abc}", f"$.models.H100: {PRICE} 'abc'", id="word"
        ),
        pytest.param(
            "currency: E\nmodels: {H100: .nan}", f"$.models.H100: {PRICE} 'nan'", id="nan"
        ),
        pytest.param("currency: E\ndefault: 1e300", f"$.default: {PRICE} '1e300'", id="huge"),
        pytest.param(
            "currency: E\ndefault: 0.0000001", f"$.default: {PRICE} '1e-07'", id="too-many-digits"
        ),
        pytest.param("currency: E\nmodels: {'-': 1}", "$.models.-: expected a model", id="no-word"),
        pytest.param(
            "currency: E\nmodels: {A100-80GB: 1, 80gb a100: 2}",
            "$.models.80gb a100: the same model as A100-80GB; remove one",
            id="twice",
        ),
        pytest.param(
            "currency: E\nspecial: [{models: {H100: 1}}]",
            "missing required field `nodeSelector` - at `$.special[0]`",
            id="special-without-selector",
        ),
        pytest.param(
            "currency: E\nspecial: [{nodeSelector: {}, default: 1}]",
            "$.special[0].nodeSelector: name at least one label",
            id="empty-selector",
        ),
        pytest.param(
            "currency: E\nspecial: [{nodeSelector: {a: b}}]",
            "$.special[0]: expected models or default, got no price",
            id="special-without-price",
        ),
        pytest.param("currency: E\nmodel: {}", "contains unknown field `model`", id="unknown-key"),
        pytest.param("currency: [", "while parsing a flow node", id="no-yaml"),
        pytest.param(
            f"currency: E\nmodels: {{{', '.join(f'm{n}: 1' for n in range(ENTRIES_MAX + 1))}}}",
            f"$.models: expected at most {ENTRIES_MAX} entries, got {ENTRIES_MAX + 1}",
            id="too-many",
        ),
    ],
)
def test_bad_table_is_one_line_with_place_and_problem(content: str, problem: str) -> None:
    with pytest.raises(PriceTableError) as caught:
        parse_prices(content)

    assert problem in str(caught.value)
    assert "\n" not in str(caught.value)
