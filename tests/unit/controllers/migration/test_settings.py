"""The configuration's section on migrations."""

from __future__ import annotations

import pytest

from scheduler import config
from scheduler.config import ConfigError

HEAD = "apiVersion: gpu-scheduler.io/v1\nkind: GpuSchedulerConfiguration\n"


@pytest.mark.parametrize(
    ("written", "mode"),
    [
        pytest.param("on", "on", id="on-as-yaml-reads-it"),
        pytest.param("off", "off", id="off-as-yaml-reads-it"),
        pytest.param('"off"', "off", id="quoted"),
        pytest.param("report", "report", id="report"),
    ],
)
def test_mode_off_is_accepted_as_a_yaml_boolean(written: str, mode: str) -> None:
    parsed = config.parse(f"{HEAD}restore: {{mode: {written}}}\n".encode())

    assert parsed.restore.mode_word() == mode


@pytest.mark.parametrize(
    ("section", "where"),
    [
        pytest.param("{mode: sometimes}", "restore.mode", id="mode"),
        pytest.param("{cooldownS: 0}", "restore.cooldownS", id="no-cooldown"),
        pytest.param("{migrationsPerHour: 0}", "restore.migrationsPerHour", id="no-budget"),
        pytest.param("{rescueAfterS: -1}", "restore.rescueAfterS", id="negative"),
        pytest.param("{coolDown: 5}", "coolDown", id="unknown"),
    ],
)
def test_invalid_setting_is_refused_with_its_path(section: str, where: str) -> None:
    with pytest.raises(ConfigError, match=where):
        config.parse(f"{HEAD}restore: {section}\n".encode())
