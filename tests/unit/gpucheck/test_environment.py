"""What the check service makes of the variables it is given."""

from __future__ import annotations

import pytest

from gpucheck.environment import Invalid, read_environment

COMPLETE = {"NODE_NAME": "node1", "POD_NAMESPACE": "tests", "CUDA_VISIBLE_DEVICES": "0,1"}


@pytest.mark.contract("S2-18")
@pytest.mark.parametrize(
    ("variables", "hostname", "node"),
    [
        pytest.param({"NODE_NAME": "node1", "HOSTNAME": "pod-0"}, "box", "node1", id="node-name"),
        pytest.param({"HOSTNAME": "pod-0"}, "box", "pod-0", id="hostname-variable"),
        pytest.param({"NODE_NAME": ""}, "box", "box", id="empty-counts-as-unset"),
        pytest.param({}, "", "unknown-node", id="nothing-known"),
    ],
)
def test_node_name_falls_back_in_order(variables: dict[str, str], hostname: str, node: str) -> None:
    assert read_environment(variables, hostname).node == node


@pytest.mark.contract("S2-18")
@pytest.mark.parametrize(
    ("variables", "line"),
    [
        pytest.param({}, "Node: box, CUDA_VISIBLE_DEVICES: not-set", id="unset"),
        pytest.param(
            {"CUDA_VISIBLE_DEVICES": ""}, "Node: box, CUDA_VISIBLE_DEVICES: empty", id="empty"
        ),
        pytest.param(
            {"CUDA_VISIBLE_DEVICES": "MIG-1a"}, "Node: box, CUDA_VISIBLE_DEVICES: MIG-1a", id="uuid"
        ),
    ],
)
def test_unset_and_empty_devices_differ(variables: dict[str, str], line: str) -> None:
    assert read_environment(variables, "box").line() == line


@pytest.mark.contract("S2-19")
@pytest.mark.parametrize(
    ("node", "devices"),
    [
        pytest.param("gpu-scheduler-cluster-worker", "0,1", id="pod-0"),
        pytest.param("gpu-scheduler-cluster-worker2", "2", id="pod-1"),
        pytest.param("gpu-scheduler-cluster-worker3", "0,1,2", id="pod-2"),
        pytest.param("gpu-scheduler-cluster-worker4", "3", id="pods-3-and-4"),
    ],
)
def test_five_mapped_pods_print_the_seed_lines(node: str, devices: str) -> None:
    variables = {**COMPLETE, "NODE_NAME": node, "CUDA_VISIBLE_DEVICES": devices}

    environment = read_environment(variables, "box")

    assert environment.line() == f"Node: {node}, CUDA_VISIBLE_DEVICES: {devices}"
    assert environment.issues == ()


@pytest.mark.parametrize(
    ("missing", "issue"),
    [
        pytest.param("NODE_NAME", "NODE_NAME is not set", id="node"),
        pytest.param("POD_NAMESPACE", "POD_NAMESPACE is not set", id="namespace"),
        pytest.param("CUDA_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES is not set", id="devices"),
    ],
)
def test_each_missing_variable_is_one_issue(missing: str, issue: str) -> None:
    variables = {name: value for name, value in COMPLETE.items() if name != missing}

    issues = read_environment(variables, "box").issues

    assert len(issues) == 1
    assert issues[0].startswith(issue)


def test_empty_devices_are_an_issue_because_they_hide_every_gpu() -> None:
    issues = read_environment({**COMPLETE, "CUDA_VISIBLE_DEVICES": ""}, "box").issues

    assert issues == ("CUDA_VISIBLE_DEVICES is empty, every GPU is hidden from this container",)


@pytest.mark.contract("S2-18")
@pytest.mark.parametrize(
    ("variables", "interval_s"),
    [
        pytest.param({}, 10, id="default"),
        pytest.param({"LOG_INTERVAL": "1"}, 1, id="least"),
        pytest.param({"LOG_INTERVAL": " 30 "}, 30, id="spaces"),
        pytest.param({"LOG_INTERVAL": "86400"}, 86_400, id="most"),
    ],
)
def test_the_interval_is_whole_seconds(variables: dict[str, str], interval_s: int) -> None:
    assert read_environment(variables, "box").interval_s == interval_s


@pytest.mark.contract("S2-18")
@pytest.mark.parametrize("text", ["0", "-1", "", "1.5", "ten", "1_0", "٣", "86401", "9" * 5000])
def test_an_interval_that_cannot_be_used_is_refused_by_name(text: str) -> None:
    with pytest.raises(Invalid, match=r"^LOG_INTERVAL: expected whole seconds from 1 to 86400"):
        read_environment({"LOG_INTERVAL": text}, "box")
