"""The configuration's sections on DRA devices and on the topology."""

from __future__ import annotations

import pytest

from scheduler import config
from scheduler.config import ConfigError

HEAD = "apiVersion: gpu-scheduler.io/v1\nkind: GpuSchedulerConfiguration\n"


def test_the_index_attributes_of_drivers_are_read() -> None:
    parsed = config.parse(f"{HEAD}dra: {{indexAttributes: {{gpu.example.com: index}}}}\n".encode())

    assert parsed.dra.index_attributes == {"gpu.example.com": "index"}


@pytest.mark.parametrize(
    "section",
    [
        pytest.param("{indexAttributes: {gpu.example.com: ''}}", id="no-attribute"),
        pytest.param("{indexAttributes: {gpu.example.com: 1}}", id="a-number"),
        pytest.param(
            f"{{indexAttributes: {{{', '.join(f'd{at}: i' for at in range(17))}}}}}",
            id="too-many-drivers",
        ),
        pytest.param("{indexes: {}}", id="another-key"),
    ],
)
def test_an_invalid_section_is_refused(section: str) -> None:
    with pytest.raises(ConfigError, match=r"\$\.dra"):
        config.parse(f"{HEAD}dra: {section}\n".encode())


def test_the_levels_of_the_topology_are_settings_of_decisions() -> None:
    found = config.parse(f"{HEAD}topology: {{levels: [example.com/block, rack]}}".encode())

    assert found.pipeline().topology_levels == ("example.com/block", "rack")


@pytest.mark.parametrize("levels", ["[rack, rack]", "['']", "rack"])
def test_levels_are_different_label_keys(levels: str) -> None:
    with pytest.raises(ConfigError, match=r"topology\.levels"):
        config.parse(f"{HEAD}topology: {{levels: {levels}}}".encode())
