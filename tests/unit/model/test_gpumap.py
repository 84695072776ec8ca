"""The grammar of the map, the index of a pod, and the division of devices."""

from __future__ import annotations

import time

import pytest

from scheduler.model import names
from scheduler.model.gpumap import (
    INDEX_MAX,
    TEXT_LENGTH_MAX,
    IndexRule,
    MapEntry,
    MapError,
    index_of,
    parse,
    shown,
)
from scheduler.model.shares import (
    CudaMode,
    Want,
    device_shares,
    devices_needed,
    share_key,
    visible,
)

SEED_MAP = "0=node1:0,1\n1=node2:2\n2=node3:0,1,2\n3=node4:3\n4=node4:3\n"


@pytest.mark.contract("S2-1", "S2-4")
def test_the_reference_map_gives_each_index_its_node_and_devices() -> None:
    """Two indexes on one device are the author's wish, not an error."""
    gpu_map = parse(SEED_MAP)

    assert gpu_map.indexes == (0, 1, 2, 3, 4)
    assert {i: (e.node, e.value) for i, e in gpu_map.entries.items()} == {
        0: ("node1", "0,1"),
        1: ("node2", "2"),
        2: ("node3", "0,1,2"),
        3: ("node4", "3"),
        4: ("node4", "3"),
    }


@pytest.mark.contract("S2-2", "S2-4")
@pytest.mark.parametrize(
    ("text", "value"),
    [
        pytest.param("0=gpu-a:0,1\n", "0,1", id="plain"),
        pytest.param("0=gpu-a:0,1\r\n1=gpu-b:2\r\n", "0,1", id="crlf"),
        pytest.param("  0 = gpu-a : 0 , 1  ", "0,1", id="blanks-around-tokens"),
        pytest.param("\t0\t=\tgpu-a\t:\t0\t,\t1\t", "0,1", id="tabs-around-tokens"),
        pytest.param("\n\n0=gpu-a:0\n\n", "0", id="empty-lines"),
        pytest.param("0=gpu-a:2,0", "2,0", id="the-maps-order-stays"),
        pytest.param("0=ip-10-0-0-1.eu.compute.internal:7", "7", id="node-name-with-dots"),
        pytest.param("7=gpu-b:1\n0=gpu-a:0", "0", id="lines-in-any-order"),
    ],
)
def test_a_good_map_is_read(text: str, value: str) -> None:
    """Blanks around tokens and empty lines are harmless, so they are allowed."""
    assert parse(text).entries[0].value == value


@pytest.mark.contract("S2-2", "S2-3", "S2-B11")
@pytest.mark.parametrize(
    ("text", "line", "problem"),
    [
        pytest.param("0=gpu-a:0\n0=gpu-a:0", 2, "index 0 is already on line 1", id="twice"),
        pytest.param("0=gpu-a:0\n\n0=gpu-b:1", 3, "index 0 is already on line 1", id="two-nodes"),
        pytest.param("0=gpu-a:0\n1=gpu-b", 2, 'no devices after node "gpu-b"', id="no-colon"),
        pytest.param("0=gpu-a:", 1, 'no devices after "gpu-a:"', id="no-devices"),
        pytest.param("0=gpu-a:0,", 1, '"" is not a device number', id="comma-at-the-end"),
        pytest.param("0=gpu-a:0,,1", 1, '"" is not a device number', id="two-commas"),
        pytest.param("0=gpu-a:0,0", 1, "device 0 is named twice", id="device-twice"),
        pytest.param("0=gpu-a:0,x", 1, '"x" is not a device number', id="letter"),
        pytest.param("0=gpu-a:-1", 1, '"-1" is not a device number', id="negative-device"),
        pytest.param("0=gpu-a:\u00b2", 1, '"\u00b2" is not a device number', id="superscript"),
        pytest.param("0=gpu-a:\u0663", 1, '"\u0663" is not a device number', id="arabic-digit"),
        pytest.param("0=gpu-a:\uff11", 1, '"\uff11" is not a device number', id="wide-digit"),
        pytest.param("0=gpu-a:1_0", 1, '"1_0" is not a device number', id="underscore"),
        pytest.param("0=gpu-a:01", 1, '"01" is not a device number', id="device-leading-zero"),
        pytest.param("0=gpu-a:1234567890", 1, "is not a device number", id="ten-digit-device"),
        pytest.param("0=gpu-a:0;1", 1, '"0;1" is not a device number', id="semicolon"),
        pytest.param("0=gpu-a:0 1", 1, '"0 1" is not a device number', id="blank-as-comma"),
        pytest.param("0=gpu-a:a:b", 1, '"a:b" is not a device number', id="second-colon"),
        pytest.param("0=gpu-a:all", 1, '"all" is not a device number', id="all"),
        pytest.param("00=gpu-a:0", 1, "the index before", id="index-leading-zero"),
        pytest.param("+1=gpu-a:0", 1, "the index before", id="index-plus"),
        pytest.param("-1=gpu-a:0", 1, "the index before", id="index-minus"),
        pytest.param("1.5=gpu-a:0", 1, "the index before", id="index-fraction"),
        pytest.param("1_0=gpu-a:0", 1, "the index before", id="index-underscore"),
        pytest.param("=gpu-a:0", 1, "the index before", id="no-index"),
        pytest.param("2147483648=gpu-a:0", 1, "the index before", id="index-above-31-bits"),
        pytest.param("99999999999999999999=gpu-a:0", 1, "the index before", id="index-huge"),
        pytest.param("# 0=gpu-a:0", 1, "the index before", id="comment"),
        pytest.param("0=gpu-a:0\u20281=gpu-b:0", 1, "folded", id="line-separator"),
        pytest.param("0=gpu-a:0\x0b1=gpu-b:0", 1, "folded", id="vertical-tab"),
        pytest.param("0=gpu-a:0\r1=gpu-b:0", 1, "folded", id="lone-cr"),
        pytest.param("0=gpu-a:0\r\r\n", 1, r'"0\r" is not a device number', id="two-crs"),
        pytest.param("0=gpu-a:0\u00a0", 1, r'"0\xa0" is not a device number', id="hard-blank"),
        pytest.param("0=GPU_A:0", 1, '"GPU_A" is not a node name', id="capitals"),
        pytest.param("0=-gpu:0", 1, '"-gpu" is not a node name', id="dash-first"),
        pytest.param("0=gpu..a:0", 1, '"gpu..a" is not a node name', id="empty-label"),
        pytest.param("0=:0", 1, '"" is not a node name', id="no-node"),
        pytest.param(f"0={'n' * 254}:0", 1, "is not a node name", id="node-too-long"),
        pytest.param("gpu-a", 1, 'no "="', id="no-equals"),
        pytest.param("", 1, "the map is empty", id="empty"),
        pytest.param("\n \r\n\t", 1, "the map is empty", id="only-blanks"),
        pytest.param("0=a:0\n" + " " * TEXT_LENGTH_MAX, 1, "longer than", id="longer-than-api"),
    ],
)
def test_a_bad_map_is_refused_with_its_line(text: str, line: int, problem: str) -> None:
    """No part of a bad map is used, and its author learns where to look."""
    with pytest.raises(MapError) as caught:
        parse(text)

    assert caught.value.line == line
    assert problem in caught.value.problem
    assert str(caught.value) == f"gpu-scheduling-map line {line}: {caught.value.problem}"
    assert str(caught.value).isprintable()


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("0=gpu-a:0,1 1=gpu-b:2\n", id="folded-scalar"),
        pytest.param("0=gpu-a:0,1n1=gpu-b:2", id="set-flag-lost-the-newline"),
    ],
)
def test_a_folded_map_is_refused_with_advice(text: str) -> None:
    """Helm and YAML can lose the line breaks; the message says what it looks like."""
    with pytest.raises(MapError, match='more than one "=", the map looks folded onto one line'):
        parse(text)


def test_a_refused_map_is_refused_again_without_growing_a_traceback() -> None:
    """The cache keeps the problem, never the exception."""
    depths = []
    for _ in range(3):
        with pytest.raises(MapError) as caught:
            parse("0=gpu-a:remembered")
        depths.append(len(caught.traceback))

    assert depths[0] == depths[1] == depths[2]


def test_the_message_shows_at_most_80_characters_of_the_line() -> None:
    """A tenant cannot flood a log through an annotation."""
    with pytest.raises(MapError) as caught:
        parse("0=gpu-a:" + "x" * 100_000)

    assert len(str(caught.value)) < 260
    assert caught.value.problem.endswith("...")


@pytest.mark.parametrize(
    ("text", "safe"),
    [
        pytest.param("plain \u00fcnicode", "plain \u00fcnicode", id="printable"),
        pytest.param("a\x1b[31mb\x00", r"a\x1b[31mb\x00", id="control"),
        pytest.param("a\u202eb", r"a\u202eb", id="right-to-left-override"),
        pytest.param("a\ud800", r"a\ud800", id="lone-surrogate"),
        pytest.param("x" * 80, "x" * 80, id="eighty"),
        pytest.param("x" * 81, "x" * 77 + "...", id="eighty-one"),
        pytest.param("\x00" * 80, (r"\x00" * 20)[:77] + "...", id="grows-by-escaping"),
    ],
)
def test_user_text_is_escaped_and_cut(text: str, safe: str) -> None:
    """Control characters, direction marks and length cannot reach a terminal."""
    assert shown(text) == safe


@pytest.mark.parametrize(
    "last_line",
    [pytest.param("", id="good"), pytest.param("x", id="bad-at-the-end")],
)
def test_a_map_of_200_kib_is_read_well_below_100_ms(last_line: str) -> None:
    """Admission must not wait for a long map."""
    text = "".join(f"{i}=gpu-{i:05d}.example:0,{i % 8 + 1}\n" for i in range(7600)) + last_line
    assert len(text) > 200 * 1024 - 2000
    started = time.process_time()
    if last_line:
        with pytest.raises(MapError):
            parse(text)
    else:
        parse(text)
    first = time.process_time() - started

    assert first < 0.1


def test_a_map_is_read_once_per_text() -> None:
    """A thousand replicas of one template share one parsed map."""
    assert parse(SEED_MAP) is parse(SEED_MAP)


def test_a_shared_map_cannot_be_changed() -> None:
    """A caller that wrote into the cached map would change every other pod's."""
    with pytest.raises(TypeError):
        parse(SEED_MAP).entries[0] = MapEntry(0, "x", (0,))  # type: ignore[index]


JOB = {names.JOB_INDEX: "2"}
SET_LABEL = {names.STATEFULSET_INDEX: "4"}


@pytest.mark.contract("S2-4", "S2-5", "S2-B9")
@pytest.mark.parametrize(
    ("kind", "name", "labels", "index"),
    [
        pytest.param("StatefulSet", "w-3", {}, 3, id="set"),
        pytest.param("StatefulSet", "w-5", {}, 5, id="set-with-start-ordinal"),
        pytest.param("StatefulSet", "w-3", SET_LABEL, 4, id="label-wins-over-name"),
        pytest.param("StatefulSet", "w-3", {names.STATEFULSET_INDEX: "x"}, 3, id="odd-label"),
        pytest.param("StatefulSet", "w", {}, IndexRule.UNKNOWN, id="set-without-ordinal"),
        pytest.param(None, "w-01", {}, IndexRule.UNKNOWN, id="bare-leading-zero"),
        pytest.param(None, "w-1", {}, 1, id="bare"),
        pytest.param(None, "w-0", {}, 0, id="bare-zero"),
        pytest.param(None, "pod--1", {}, 1, id="two-dashes"),
        pytest.param(None, "1", {}, IndexRule.UNKNOWN, id="bare-all-digits"),
        pytest.param(None, "w-\u0663", {}, IndexRule.UNKNOWN, id="bare-arabic-digit"),
        pytest.param(None, "llama-6bd69b846c-mvtrx", {}, IndexRule.UNKNOWN, id="bare-letters"),
        pytest.param(None, "w-99999999999999999999", {}, IndexRule.UNKNOWN, id="bare-overflow"),
        pytest.param(None, f"w-{INDEX_MAX}", {}, INDEX_MAX, id="bare-largest"),
        pytest.param(None, f"w-{INDEX_MAX + 1}", {}, IndexRule.UNKNOWN, id="bare-too-large"),
        pytest.param(None, "w-1", SET_LABEL, 1, id="bare-ignores-a-forged-set-label"),
        pytest.param(None, "w-1", JOB, 1, id="bare-ignores-a-forged-job-label"),
        pytest.param("ReplicaSet", "llama-70-6bd69b846c-22222", {}, IndexRule.ASSIGNED, id="hash"),
        pytest.param("ReplicaSet", "w-3", JOB, IndexRule.ASSIGNED, id="set-of-replicas"),
        pytest.param("Job", "train-2-x9f4k", JOB, 2, id="indexed-job"),
        pytest.param("Job", "", JOB, 2, id="indexed-job-before-it-has-a-name"),
        pytest.param("Job", "train-x9f4k", {}, IndexRule.ASSIGNED, id="job-without-index"),
        pytest.param("Job", "train-22222", {}, IndexRule.ASSIGNED, id="job-digits"),
        pytest.param("Job", "t", {names.JOB_INDEX: "02"}, IndexRule.UNKNOWN, id="odd-job-label"),
        pytest.param("DaemonSet", "w-3", {}, IndexRule.ASSIGNED, id="daemon-set"),
        pytest.param(None, "my-app-0", {}, 0, id="seed-0"),
        pytest.param(None, "gpu-workload-1", {}, 1, id="seed-1"),
        pytest.param(None, "test-pod-42", {}, 42, id="seed-42"),
        pytest.param(None, "service-deployment-123", {}, 123, id="seed-123"),
        pytest.param(None, "my-app-abc", {}, IndexRule.UNKNOWN, id="seed-abc"),
        pytest.param(None, "no-index", {}, IndexRule.UNKNOWN, id="seed-no-index"),
        pytest.param(None, "test-pod-", {}, IndexRule.UNKNOWN, id="seed-dash-at-the-end"),
        pytest.param(None, "", {}, IndexRule.UNKNOWN, id="seed-no-name"),
    ],
)
def test_where_the_index_comes_from(
    kind: str | None, name: str, labels: dict[str, str], index: int | IndexRule
) -> None:
    """The controller's label first, then a canonical name suffix, else the scheduler assigns."""
    assert index_of(name=name, controller_kind=kind, labels=labels) == index


@pytest.mark.parametrize(
    ("wants", "needed", "shares"),
    [
        pytest.param([], 0, (), id="nobody"),
        pytest.param([Want(1), Want(2)], 3, ((3,), (1, 2)), id="in-order-of-declaration"),
        pytest.param(
            [Want(2, ends_early=True), Want(3)], 3, ((3, 1), (3, 1, 2)), id="init-gives-back"
        ),
        pytest.param(
            [Want(3, ends_early=True), Want(1)], 3, ((3, 1, 2), (3,)), id="init-needs-more"
        ),
        pytest.param(
            [Want(1), Want(2, ends_early=True), Want(1)],
            3,
            ((3,), (1, 2), (1,)),
            id="a-sidecar-stays",
        ),
        pytest.param(
            [Want(3, ends_early=True), Want(1), Want(2)],
            3,
            ((3, 1, 2), (3,), (1, 2)),
            id="init-before-the-sidecar",
        ),
    ],
)
def test_devices_are_divided_in_order(
    wants: list[Want], needed: int, shares: tuple[tuple[int, ...], ...]
) -> None:
    """Containers that run together never share; one that ended gives its devices back."""
    assert devices_needed(wants) == needed
    assert device_shares(wants, (3, 1, 2)[:needed]) == shares


def test_a_single_requesting_container_uses_the_plain_key() -> None:
    """Only where several containers request do their keys need a position."""
    assert share_key(0, 1) == "gpu-scheduler.io/cuda-visible-devices"
    assert share_key(1, 2) == "gpu-scheduler.io/cuda-visible-devices.1"
    assert names.is_protected(share_key(1, 2))


@pytest.mark.parametrize(
    ("mode", "text"),
    [
        pytest.param(CudaMode.AUTO, "3,1", id="auto"),
        pytest.param(CudaMode.INDEX, "3,1", id="index"),
        pytest.param(CudaMode.LOCAL, "0,1", id="local"),
    ],
)
def test_the_environments_text(mode: CudaMode, text: str) -> None:
    """Host numbers in the map's order, or numbers from 0."""
    assert visible((3, 1), mode) == text
