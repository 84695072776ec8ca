"""The configuration's section on DRA devices."""

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
