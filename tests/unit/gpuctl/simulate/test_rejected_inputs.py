"""What the API server rejects, ``gpuctl simulate`` rejects; the rest is noted or has its state."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpuctl.simulate.validation.unknown_fields import NOTES_MAX
from tests.rejected_inputs import ACCEPTED, REJECTED
from tests.unit.gpuctl.cli import GPU, MIG_2G, gpuctl, node, pod, rows, spec

Json = dict[str, Any]
NODES = node("n1", gpu=1)


def simulated(*objects: Json, options: tuple[str, ...] = ()) -> Any:
    text = "\n---\n".join(map(yaml.safe_dump, (NODES, *objects)))
    return gpuctl("simulate", *options, "-", stdin=text)


@pytest.mark.parametrize("case", REJECTED)
def test_rejected_object_ends_the_command_with_the_field(case: str) -> None:
    body, field = REJECTED[case]
    name = body["metadata"].get("name") or body["metadata"]["generateName"]

    result = simulated(body)

    assert (result.status, result.out) == (1, "")
    start = f"gpuctl simulate: stdin: document 2 ({body['kind']} {name}): {field}: "
    assert result.err.startswith(start), result.err
    assert result.err.count("\n") == 1


@pytest.mark.parametrize("case", ACCEPTED)
def test_accepted_object_is_simulated(case: str) -> None:
    result = simulated(ACCEPTED[case])

    assert result.status == 0, result.err
    assert "unknown field" not in result.err


@pytest.mark.parametrize("case", ["half-a-gpu", "pod-name", "deployment-without-selector"])
def test_object_of_a_cluster_is_not_checked(case: str) -> None:
    """An object with a uid passed an API server, perhaps an older one."""
    body, _ = REJECTED[case]
    meta = {**body["metadata"], "uid": "u", "name": body["metadata"].get("name") or "a"}

    result = simulated({**body, "metadata": meta})

    assert result.status == 0, result.err


def test_unknown_field_is_noted_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "pod.yaml"
    path.write_text(
        "# comment\napiVersion: v1\nkind: Pod\nmetadata:\n  name: a\nspec:\n  containers:\n"
        "  - name: c\n    image: x\n    resource:\n      limits: {nvidia.com/gpu: 1}\n"
        "  zzz: 1\n"
    )

    result = gpuctl("simulate", str(path))

    rest = "unknown field, which kubectl apply rejects and other clients drop"
    assert result.err.splitlines() == [
        f"gpuctl simulate: {path}: document 1 (Pod a): line 10: spec.containers[0].resource: {rest}"
        "; did you mean resources?",
        f"gpuctl simulate: {path}: document 1 (Pod a): line 12: spec.zzz: {rest}",
    ]


def test_unknown_field_in_a_list_of_json_is_noted_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "list.json"
    wanted = {**spec(GPU, 1), "nodeSelectors": {}}
    items = [node("n1", gpu=1), pod("a", wanted)]
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}, indent=1))
    line = 1 + path.read_text().splitlines().index('    "nodeSelectors": {}')

    result = gpuctl("simulate", str(path))

    assert f"item 2 (Pod a): line {line}: spec.nodeSelectors: unknown field" in result.err
    assert result.err.rstrip().endswith("did you mean nodeSelector?")


def test_many_unknown_fields_are_counted() -> None:
    wanted = {**spec(GPU, 1), **{f"unknown{number}": 1 for number in range(NOTES_MAX + 5)}}

    result = simulated(pod("a", wanted))

    assert result.err.count("unknown field,") == NOTES_MAX
    assert "5 more unknown fields" in result.err


@pytest.mark.parametrize(
    ("wanted", "meta", "reason"),
    [
        pytest.param(spec(), {}, "asks for no GPU", id="no-request"),
        pytest.param(spec("cpu", 1), {}, "asks for no GPU", id="cpu"),
        pytest.param(spec(GPU, 1), {}, None, id="gpu"),
        pytest.param(spec(), {"annotations": {"gpu-scheduling-map": "0=n1:0"}}, None, id="map"),
    ],
)
def test_pod_without_a_gpu_has_a_note(wanted: Json, meta: Json, reason: str | None) -> None:
    world = node("n1", gpu=1) if GPU in str(wanted) else node("n1")

    (row,) = rows(world, pod("a-0", wanted, **meta))

    assert (row["node"], row["reason"]) == ("n1", reason)


@pytest.mark.parametrize(
    ("resource", "meant"),
    [
        pytest.param("nvida.com/gpu", GPU, id="domain"),
        pytest.param("nvidia.con/mig-2g.20gb", MIG_2G, id="domain-of-a-slice"),
        pytest.param("nvidia.com/gpus", GPU, id="name"),
        pytest.param("nvidia.com/GPU", GPU, id="capitals"),
        pytest.param("amd.com/gpu", None, id="other-vendor"),
        pytest.param("nvidia.com/gpu.shared", None, id="shares"),
        pytest.param("nvidia.com/mig-1g.10gb", None, id="slice"),
    ],
)
def test_misspelt_resource_has_a_correction(resource: str, meant: str | None) -> None:
    (row,) = rows(node("n1", gpu=1), pod("a", spec(resource, 1)))

    assert row["state"] == "waits"
    found = f"resource {resource} is unknown; did you mean {meant}?" in row["reason"]
    assert found is (meant is not None)
    assert "did you mean" not in row["reason"] or found


@pytest.mark.parametrize(
    ("name", "note"),
    [
        pytest.param(
            "gpu-schedular",
            "no scheduler gpu-schedular may exist; did you mean spec.schedulerName: gpu-scheduler?",
            id="near",
        ),
        pytest.param("default-scheduler", "in a cluster default-scheduler decides", id="other"),
    ],
)
def test_misspelt_scheduler_has_a_correction(name: str, note: str) -> None:
    (row,) = rows(node("n1", gpu=1), pod("a", {**spec(GPU, 1), "schedulerName": name}))

    assert row["node"] == "n1"
    assert note in row["reason"]
    assert ("did you mean" in row["reason"]) is ("did you mean" in note)


def test_impossible_amount_of_memory_is_said_once() -> None:
    world = node("n1", gpu=1, labels={"nvidia.com/gpu.memory": "81559"})
    wanted = {"annotations": {"gpu-scheduler.io/gpu-memory": "200Gi"}}

    (row,) = rows(world, pod("a", spec(), **wanted))

    assert row["state"] == "waits"
    assert row["reason"].count("can never be placed here") == 1


def test_refused_pod_has_a_state_of_its_own() -> None:
    quota = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "q", "namespace": "default"},
        "spec": {"hard": {f"requests.{GPU}": "1"}},
    }
    objects = (quota, *(pod(name, spec(GPU, 1)) for name in ("placed", "refused")))
    full = pod("waits", spec(GPU, 1), namespace="other")

    result = simulated(*objects, full)
    found = rows(NODES, *objects, full)

    assert {row["pod"]: row["state"] for row in found} == {
        name: name for name in ("placed", "refused", "waits")
    }
    lines = result.out.splitlines()
    assert [line.split()[:2] for line in lines[2:5]] == [
        ["default/placed", "n1"],
        ["default/refused", "refused"],
        ["other/waits", "waits"],
    ]
    assert lines.index("refused: refused") < lines.index("waits: waits")
    assert lines[-1] == "1 of 3 pods have a node, 1 refused"


@pytest.mark.parametrize(
    ("gpus", "status"),
    [pytest.param(1, 0, id="placed"), pytest.param(2, 2, id="waits")],
)
def test_option_fails_if_a_pod_waits(gpus: int, status: int) -> None:
    bodies = [pod(f"a-{number}", spec(GPU, 1)) for number in range(gpus)]

    assert simulated(*bodies, options=("--fail-on-wait",)).status == status
    assert simulated(*bodies).status == 0
