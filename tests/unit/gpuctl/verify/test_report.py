"""The report has what was measured, and nothing else."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner

from gpuctl.__main__ import main
from gpuctl.doctor.finding import Finding, fail, ok, skip
from gpuctl.verify.report import CHECK_LIST, report
from gpuctl.verify.result import NodeSummary, PriorityLevel, Result

RESULT = Result(
    findings=(
        ok("preemption", "gpu-critical took the GPU of gpu-low on t4 after 0.4 s"),
        ok("sharing", "8 pods share 2 GPUs of t4"),
        skip("taints", "no node with GPUs has a taint"),
        fail("metrics", "a|b", "read its log"),
    ),
    nodes=(
        NodeSummary("a", "a100", {"nvidia.com/gpu": 8}),
        NodeSummary("b", "a100", {"nvidia.com/gpu": 8}),
        NodeSummary("t4", "t4", {"nvidia.com/gpu": 8}, replicas=4),
    ),
    priorities=(PriorityLevel("gpu-high", 100000), PriorityLevel("gpu-low", 1000, preempts=False)),
    seconds={"place": (0.2, 0.4, 0.9)},
    metrics={"DCGM_FI_DEV_GPU_UTIL": 14},
)


@pytest.mark.contract("S4-17")
def test_report_has_the_deliverables_of_the_lab() -> None:
    text = report(RESULT)

    assert [line for line in text.splitlines() if line.startswith("#")] == [
        "# GPU scheduling: what was measured",
        "## GPU allocation strategy",
        "## Priority policies",
        "## Monitoring setup",
        "## Performance observations",
        "## Check list",
    ]
    assert "| a100 | 2 | 16 nvidia.com/gpu | none |" in text
    assert "| t4 | 1 | 8 nvidia.com/gpu | 4 shares |" in text
    assert "| gpu-low | 1000 | no | no |" in text
    assert "| DCGM_FI_DEV_GPU_UTIL | 14 |" in text
    assert "| a pod is bound after its creation | 3 | 0.40 | 0.90 |" in text


def test_check_list_has_ten_rows_with_results() -> None:
    rows = report(RESULT).partition("## Check list")[2].splitlines()[4:]

    assert len(rows) == len(CHECK_LIST) == 10
    assert rows[3] == (
        "| High priority pods can preempt low priority | OK |"
        " gpu-critical took the GPU of gpu-low on t4 after 0.4 s |"
    )
    assert rows[0] == "| Device plugin running on all GPU nodes | SKIP | not checked |"
    assert rows[7] == r"| DCGM exporter collecting metrics | FAIL | a\|b |"


def test_text_of_a_finding_stays_in_its_cell() -> None:
    finding = Finding("taints", RESULT.findings[0].level, "x\n| y" + "z" * 5000)

    assert all(len(line) < 400 for line in report(Result(findings=(finding,))).splitlines())


def test_command_reads_the_json_of_verify(tmp_path: Path) -> None:
    path = tmp_path / "verify.json"
    path.write_bytes(msgspec.json.encode(RESULT))

    found = CliRunner().invoke(main, ["report", str(path)])

    assert (found.exit_code, found.stdout) == (0, report(RESULT))


@pytest.mark.parametrize("content", [b"", b"[]", b'{"findings": 1}', b"\xff"])
def test_other_json_is_refused_in_one_line(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "other.json"
    path.write_bytes(content)

    found = CliRunner().invoke(main, ["report", str(path)])

    assert found.exit_code == 1
    assert found.stderr.count("\n") == 1
    assert "not a result of gpuctl verify -o json" in found.stderr
