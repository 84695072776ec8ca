"""The price of a GPU per hour, by the model of its board and the labels of its node.

The table is a file of the installation's ConfigMap (docs/cost.md). Prices are exact: an amount is
a fraction, never a float.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from typing import Annotated, Final

import msgspec

#: The file's name, in the scheduler's configuration folder and as the key of its ConfigMap.
FILE: Final = "prices.yaml"
#: Of one table; each is compared with each model of the cluster.
ENTRIES_MAX: Final = 100
PRICE_MAX: Final = 1_000_000
#: Digits after the point of a price.
DIGITS_MAX: Final = 6
CURRENCY_MAX: Final = 8
#: Characters of a price.
TEXT_MAX: Final = 32
_TOO_SMALL: Final = Decimal(1).scaleb(-DIGITS_MAX)

#: As a file has it. A text is a number, too; the bounds are for the schema of the chart.
Amount = Annotated[
    int | float | str,
    msgspec.Meta(extra_json_schema={"minimum": 0, "maximum": PRICE_MAX}),
]


class PriceTableError(ValueError):
    """An invalid table; the message is one line with the path and the problem."""


class _Prices(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """Prices by model, and that of every other model."""

    default: Amount | None = None
    models: dict[str, Amount] = {}


class SpecialPrices(_Prices, frozen=True, kw_only=True):
    """Prices of the nodes with these labels."""

    node_selector: dict[str, str]


class PriceFile(_Prices, frozen=True, kw_only=True):
    """The file: prices per GPU and hour in a currency; an empty file has no prices.

    Of the special prices the first counts whose labels the node has.
    """

    currency: str = ""
    special: tuple[SpecialPrices, ...] = ()


class ModelPrices(msgspec.Struct, frozen=True, kw_only=True):
    """Prices per GPU and hour for the nodes with these labels.

    ``models`` are pairs of the words of a model and its price, most words first.
    """

    node_selector: dict[str, str] = {}
    default: Fraction | None = None
    models: tuple[tuple[frozenset[str], Fraction], ...] = ()

    def of(self, product: str) -> Fraction | None:
        """The price of a model; the entry with the most words that all are in the product's."""
        words = _words(product)
        return next((price for key, price in self.models if key <= words), self.default)


class PriceTable(msgspec.Struct, frozen=True, kw_only=True):
    """All prices, in one currency; the first special entry with a price comes before the others.

    Without entries no GPU has a price.
    """

    currency: str = ""
    prices: ModelPrices = ModelPrices()
    special: tuple[ModelPrices, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.currency)

    def of(self, product: str, labels: Mapping[str, str]) -> Fraction | None:
        """The price per hour of one GPU of a node; None if the table has none."""
        for one in self.special:
            if one.node_selector.items() <= labels.items():
                found = one.of(product)
                if found is not None:
                    return found
        return self.prices.of(product)


NO_PRICES: Final = PriceTable()


def parse_prices(content: bytes | str) -> PriceTable:
    """Read and check a table (YAML); PriceTableError names the place and the problem."""
    try:
        found = msgspec.yaml.decode(content, type=PriceFile | None, strict=True)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise PriceTableError(" ".join(str(error).split())) from error
    if found is None or found == PriceFile():
        return NO_PRICES
    currency = found.currency.strip()
    if not currency.isprintable() or not 0 < len(currency) <= CURRENCY_MAX:
        raise PriceTableError(
            f"$.currency: expected 1 to {CURRENCY_MAX} characters such as EUR, got {currency!r}"
        )
    _check_size("$.models", len(found.models))
    _check_size("$.special", len(found.special))
    return PriceTable(
        currency=currency,
        prices=_prices("$", found, {}),
        special=tuple(_specials(found.special)),
    )


def _specials(entries: tuple[SpecialPrices, ...]) -> Iterator[ModelPrices]:
    for number, one in enumerate(entries):
        path = f"$.special[{number}]"
        _check_size(f"{path}.models", len(one.models))
        if not one.node_selector:
            raise PriceTableError(
                f"{path}.nodeSelector: name at least one label; prices of all nodes are in"
                " $.models and $.default"
            )
        if one.default is None and not one.models:
            raise PriceTableError(f"{path}: expected models or default, got no price")
        yield _prices(path, one, one.node_selector)


def _prices(path: str, found: _Prices, selector: dict[str, str]) -> ModelPrices:
    models: dict[frozenset[str], tuple[str, Fraction]] = {}
    for name, amount in found.models.items():
        where = f"{path}.models.{name}"
        words = _words(name)
        if not words:
            raise PriceTableError(f"{where}: expected a model such as H100 or A100-80GB")
        if words in models:
            raise PriceTableError(f"{where}: the same model as {models[words][0]}; remove one")
        models[words] = (name, _price(where, amount))
    order = sorted(models.items(), key=lambda item: (-len(item[0]), sorted(item[0])))
    return ModelPrices(
        node_selector=selector,
        default=None if found.default is None else _price(f"{path}.default", found.default),
        models=tuple((words, price) for words, (_, price) in order),
    )


def _price(where: str, amount: Amount) -> Fraction:
    text = str(amount).strip()
    try:
        exact = Decimal(text) if len(text) <= TEXT_MAX else Decimal("NaN")
    except InvalidOperation:
        exact = Decimal("NaN")
    if not exact.is_finite() or not 0 <= exact <= PRICE_MAX or exact % _TOO_SMALL:
        raise PriceTableError(
            f"{where}: expected a price per hour from 0 to {PRICE_MAX} with at most {DIGITS_MAX}"
            f" digits after the point, got {text[:TEXT_MAX]!r}"
        )
    return Fraction(exact)


def _words(name: str) -> frozenset[str]:
    """Labels have dashes, the attributes of DRA drivers have spaces."""
    return frozenset(word for word in name.lower().replace(" ", "-").split("-") if word)


def _check_size(path: str, count: int) -> None:
    if count > ENTRIES_MAX:
        raise PriceTableError(f"{path}: expected at most {ENTRIES_MAX} entries, got {count}")
