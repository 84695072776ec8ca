"""Values: every variant renders, the same twice; null and missing ones survive; typos do not."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from tests.charts.rendering import (
    CHECK,
    FAKE,
    PLACES,
    SCHEDULER,
    but_for_the_authority,
    kinds,
    objects,
    of,
    one,
    settings,
    text,
    variants,
)
from tools.charts.helm import HelmFailed, helm, template
from tools.charts.values import read

CHARTS = [SCHEDULER, CHECK, FAKE]
EVERY = [(chart, value.name) for chart in CHARTS for value in read(chart / "values.yaml")]
#: Nulls in one rendering: it takes a quarter of a second.
BATCH = 12
SECTIONS = sorted({(chart, name.split(".")[0]) for chart, name in EVERY if "." in name})


def sorted_objects(rendered: str) -> list[str]:
    """The objects, in whatever order they were rendered."""
    return sorted(str(each) for each in yaml.safe_load_all(rendered) if each)


@pytest.mark.parametrize("values", variants(), ids=lambda path: f"{of(path).name}-{path.stem}")
@pytest.mark.contract("S2-28")
def test_every_variant_passes_helm_lint_and_renders_deterministically(values: Path) -> None:
    release, namespace = PLACES[of(values).name]
    helm("lint", "--strict", of(values), "--values", values, "--namespace", namespace)
    words: list[str | Path] = ["--values", values]
    first, second = (
        but_for_the_authority(
            template(of(values), release=release, namespace=namespace, words=words)
        )
        for _ in range(2)
    )
    assert first == second
    assert all(each["kind"] for each in yaml.safe_load_all(first) if each)


@pytest.mark.parametrize("values", variants(), ids=lambda path: f"{of(path).name}-{path.stem}")
def test_helm_3_accepts_every_variant_and_renders_the_same_objects(values: Path) -> None:
    """In an order of its own, but the same bytes twice."""
    release, namespace = PLACES[of(values).name]
    words: list[str | Path] = ["--values", values]
    helm("lint", "--strict", of(values), *words, "--namespace", namespace, by="helm3")
    first, second = (
        but_for_the_authority(
            template(of(values), release=release, namespace=namespace, words=words, by="helm3")
        )
        for _ in range(2)
    )
    assert first == second
    present = but_for_the_authority(text(of(values), *words))
    assert sorted_objects(first) == sorted_objects(present)


@pytest.mark.parametrize("chart", CHARTS, ids=lambda chart: chart.name)
def test_helm_3_survives_null_values_too(chart: Path) -> None:
    """All at once, and typos are refused by it as well."""
    release, namespace = PLACES[chart.name]
    names = {name.split(".")[0] for where, name in EVERY if where == chart}
    words = settings(*(f"{name}=null" for name in sorted(names)))
    rendered = template(chart, release=release, namespace=namespace, words=words, by="helm3")
    made, present = map(but_for_the_authority, (rendered, text(chart, *words)))
    assert sorted_objects(made) == sorted_objects(present)
    typo = settings("wrogn=1")
    with pytest.raises(HelmFailed, match="wrogn"):
        template(chart, release=release, namespace=namespace, words=typo, by="helm3")


@pytest.mark.parametrize("chart", CHARTS, ids=lambda chart: chart.name)
def test_templates_use_no_lookup_random_or_time(chart: Path) -> None:
    """ArgoCD renders without a cluster, and again and again. The webhook's authority is the one
    exception: ignoreDifferences keep the first (docs/decisions/0025-*.md)."""
    banned = ("lookup ", "genCA", "genSigned", "genSelf", "rand", " now ", "uuidv4", "genPrivate")
    for path in chart.glob("templates/**/*"):
        if path.is_file() and path.name != "_authority.tpl":
            found = [word for word in banned if word in path.read_text(encoding="utf-8")]
            assert not found, f"{path.name}: {found}"


@pytest.mark.contract("S1-75")
@pytest.mark.parametrize("chart", CHARTS, ids=lambda chart: chart.name)
def test_each_value_may_be_null(chart: Path) -> None:
    """A dozen at a time, and each section as a whole."""
    names = [name for where, name in EVERY if where == chart]
    assert len(names) > 15
    batches = [names[at : at + BATCH] for at in range(0, len(names), BATCH)]
    for batch in [*batches, *([name] for where, name in SECTIONS if where == chart)]:
        assert objects(chart, *settings(*(f"{name}=null" for name in batch))), batch


@pytest.mark.contract("S1-75")
@pytest.mark.parametrize("chart", CHARTS, ids=lambda chart: chart.name)
def test_values_without_the_new_keys_render_the_same_objects(chart: Path) -> None:
    """``helm upgrade --reuse-values`` brings no value that is new here; with none at all the same
    kinds of objects under the same names come out."""
    names = {name.split(".")[0] for where, name in EVERY if where == chart}
    words = settings(*(f"{name}=null" for name in sorted(names)))
    assert [(each["kind"], each["metadata"]["name"]) for each in objects(chart, *words)] == [
        (each["kind"], each["metadata"]["name"]) for each in objects(chart)
    ]


@pytest.mark.parametrize(
    ("chart", "setting", "said"),
    [
        pytest.param(SCHEDULER, "replicas=3", "replicas", id="unknown-key"),
        pytest.param(SCHEDULER, "webhook.failurepolicy=Fail", "failurepolicy", id="wrong-case"),
        pytest.param(SCHEDULER, "webhook.failurePolicy=Maybe", "failurePolicy", id="no-choice"),
        pytest.param(SCHEDULER, "config.fallbak.scope=all", "fallbak", id="configuration-key"),
        pytest.param(SCHEDULER, "config.fallback.scope=some", "scope", id="configuration-value"),
        pytest.param(SCHEDULER, "config.schedulerName=x", "schedulerName", id="the-charts-own"),
        pytest.param(SCHEDULER, "replicaCount=two", "replicaCount", id="wrong-type"),
        pytest.param(
            SCHEDULER,
            "webhook.certificates.mode=existingSecret",
            "set webhook.caBundle",
            id="no-bundle",
        ),
        pytest.param(SCHEDULER, "service.name=gpu-scheduler-webhook", "rename one", id="services"),
        pytest.param(SCHEDULER, "forwarding.port=8443", "must differ", id="ports"),
        pytest.param(FAKE, "operatorConfig.wrokers=4", "wrokers", id="operators-configuration-key"),
        pytest.param(FAKE, "devicePlugin.enable=false", "enable", id="operators-key"),
        pytest.param(FAKE, "config.map.a=x,config.default=b", 'no "b", but a', id="no-such-file"),
        pytest.param(CHECK, "testService.logInterval=0", "logInterval", id="interval"),
        pytest.param(
            CHECK, "gpuScheduling.schedulingMap[0].podIndex=0", "nodeName", id="half-a-line"
        ),
        pytest.param(
            CHECK,
            "gpuScheduling.schedulingMap[1].podIndex=0,gpuScheduling.schedulingMap[1].nodeName=a,"
            "gpuScheduling.schedulingMap[1].gpuDevices=0,gpuScheduling.schedulingMap[0].podIndex=0,"
            "gpuScheduling.schedulingMap[0].nodeName=b,gpuScheduling.schedulingMap[0].gpuDevices=1",
            "named twice",
            id="index-twice",
        ),
    ],
)
@pytest.mark.contract("S2-B16")
def test_unknown_value_is_refused_by_name(chart: Path, setting: str, said: str) -> None:
    with pytest.raises(HelmFailed, match=said):
        text(chart, *settings(setting))


@pytest.mark.contract("S2-B16")
@pytest.mark.parametrize(
    ("chart", "setting", "problem"),
    [
        pytest.param(
            SCHEDULER,
            "config.placement=x",
            "'/config/placement': value must be one of 'pack', 'spread'",
            id="configuration-value",
        ),
        pytest.param(
            SCHEDULER,
            "config.typo=1",
            "'/config': additional properties 'typo' not allowed",
            id="configuration-key",
        ),
        pytest.param(
            SCHEDULER,
            "webhook.certificates.mode=x",
            "'/webhook/certificates/mode': value must be one of 'self', 'certManager',"
            " 'existingSecret'",
            id="choice",
        ),
        pytest.param(
            SCHEDULER,
            "global.imageRegistry.a=x",
            "'/global/imageRegistry': got object, want null or string",
            id="registry",
        ),
        pytest.param(
            FAKE,
            "operatorConfig.typo=1",
            "'/operatorConfig': additional properties 'typo' not allowed",
            id="operators-configuration",
        ),
    ],
)
def test_error_of_a_value_is_one_line_without_null(chart: Path, setting: str, problem: str) -> None:
    with pytest.raises(HelmFailed) as failed:
        text(chart, *settings(setting))

    lines = [line for line in str(failed.value).splitlines() if line.lstrip().startswith("- at ")]
    assert lines == [f"- at {problem}"]


def test_every_scheduler_value_has_an_effect() -> None:
    """Each named one changes what is rendered."""
    plain = text(SCHEDULER)
    for setting in (
        "livenessProbe.periodSeconds=77",
        "env[0].name=A,env[0].value=b",
        "volumes[0].name=v,volumes[0].emptyDir.medium=Memory",
        "volumeMounts[0].name=v,volumeMounts[0].mountPath=/v",
        "priorityClassName=system-cluster-critical",
        "autoscaling.enabled=true",
        "podDisruptionBudget.maxUnavailable=2",
        "service.name=other",
        "webhook.timeoutSeconds=9",
        "webhook.drainSeconds=0",
        "serviceAccount.create=false",
        "rbac.create=false",
        "scheduler.logJson=true",
        "scheduler.logLevel=detail",
        "scheduler.verbose=true",
        "terminationGracePeriodSeconds=99",
        "imagePullSecrets[0].name=x",
        "networkPolicy.enabled=false",
        "flowSchemas.enabled=false",
        "admissionPolicies.fencing=false",
        "admissionPolicies.protectedAnnotations=false",
        "crd.install=false",
        "crd.keep=false",
        "tests.enabled=false",
        "forwarding.enabled=false",
        "nameOverride=n",
        "fullnameOverride=f",
    ):
        assert text(SCHEDULER, *settings(setting)) != plain, setting


@pytest.mark.contract("S2-B16", "S2-B18")
def test_releases_share_no_cluster_object() -> None:
    """Nor does either select the other's pods; names of certificates follow the release."""
    first = objects(SCHEDULER, *settings("crd.install=false"))
    second = objects(
        SCHEDULER,
        *settings("crd.install=false", "scheduler.name=other"),
        release="second",
        namespace="elsewhere",
    )
    ids = [
        {(each["kind"], each["metadata"]["name"]) for each in found} for found in (first, second)
    ]
    assert not ids[0] & ids[1]
    selectors = [
        one(found, "Deployment")["spec"]["selector"]["matchLabels"] for found in (first, second)
    ]
    assert selectors[0] != selectors[1]
    config = yaml.safe_load(one(second, "ConfigMap")["data"]["config.yaml"])
    service = "second-gpu-scheduler-webhook"
    assert config["certificates"]["secret"] == f"{service}-tls"
    assert f"{service}.elsewhere.svc" in config["certificates"]["names"]
    assert config["forward"]["serverName"] == f"{service}.elsewhere.svc"


@pytest.mark.contract("S2-B18")
def test_a_bundle_without_the_webhook_registers_nothing() -> None:
    words = settings("webhook.enabled=false", "webhook.caBundle=QQ==")
    assert kinds(objects(SCHEDULER, *words)).isdisjoint({"MutatingWebhookConfiguration", "Secret"})


def test_config_map_of_the_lease_has_the_name_of_the_scheduler() -> None:
    """gpuctl learns the name there (``gpuctl.our_scheduler``)."""
    found = objects(SCHEDULER, *settings("scheduler.name=team-scheduler"), release="mine")

    lease = one(found, "Lease")["metadata"]["name"]
    content = one(found, "ConfigMap", f"{lease}-config")["data"]["config.yaml"]
    assert yaml.safe_load(content)["schedulerName"] == "team-scheduler"
