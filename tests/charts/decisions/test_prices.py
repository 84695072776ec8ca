"""The price table of the chart: what the scheduler reads is what the values say."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import pytest

from scheduler.config import parse
from scheduler.model.cost.prices import FILE, parse_prices
from tests.charts.rendering import SCHEDULER, objects, one, settings
from tools.charts.helm import HelmFailed

VALUES = """
prices:
  currency: EUR
  default: 1.1
  models: {H100: 2.40, A100-80GB: "1.80"}
  special:
    - {nodeSelector: {pool: spot}, models: {H100: 0.9}}
"""


def test_price_table_is_in_the_folder_of_the_configuration(tmp_path: Path) -> None:
    file = tmp_path / "values.yaml"
    file.write_text(VALUES)
    data = one(objects(SCHEDULER, "--values", file), "ConfigMap")["data"]

    found = parse_prices(data[FILE])
    assert found.of("NVIDIA-H100-80GB-HBM3", {}) == Fraction("2.4")
    assert found.of("NVIDIA-A100-SXM4-80GB", {}) == Fraction("1.8")
    assert found.of("NVIDIA-H100-80GB-HBM3", {"pool": "spot"}) == Fraction("0.9")
    assert parse(data["config.yaml"].encode()).costs.prices == f"/etc/gpu-scheduler/{FILE}"


def test_changed_prices_do_not_restart_the_scheduler() -> None:
    def of_pods(*values: str) -> object:
        return one(objects(SCHEDULER, *settings(*values)), "Deployment")["spec"]["template"]

    table = ("prices.currency=EUR", "prices.default=2")
    assert of_pods() == of_pods(*table)


@pytest.mark.parametrize(
    ("values", "said"),
    [
        pytest.param(("prices.default=1",), "prices.currency is missing", id="no-currency"),
        pytest.param(
            ("prices.currency=EUR", "prices.model.H100=1"), "'model' not allowed", id="typo"
        ),
        pytest.param(
            ("prices.currency=EUR", "prices.models.H100=-1"), "/prices/models/H100", id="negative"
        ),
    ],
)
def test_bad_table_is_rejected_before_it_is_applied(values: tuple[str, ...], said: str) -> None:
    with pytest.raises(HelmFailed, match=said):
        objects(SCHEDULER, *settings(*values))
