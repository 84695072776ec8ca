"""``gpuctl cost --prometheus``: the costs of a range of time."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from scheduler.report.cost_metrics import COST_COUNTERS
from tests.http.fakeapi import FakeApi, failure, reply
from tests.http.gpuctl.test_why_command import User

QUERY = "GET /api/v1/query"
HELD, SAVED, IDLE, COST, SAVED_COST, IDLE_COST = (f"{name}_total" for name in COST_COUNTERS)
TEAM = {"namespace": "team", "model": "H100"}
VISION = {"namespace": "gpu-scheduler-system", "exported_namespace": "vision", "model": "A100"}


def vector(*samples: tuple[dict[str, str], float]) -> Any:
    """An answer of Prometheus."""
    result = [{"metric": labels, "value": [1.0, str(value)]} for labels, value in samples]
    return reply({"status": "success", "data": {"resultType": "vector", "result": result}})


EUR = {"currency": "EUR"}
#: In the order of the queries.
ANSWERS = (
    vector(
        ({**TEAM, "tier": "granted"}, 360_000),
        ({**VISION, "tier": "granted"}, 3_600),
        ({**VISION, "tier": "degraded"}, 7_200),
    ),
    vector((VISION, 5_400)),
    vector(({"model": "H100", "state": "free"}, 36_000)),
    vector(
        ({**TEAM, **EUR, "tier": "granted"}, 240),
        ({**VISION, **EUR, "tier": "degraded"}, 3.6),
        ({**VISION, "currency": "USD", "tier": "granted"}, 100),
    ),
    vector(({**VISION, **EUR}, 2.7)),
    vector(({"model": "H100", "state": "free", **EUR}, 24)),
)


@pytest.fixture
def user(api: FakeApi, tmp_path: Path) -> User:
    return User(api, tmp_path)


async def typed(user: User, *words: str, use: tuple[Any, ...] = ()) -> list[str]:
    """The lines that the command prints."""
    user.api.script(QUERY, *ANSWERS, *use)
    result = await user.types("cost", "--prometheus", user.api.url, *words)
    assert result.status == 0, result.err
    return result.out.splitlines()


async def test_range_has_hours_and_amounts_of_pods_that_ended_too(user: User) -> None:
    lines = await typed(user, "--since", "30d")

    assert lines == [
        "113.00 GPU hours  267.60 EUR: held 243.60, free 24.00",
        "",
        "NAMESPACE  GPU H   EUR     DEGRADED H  SAVED",
        "team       100.00  240.00  -           -",
        "vision     3.00    3.60    2.00        2.70",
        "(free)     10.00   24.00   -           -",
        "",
        "note: amounts in USD are left out",
        "note: hours and amounts are Prometheus' estimates (increase) over the range",
    ]
    queries = [one.query["query"] for one in user.api.seen if one.path == "/api/v1/query"]
    assert queries[0] == (
        f"sum by (namespace, model, tier, exported_namespace) (increase({HELD}[30d]))"
    )
    assert queries[5] == f"sum by (model, state, currency) (increase({IDLE_COST}[30d]))"


async def test_range_by_model_and_of_one_namespace(user: User) -> None:
    by_model = await typed(user, "--by", "model")
    user.api.seen.clear()
    own = await typed(user, "-n", "team", "-o", "json")

    assert [line.split()[0] for line in by_model[3:6]] == ["H100", "A100", "(free)"]
    found = json.loads("\n".join(own))
    assert (found["source"], found["since"]) == ("prometheus", "7d")
    assert [(row["name"], row["gpuHours"], row["cost"]) for row in found["rows"]] == [
        ("team", 100.0, 240.0)
    ]


async def test_held_idle_is_the_part_of_samples_without_use(user: User) -> None:
    use = (
        vector(({"namespace": "team"}, 25)),
        vector(({"namespace": "team"}, 100)),
    )

    lines = await typed(user, "--idle", use=use)

    assert lines[3].endswith("60.00")
    assert lines[4].endswith("unknown")
    query = [one.query.get("query", "") for one in user.api.seen][-1]
    assert query.startswith("sum by (namespace, exported_namespace) (count_over_time(((DCGM_")
    assert ">= 0)[7d:1209s]" in query


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        pytest.param(vector(), f"Prometheus has no {HELD}", id="no-series"),
        pytest.param(
            failure(422, "", "too long a range"), "too long a range", id="refused-with-a-message"
        ),
        pytest.param(reply({"kind": "Pod"}), "is no Prometheus", id="another-server"),
    ],
)
async def test_prometheus_without_an_answer_is_one_line(user: User, answer: Any, said: str) -> None:
    user.api.script(QUERY, answer)

    result = await user.types("cost", "--prometheus", user.api.url)

    assert (result.status, result.out) == (1, "")
    assert said in result.err
    assert result.err.count("\n") == 1
