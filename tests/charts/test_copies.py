"""Each thing is said once: what the charts repeat is written by a tool, or compared here.

cluster/ is where roles, policies and API kinds are changed; the chart must install the same.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import pytest
import yaml

from tests.charts.rendering import FAKE, SCHEDULER, Json, objects, one, settings
from tools.charts import copies, deploy
from webhook.webhook_configuration import webhook_configuration

REMEDY = (
    "run `make charts` and commit what it writes below charts/ and webhook/deploy/"
    " (cluster/ and values.yaml are the places to edit; without helm:"
    " `python -m tools.charts --no-helm` and then `make charts` once it is built)"
)
SHIPPED = [path.name for path in copies.sources("gpu-scheduler")]
#: Values without which a file is not installed.
SWITCHED_ON = {
    "rbac-groups.yaml": ("config.gang.sources={volcano,kai,grove}",),
    "rbac-relabel.yaml": ("config.mig.relabelNodes=true",),
    "rbac-teams.yaml": ("config.teams.source=configMap",),
}
#: Files of cluster/ that belong to something else than the scheduler.
ELSEWHERE = {"kwok-stages.yaml", "fakegpu-migpartitions-rbac.yaml"}


def stale(wanted: dict[Path, str]) -> list[str]:
    """Files that are not as they must be."""
    return [
        str(path.relative_to(copies.ROOT))
        for path, text in wanted.items()
        if not path.exists() or path.read_text(encoding="utf-8") != text
    ]


def test_copies_schemas_and_tables_equal_the_generator_output() -> None:
    assert not stale(copies.everything()), f"not fresh: {stale(copies.everything())}; {REMEDY}"
    left = [str(path.relative_to(copies.ROOT)) for path in copies.stray()]
    assert not left, f"their source is gone: {left}; {REMEDY}"


@pytest.mark.contract("S0-16")
def test_the_plain_manifests_are_those_of_the_chart() -> None:
    wanted = deploy.everything()
    assert not stale(wanted), f"not fresh: {stale(wanted)}; {REMEDY}"
    there = {path.name for path in deploy.FOLDER.glob("*.yaml")}
    extra = there - {path.name for path in wanted} - {"04-webhook-config-patched.yaml"}
    assert not extra, f"no generator writes webhook/deploy/{', '.join(sorted(extra))}"


def key(manifest: Json) -> tuple[str, str, str]:
    """Kind, name and namespace."""
    meta = manifest["metadata"]
    return manifest["kind"], meta["name"], meta.get("namespace", "")


def bare(manifest: Json) -> Json:
    """Without labels and annotations, which are each side's own."""
    meta = {k: v for k, v in manifest["metadata"].items() if k not in ("labels", "annotations")}
    return manifest | {"metadata": meta}


@pytest.mark.parametrize("name", SHIPPED)
@pytest.mark.contract("S2-B14", "S2-21")
def test_default_release_equals_the_cluster_folder(name: str) -> None:
    """The same objects under the same names, byte for byte but for labels."""
    words = settings(*SWITCHED_ON.get(name, ()))
    rendered = {key(each): bare(each) for each in objects(SCHEDULER, *words)}
    for source in yaml.safe_load_all((copies.ROOT / "cluster" / name).read_text("utf-8")):
        if source["kind"] == "Namespace":
            continue
        assert key(source) in rendered, f"{key(source)} of cluster/{name} is missing; {REMEDY}"
        assert rendered[key(source)] == bare(source), f"cluster/{name} differs; {REMEDY}"


def test_fake_operator_release_equals_its_cluster_files() -> None:
    """With all that is off by default: the namespace of reservations, NUMA zones, DRA."""
    zones = "statusExporter.nodeResourceTopology.enabled=true"
    dra = ("draPlugin.enabled=true", "computeDomainDraPlugin.enabled=true")
    words = settings("reservation.enabled=true", zones, *dra)
    rendered = {key(each): bare(each) for each in objects(FAKE, *words)}
    for path in copies.sources("fake-gpu-operator"):
        for source in yaml.safe_load_all(path.read_text(encoding="utf-8")):
            if key(source)[:2] != ("Namespace", "gpu-operator"):
                assert rendered[key(source)] == bare(source), REMEDY
    names = {each["metadata"].get("namespace", "") for each in objects(FAKE)}
    assert "runai-reservation" not in names


def test_optional_objects_are_not_installed_by_default() -> None:
    names = {each["metadata"]["name"] for each in objects()}
    assert "gpu-scheduler-relabel" not in names


def test_every_cluster_file_is_installed_or_listed_as_external() -> None:
    files = {
        path.name
        for path in (copies.ROOT / "cluster").glob("*.yaml")
        if not path.name.startswith("kind-")
    }
    installed = {path.name for chart in copies.INSTALLED for path in copies.sources(chart)}
    unknown = files - installed - ELSEWHERE
    assert not unknown, (
        f"cluster/{', '.join(sorted(unknown))}: if the chart shall install it, name it in"
        " tools/charts/copies.py (INSTALLED) and include it in a template;"
        " otherwise name it here (ELSEWHERE)"
    )


@pytest.mark.parametrize("scope", ["ours", "all"])
@pytest.mark.parametrize("policy", ["Ignore", "Fail"])
@pytest.mark.contract("S2-16", "S2-B4", "S3-6")
def test_chart_registration_equals_the_one_in_code(
    scope: Literal["ours", "all"], policy: Literal["Ignore", "Fail"]
) -> None:
    """webhook/webhook_configuration.py is what the demo and the tests register; only the CA
    differs."""
    words = settings(f"config.fallback.scope={scope}", f"webhook.failurePolicy={policy}")
    rendered = one(objects(SCHEDULER, *words), "MutatingWebhookConfiguration")
    expected = webhook_configuration(
        ca_bundle=b"",
        scheduler_name="gpu-scheduler",
        own_namespace="gpu-scheduler-system",
        service=("gpu-scheduler-system", "gpu-scheduler-webhook"),
        scope=scope,
        failure_policy=policy,
    )
    for told, entry in zip(rendered["webhooks"], expected["webhooks"], strict=True):
        client: dict[str, Any] = entry["clientConfig"]
        client["caBundle"] = told["clientConfig"]["caBundle"]
        client["service"]["port"] = 443
    assert bare(rendered) == expected
