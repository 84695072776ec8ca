"""Which Service is the DCGM exporter: by its labels, that of a GPU operator first."""

from __future__ import annotations

from typing import Any

import pytest

from gpuctl.exporter.idle import Usage, used_pods
from gpuctl.exporter.services import exporters


def service(namespace: str, name: str = "exporter", port: int = 9400, **labels: str) -> Any:
    named = labels or {"app": "nvidia-dcgm-exporter"}
    return {
        "metadata": {"namespace": namespace, "name": name, "labels": named},
        "spec": {"ports": [{"port": port}], "selector": named},
    }


def line(value: str, metric: str = "DCGM_FI_DEV_GPU_UTIL", **labels: str) -> str:
    told = ",".join(f'{key}="{text}"' for key, text in labels.items())
    return f"{metric}{{{told}}} {value}"


@pytest.mark.parametrize(
    ("services", "expected"),
    [
        pytest.param([service("a-user"), service("gpu-operator")], "gpu-operator", id="operator"),
        pytest.param([service("z"), service("monitoring")], "monitoring", id="by-name-else"),
    ],
)
def test_exporter_of_an_operator_is_preferred(services: list[Any], expected: str) -> None:
    assert exporters(services)[0].namespace == expected


def test_exporter_of_real_nodes_comes_before_that_of_simulated_ones() -> None:
    kwok = service("gpu-operator", "nvidia-dcgm-exporter-kwok", app="nvidia-dcgm-exporter-kwok")

    found = exporters([kwok, service("gpu-operator", "nvidia-dcgm-exporter")])

    assert list(map(str, found)) == [
        "gpu-operator/nvidia-dcgm-exporter",
        "gpu-operator/nvidia-dcgm-exporter-kwok",
    ]


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(service("team", "my-dcgm", app="mine"), id="only-a-similar-name"),
        pytest.param(service("team", port=80), id="another-port"),
    ],
)
def test_other_services_are_no_exporters(other: Any) -> None:
    assert exporters([other]) == []


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        pytest.param([line("0", pod="a", namespace="team")], {"team/a": False}, id="idle"),
        pytest.param(
            [
                line("0", gpu="0", pod="a", namespace="t"),
                line("7", gpu="1", pod="a", namespace="t"),
            ],
            {"t/a": True},
            id="one-of-two-in-use",
        ),
        pytest.param(
            [line("0.25", "DCGM_FI_PROF_GR_ENGINE_ACTIVE", pod="a", namespace="t", GPU_I_ID="1")],
            {"t/a": True},
            id="mig-instance",
        ),
        pytest.param([line("0", pod="", namespace="")], {}, id="held-by-no-pod"),
        pytest.param(
            [line("0", exported_pod="a", exported_namespace="t", pod="dcgm-1", namespace="ops")],
            {"t/a": False},
            id="labels-moved-by-prometheus",
        ),
        pytest.param([line("x", pod="a", namespace="t"), "# HELP x", ""], {}, id="no-number"),
    ],
)
def test_pod_is_used_if_one_of_its_devices_is(lines: list[str], expected: dict[str, bool]) -> None:
    assert used_pods(["\n".join(lines)]) == expected


def test_notes_count_what_the_exporter_does_not_know() -> None:
    usage = Usage("the exporter", {"t/a": False}, silent=("n1", "n2", "n3", "n4"))

    assert (usage.is_idle("t/a"), usage.is_idle("t/b")) == (True, False)
    assert usage.notes(["t/a", "t/b"]) == (
        "idle: 0% utilization in the last sample of the exporter",
        "1 more pods have devices without a series of the exporter",
        "no exporter answers on n1, n2, n3 and 1 more",
    )
