"""A release: one version everywhere, and a changelog out of the fragments."""

from __future__ import annotations

import re
from importlib.metadata import version
from pathlib import Path

import pytest
import yaml

from tools import release
from tools.release import NotReleased, planned, present, section, with_section, with_version
from tools.release.__main__ import main

ROOT = Path(__file__).parents[3]
HEAD = "# Changes\n\nWords.\n\n## Unreleased\n\nIn changes/.\n"
OLD = f"{HEAD}\n## 0.1.0 (2026-01-01)\n\n### Added\n\n- First.\n"
CHART = "apiVersion: v2\nname: x\nversion: 0.1.0\nappVersion: 0.1.0\n"


def test_fragments_are_sorted_by_kind_and_name_with_joined_lines() -> None:
    found = section(
        "1.2.3",
        "2026-11-28",
        {"b.fixed.md": "B was\nwrong.\n", "z.added.md": "Z.\n", "a.added.md": "A.\n"},
    )

    assert found == (
        "## 1.2.3 (2026-11-28)\n\n### Added\n\n- A.\n- Z.\n\n### Fixed\n\n- B was wrong.\n"
    )


def test_a_new_version_stands_before_the_older_ones() -> None:
    whole = with_section(OLD, "0.2.0", "## 0.2.0 (2026-02-02)\n\n- New.\n")

    assert whole.startswith(f"{HEAD}\n## 0.2.0 (2026-02-02)\n")
    assert whole.index("## 0.2.0") < whole.index("## 0.1.0")
    assert whole.endswith("- First.\n")
    assert with_section(HEAD, "0.1.0", "## 0.1.0 (x)\n") == f"{HEAD}\n## 0.1.0 (x)\n"


def test_a_version_is_written_in_each_of_its_places() -> None:
    assert with_version("Chart.yaml", CHART, "2.0.0") == CHART.replace("0.1.0", "2.0.0")
    text = 'name = "x"\nversion = "0.1.0"\ntarget-version = "py311"\n'
    assert with_version("pyproject.toml", text, "2.0.0") == text.replace("0.1.0", "2.0.0")


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    (tmp_path / "changes").mkdir()
    (tmp_path / "changes/README.md").write_text("not a change")
    (tmp_path / "changes/one.added.md").write_text("One.\n")
    (tmp_path / "charts/x").mkdir(parents=True)
    (tmp_path / "charts/x/Chart.yaml").write_text(CHART)
    (tmp_path / "pyproject.toml").write_text('version = "0.1.0"\n')
    (tmp_path / "CHANGELOG.md").write_text(OLD)
    (tmp_path / "examples/a").mkdir(parents=True)
    (tmp_path / "examples/a/pod.yaml").write_text("image: gpu-scheduler-check:0.1.0\n")
    (tmp_path / "examples/a/other.yaml").write_text("image: nvidia/cuda:12.4.1\n")
    return tmp_path


def test_a_release_writes_these_files_and_removes_the_fragments(repository: Path) -> None:
    files = planned(repository, "0.2.0", "2026-11-28")

    names = {str(path.relative_to(repository)): text is None for path, text in files.items()}
    assert names == {
        "CHANGELOG.md": False,
        "pyproject.toml": False,
        "charts/x/Chart.yaml": False,
        "examples/a/pod.yaml": False,
        "changes/one.added.md": True,
    }
    assert "- One." in (files[repository / "CHANGELOG.md"] or "")
    assert files[repository / "examples/a/pod.yaml"] == "image: gpu-scheduler-check:0.2.0\n"


@pytest.mark.parametrize(
    ("version", "fragment", "says"),
    [
        pytest.param("0.1.0", "one.added.md", "0.1.0 is there already", id="released-before"),
        pytest.param("next", "one.added.md", "like 1.2.3", id="no-version"),
        pytest.param("0.2.0", "two.news.md", "changes/two.news.md: call it", id="unknown-kind"),
        pytest.param("0.2.0", "", "nothing has changed", id="nothing-changed"),
    ],
)
def test_what_has_to_be_put_right_first_is_said_in_one_line(
    repository: Path, version: str, fragment: str, says: str
) -> None:
    (repository / "changes/one.added.md").unlink()
    if fragment:
        (repository / "changes" / fragment).write_text("Words.")

    with pytest.raises(NotReleased, match=says):
        planned(repository, version, "2026-11-28")


def test_changelog_has_the_section_of_what_is_not_released() -> None:
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")

    headings = re.findall("^## .*", changelog, re.MULTILINE)
    assert headings[0] == release.UNRELEASED
    assert with_section(changelog, "99.0.0", "## 99.0.0 (x)\n").count(release.UNRELEASED) == 1
    with pytest.raises(NotReleased, match="Unreleased' is missing"):
        with_section("# Changes\n", "99.0.0", "## 99.0.0 (x)\n")


def test_charts_gpuctl_and_images_have_one_version() -> None:
    charts = [yaml.safe_load(path.read_text()) for path in (ROOT / "charts").glob("*/Chart.yaml")]

    assert {chart["version"] for chart in charts} == {present()}
    assert {chart["appVersion"] for chart in charts} == {present()}
    assert version("gpu-scheduler") == present(), "make venv"
    texts = [path.read_text() for path in release.with_images()]
    tags = {
        tag for text in texts for tag in re.findall(r"\bgpu-scheduler-check:(\S+?)[\"\s,}]", text)
    }
    assert tags == {present()}
    fragments = [path.name for path in (ROOT / "changes").glob("*.md") if path.stem != "README"]
    assert {release.kind_of(name) for name in fragments} <= set(release.KINDS)


def test_a_dry_run_says_what_it_would_write_and_writes_nothing(
    capsys: pytest.CaptureFixture[str],
) -> None:
    before = (ROOT / "CHANGELOG.md").read_bytes()

    assert main(["notes", "99.0.0", "--dry-run"]) == 0

    said = capsys.readouterr().out
    assert "write  CHANGELOG.md\n" in said
    assert "write  charts/gpu-scheduler/Chart.yaml\n" in said
    assert "git tag v99.0.0" in said
    assert (ROOT / "CHANGELOG.md").read_bytes() == before
