"""The image: everything that a chart starts is in it, and everything that it copies is there."""

from __future__ import annotations

import fnmatch

import pytest
import yaml

from tests.charts.rendering import Json, containers, of, text, variants
from tools.charts.copies import ROOT
from tools.image import dockerfile

STAGES = dockerfile.read()
COPIED = {copy.source for one in STAGES.values() for copy in one.copies if not copy.stage}


@pytest.mark.parametrize("source", sorted(COPIED))
def test_what_is_copied_exists_and_reaches_the_builder(source: str) -> None:
    """.dockerignore holds everything back that it does not name."""
    lines = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    let_in = [line.removeprefix("!") for line in lines if line.startswith("!")]
    assert (ROOT / source).exists()
    assert any(fnmatch.fnmatch(source, one) for one in let_in)


def test_every_program_that_a_chart_starts_is_in_the_image() -> None:
    started = set()
    for values in variants():
        for each in yaml.safe_load_all(text(of(values), "--values", values)):
            for container in containers(each).values() if starts(each) else ():
                python, flag, program = container["command"][:3]
                assert (python, flag) == ("python", "-m")
                started.add(program)
    assert started == {"scheduler", "webhook", "gpucheck", "fakegpu"}
    assert started <= COPIED
    assert all((ROOT / program / "__main__.py").is_file() for program in started)


def starts(each: Json | None) -> bool:
    """Whether an object makes pods; one of no replicas is there to be looked for by its name."""
    return (
        each is not None
        and each["kind"] in ("Deployment", "StatefulSet", "DaemonSet")
        and each["spec"].get("replicas") != 0
    )


@pytest.mark.contract("S2-23")
def test_image_runs_unprivileged_with_locked_packages_and_both_names() -> None:
    assert [*STAGES][-2:] == ["gpu-scheduler-check", "gpu-scheduler"], "the last is the default"
    assert {STAGES[name].user for name in ("gpu-scheduler-check", "gpu-scheduler")} == {
        "65532:65532"
    }
    assert any(
        "--require-hashes -r requirements/runtime.txt" in one for one in STAGES["build"].steps
    )
