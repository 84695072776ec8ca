"""The limits: one table in code and page, and the reactions to larger values."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler.model import limits
from scheduler.model.crd.migration import attempt_of, is_name
from scheduler.model.gpu.device import parse_devices
from scheduler.model.gpu.gpu_map import MapError, parse
from scheduler.model.gpu.gpu_memory import GpuMemoryError, wanted_of
from scheduler.model.gpu.physical_gpus import failed_gpus, flaw
from scheduler.model.integer_text import whole
from scheduler.model.json_bounds import shallow
from scheduler.model.mig.config import MigConfigError, parse_config
from scheduler.model.mig.fallback_ladder import LadderError, parse_ladder
from scheduler.model.mig.tier_nodes import ANYWHERE, parse_where
from scheduler.model.pods.original_request import with_original_request
from scheduler.model.quantity import QuantityError, value
from tests.builders import ALLOW_ALL_MAPS, cluster, dynamic, node, placed, pod, refused
from tools.limits.__main__ import PAGE, render
from tools.limits.table import TABLE

DIGITS = "9" * 5_000
UNUSABLE = "gpu-scheduler.io/unusable-devices"


def test_every_bound_stands_in_the_table_with_its_value() -> None:
    constants = [name for name in vars(limits) if name.endswith("_MAX")]

    assert sorted(one.name for one in TABLE) == sorted(constants)
    assert all(one.source and one.beyond and one.why for one in TABLE)


def test_documented_limits_equal_the_table() -> None:
    """Run `python -m tools.limits` after a change of the bounds."""
    assert PAGE.read_text(encoding="utf-8") == render()


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("0", 0),
        ("64", 64),
        ("007", None),
        ("65", None),
        ("-1", None),
        ("+1", None),
        ("1_0", None),
        ("", None),
        (" 1", None),
        ("\u0663", None),
        ("\u00b2", None),
        (DIGITS, None),
    ],
)
def test_a_number_is_read_up_to_its_bound(text: str, number: int | None) -> None:
    assert whole(text, 64) == number


@pytest.mark.parametrize(
    ("name", "attempt", "is_one"),
    [
        ("restore-3-5f2a", 3, True),
        ("rescue-999999-0", 999_999, True),
        ("rescue-1000000-0", 1, False),
        (f"restore-{DIGITS}-5f2a", 1, False),
        ("restore-\u0663-5f2a", 1, False),
        ("a-3-b", 1, False),
        ("restore-3-" + "a" * 41, 1, False),
    ],
)
def test_a_tickets_name_has_its_form(name: str, attempt: int, is_one: bool) -> None:
    assert (attempt_of(name), is_name(name)) == (attempt, is_one)


def test_nodes_of_a_tier_are_read_up_to_their_bound() -> None:
    assert parse_where(f"nvidia.com/gpu.memory>={DIGITS}") == ANYWHERE
    assert parse_where("nvidia.com/gpu.memory>=\u0663") == ANYWHERE
    assert parse_where("a=b," * 5_000) == ANYWHERE


@pytest.mark.parametrize(
    "record",
    [
        pytest.param(f'{{"app":{{"limits":{{"nvidia.com/mig-2g.20gb":{what}}}}}}}', id=name)
        for name, what in {
            "deep": "[" * 10_000 + "]" * 10_000,
            "digits": DIGITS,
            "many": "1025",
            "most": f'"{2**63 - 1}"',
        }.items()
    ]
    + [pytest.param('{"app":{}}' + " " * 70_000, id="long")],
)
def test_record_beyond_its_bounds_is_ignored(record: str) -> None:
    annotations = {
        "adapter.gpu.turbonomic.ibm.com/original": record,
        "gpu-webhook.k8s.io/fallback": "2g.20gb->1g.10gb",
    }

    assert with_original_request(pod("p", mig={"1g.10gb": 1}, annotations=annotations)) is None


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        pytest.param("1,x", "x is no index from 0 to 255; write for example 1,3", id="a-word"),
        pytest.param("-1", "-1 is no index", id="below-zero"),
        pytest.param("256", "256 is no index", id="beyond"),
        pytest.param(DIGITS, "is no index", id="digits"),
        pytest.param("0," * 300, "names more than 256 GPUs", id="many"),
    ],
)
def test_unreadable_failed_gpu_list_closes_all_gpus_of_the_node(text: str, problem: str) -> None:
    there = node(gpus=4, with_gpu_indexes=True, annotations={UNUSABLE: text})

    assert problem in flaw(there.annotations)
    assert (failed_gpus(there.annotations), there.indexes) == (frozenset(), ())
    for fields in ({"gpus": 1}, {"map": "0=n1:0"}):
        said = refused(cluster(there), pod("p-0", **fields)).diagnosis.summary.message
        assert "1 node(s) whose GPU data is invalid" in said
    assert placed(cluster(there), pod("p", requests={"cpu": "1"})).node_name == "n1"


@pytest.mark.parametrize("gpus", [257, 30_000_000])
def test_node_with_an_impossible_gpu_count_offers_none(gpus: int) -> None:
    with_gpu_indexes, counted = node(gpus=gpus, with_gpu_indexes=True), node("n2", gpus=gpus)

    assert (with_gpu_indexes.indexes, counted.indexes) == ((), ())
    assert str(gpus) in with_gpu_indexes.gpu_problem
    refused(cluster(with_gpu_indexes), pod("p", gpus=1))
    assert placed(cluster(counted), pod("p", gpus=1)).node_name == "n2", "time-slicing counts more"


def test_pod_over_the_largest_node_waits_with_the_sentence() -> None:
    asks = pod("p", mig={"2g.20gb": 2**63 - 1})

    said = refused(cluster(dynamic()), asks, ALLOW_ALL_MAPS).diagnosis.summary.message
    assert "unreadable: it requests 9223372036854775807 of nvidia.com/mig-2g.20gb" in said
    assert "at most 1024 are read" in said


def test_a_map_has_no_more_devices_on_a_line_than_can_be_written_down() -> None:
    many = ",".join(map(str, range(256)))

    assert len(parse(f"0=n1:{many}").entries[0].devices) == 256
    assert parse_devices(f"gpu:{many}") is not None
    with pytest.raises(MapError, match="line 1: more than 256 devices"):
        parse(f"0=n1:{many},256")


@pytest.mark.parametrize(
    ("read", "error"),
    [
        pytest.param(lambda: parse_ladder("2g.20gb->" * 9_000), LadderError, id="ladder"),
        pytest.param(
            lambda: wanted_of({"gpu-scheduler.io/gpu-memory": "a=1Gi," * 9_000}, ["a"]),
            GpuMemoryError,
            id="memory",
        ),
        pytest.param(lambda: value("1" * 10_001), QuantityError, id="quantity"),
        pytest.param(lambda: parse_config("x" * 70_000), MigConfigError, id="config"),
        pytest.param(
            lambda: parse_config("mig-configs: {a: [{devices: [0x" + "f" * 9_000 + "]}]}"),
            MigConfigError,
            id="an-index-that-cannot-be-written-out",
        ),
    ],
)
def test_a_text_beyond_its_bound_is_refused_with_one_short_line(read: Any, error: Any) -> None:
    with pytest.raises(error) as caught:
        read()

    assert len(str(caught.value)) < 400
    assert "\n" not in str(caught.value)


def test_devices_beyond_their_bound_are_unknown() -> None:
    assert parse_devices("1g.10gb x 1; " * 9_000) is None


@pytest.mark.parametrize(
    "number", [10**4_400, -(10**4_400), 1e308, 2**63], ids=["long", "below", "float", "beyond"]
)
def test_a_number_of_json_of_any_length_is_a_quantity(number: float) -> None:
    assert abs(value(number)) == 2**63 - 1


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b'{"a": [1, "]}["], "b": 2}', b'{"a": [1, "]}["], "b": 2}'),
        (b"[[" + b"[" * 200 + b"]" * 200 + b"]]", b"[" * 100 + b"null" + b"]" * 100),
        (b'"\\"' + b"[" * 200 + b'"', b'"\\"' + b"[" * 200 + b'"'),
        (b"[" * 200, b"[" * 200),
    ],
    ids=["flat", "deep", "in-a-text", "cut-off"],
)
def test_too_deeply_nested_json_becomes_null(content: bytes, expected: bytes) -> None:
    assert shallow(content) == expected
