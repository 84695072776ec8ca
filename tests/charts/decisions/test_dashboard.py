"""dashboard.enabled: on by default without a trace in the release, and off by one value."""

from __future__ import annotations

import pytest

from tests.charts.rendering import SCHEDULER, kinds, objects, settings, text
from tests.charts.test_pod import config_of
from tools.charts.helm import HelmFailed

OFF = "dashboard.enabled=false"


def test_the_dashboard_is_on_and_adds_no_object() -> None:
    on, off = objects(SCHEDULER), objects(SCHEDULER, *settings(OFF))

    assert config_of(on).dashboard.enabled
    assert not config_of(off).dashboard.enabled
    assert kinds(on) == kinds(off)


def test_the_port_of_the_dashboard_is_not_reachable_from_outside() -> None:
    release = text(SCHEDULER)

    assert config_of(objects(SCHEDULER)).decisions_address == "127.0.0.1:8090"
    assert "8090" not in release


@pytest.mark.parametrize(
    "value", ["config.dashboard.enabled=false", "dashboard.enabled=maybe", "dashboard.port=1"]
)
def test_other_settings_are_refused(value: str) -> None:
    with pytest.raises(HelmFailed, match="dashboard"):
        objects(SCHEDULER, *settings(value))
