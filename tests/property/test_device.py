"""What we write about devices is what we read, and anything else is unknown."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from scheduler.model.gpu.device import CLAIMED_MAX, Devices, format_devices, parse_devices

numbers = st.lists(st.integers(0, 999_999_999), unique=True, max_size=20).map(tuple)
profiles = st.from_regex(r"[a-z0-9.+-]{1,40}", fullmatch=True)
counts = st.lists(st.tuples(profiles, st.integers(1, 999_999)), max_size=4).map(tuple)
names = st.from_regex(r"[a-z0-9-]{1,63}", fullmatch=True)
claimed = st.lists(names, max_size=CLAIMED_MAX).map(tuple)
devices = st.builds(Devices, numbers, counts, claimed=claimed).filter(bool)


@given(devices)
def test_written_devices_read_back(given_devices: Devices) -> None:
    assert parse_devices(format_devices(given_devices)) == given_devices


@given(st.text(st.sampled_from("gpu:0123,; x.-\u0663\n"), max_size=30) | st.text())
def test_any_text_is_devices_that_can_be_written_again_or_unknown(text: str) -> None:
    found = parse_devices(text)

    assert found is None or format_devices(found) == text
