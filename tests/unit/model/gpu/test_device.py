"""The annotation ``gpu-scheduler.io/devices``; invalid content never makes a device free."""

from __future__ import annotations

import pytest

from scheduler.model.gpu.device import Devices, format_devices, parse_devices

GOOD = [
    pytest.param("gpu:0,1", Devices(numbers=(0, 1)), id="numbers"),
    pytest.param("gpu:3,1", Devices(numbers=(3, 1)), id="the-users-order-stays"),
    pytest.param("gpu x 2", Devices(counts=(("gpu", 2),)), id="counted"),
    pytest.param("2g.20gb x 1", Devices(counts=(("2g.20gb", 1),)), id="one-mig-instance"),
    pytest.param("1g.10gb+me x 2", Devices(counts=(("1g.10gb+me", 2),)), id="attribute"),
    pytest.param(
        "gpu:7; 1g.10gb x 2; 2g.20gb x 1",
        Devices(numbers=(7,), counts=(("1g.10gb", 2), ("2g.20gb", 1))),
        id="all-together",
    ),
]

UNREADABLE = [
    pytest.param("", id="empty"),
    pytest.param("gpu:", id="no-number"),
    pytest.param("gpu:0,", id="comma-at-the-end"),
    pytest.param("gpu:0, 1", id="blank-between-numbers"),
    pytest.param("gpu:01", id="leading-zero"),
    pytest.param("gpu:-1", id="negative"),
    pytest.param("gpu:0,0", id="the-same-number-twice"),
    pytest.param("gpu:0; gpu:1", id="two-lists-of-numbers"),
    pytest.param("gpu:\u0663", id="digits-of-another-script"),
    pytest.param("gpu:0\n", id="line-break"),
    pytest.param("gpu:1234567890", id="number-too-long"),
    pytest.param("2g.20gb x 0", id="zero"),
    pytest.param("2g.20gb x 01", id="count-with-leading-zero"),
    pytest.param("2g.20gbx1", id="no-blanks"),
    pytest.param("gpu:0;1g.10gb x 1", id="no-blank-after-the-semicolon"),
    pytest.param("gpu:0; ", id="semicolon-at-the-end"),
    pytest.param("2g.20gb@0/0:1c", id="a-form-of-a-later-version"),
    pytest.param("2g.20gb@0/4; 2g.20gb@0/4", id="one-instance-twice"),
    pytest.param("2g.20gb@-1/4", id="a-negative-gpu"),
    pytest.param("2g.20gb@0", id="no-start"),
    pytest.param("gpu:" + ",".join(map(str, range(257))), id="more-than-256-numbers"),
]


@pytest.mark.parametrize(("text", "devices"), GOOD)
def test_written_devices_are_read_back(text: str, devices: Devices) -> None:
    assert format_devices(devices) == text
    assert parse_devices(text) == devices


@pytest.mark.parametrize("text", UNREADABLE)
def test_other_device_texts_are_unknown(text: str) -> None:
    assert parse_devices(text) is None


def test_no_devices_is_falsy() -> None:
    assert not Devices()
    assert Devices(numbers=(0,))
    assert Devices(counts=(("gpu", 1),))
