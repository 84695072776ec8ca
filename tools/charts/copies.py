"""The content of every file that ``make charts`` writes without helm, by path."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import yaml

from tools.charts import dashboard, readme, schema
from tools.charts.values import read

ROOT: Final = Path(__file__).parents[2]
CHARTS: Final = ROOT / "charts"
SCHEDULER: Final = CHARTS / "gpu-scheduler"
#: The template of image names, which each chart has.
IMAGE: Final = CHARTS / "_image.tpl"
DASHBOARDS: Final = {
    "gpu-scheduler/files/dashboards/gpu-scheduler.json": dashboard.SCHEDULER,
    "gpu-scheduler/files/dashboards/gpus-dcgm.json": dashboard.GPUS,
    "fake-gpu-operator/files/dashboards/gpu-dashboard.json": dashboard.UTILIZATION,
}
#: The files of cluster/ that each chart installs.
INSTALLED: Final = {
    "gpu-scheduler": (
        "crd-migpartitions.yaml",
        "crd-podmigrations.yaml",
        "rbac.yaml",
        "rbac-groups.yaml",
        "rbac-migrations.yaml",
        "rbac-preemption.yaml",
        "rbac-relabel.yaml",
        "rbac-teams.yaml",
        "admission-policies.yaml",
        "fencing-policy.yaml",
        "preemption-policy.yaml",
        "flow-schemas.yaml",
    ),
    "fake-gpu-operator": (
        "fakegpu-rbac.yaml",
        "fakegpu-node-rbac.yaml",
        "fakegpu-zones-rbac.yaml",
        "crd-noderesourcetopologies.yaml",
        "fakegpu-dra-rbac.yaml",
        "fakegpu-device-classes.yaml",
        "fakegpu-domains-rbac.yaml",
        "fakegpu-domains-classes.yaml",
        "crd-computedomains.yaml",
    ),
}


def sources(chart: str) -> list[Path]:
    """The files of cluster/ that a chart installs."""
    patterns = INSTALLED.get(chart, ())
    return [path for one in patterns for path in sorted((ROOT / "cluster").glob(one))]


def charts() -> list[Path]:
    """The directories of our charts."""
    return sorted(path.parent for path in CHARTS.glob("*/Chart.yaml"))


def everything() -> dict[Path, str]:
    """Path and text of each written file."""
    result: dict[Path, str] = {}
    for path, board in DASHBOARDS.items():
        result[CHARTS / path] = dashboard.render(board)
    for chart in charts():
        for source in sources(chart.name):
            result[chart / "files/cluster" / source.name] = source.read_text(encoding="utf-8")
        result[chart / "templates/_image.tpl"] = IMAGE.read_text(encoding="utf-8")
        values = read(chart / "values.yaml")
        name = yaml.safe_load((chart / "Chart.yaml").read_text(encoding="utf-8"))["name"]
        result[chart / "values.schema.json"] = schema.render(f"Values of {name}", values)
        page = chart / "README.md"
        result[page] = readme.render(page.read_text(encoding="utf-8"), values)
    return result


def stray() -> list[Path]:
    """Copies without a source."""
    wanted = everything()
    return [path for path in CHARTS.glob("*/files/**/*.*") if path not in wanted]
