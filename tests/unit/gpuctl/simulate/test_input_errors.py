"""What is wrong with an input is one line: where it stands, what is wrong, what to do."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuctl.simulate.manifests import read
from tests.unit.gpuctl.cli import GPU, gpuctl, node, places, pod, rows, spec

POD = "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\n"


@pytest.mark.parametrize(
    ("text", "line"),
    [
        pytest.param(
            "apiVersion: v1\nkind: Pod\nmetadata: {name: a, labels: {x: 1}}\nspec: {}",
            "stdin: document 1 (Pod a): metadata.labels[x]: 1 is not a text; put it in quotes",
            id="a-number-for-a-label",
        ),
        pytest.param(
            POD + "spec: {containers: [{name: c, image: x, resources: {limits: {cpu: 1x}}}]}",
            "stdin: document 1 (Pod a): spec.containers[0].resources.limits[cpu]: '1x' is not a"
            " quantity",
            id="a-bad-quantity",
        ),
        pytest.param(
            "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: d}\n"
            "spec: {replicas: 99999999, template: {spec: {containers: [{name: c, image: x}]}}}",
            "stdin: document 1 (Deployment d): spec.replicas: 99999999 is not a number of pods;"
            " write 0 to 100000",
            id="more-replicas-than-are-read",
        ),
        pytest.param(
            "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: d}\nspec: {replicas: 0x"
            + "f" * 9_000
            + "}",
            "stdin: document 1: line 4 of the file is not valid YAML: a number of more than 1000",
            id="a-number-that-cannot-be-written-out",
        ),
        pytest.param(
            "[" * 5_000,
            "stdin: document 1",
            id="nested-without-end",
        ),
        pytest.param(
            POD + "spec: " + "{a: " * 150 + "1" + "}" * 150,
            "stdin: document 1: is nested deeper than 100 levels",
            id="nested-deeply",
        ),
        pytest.param(
            '{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"},"spec":'
            + '{"a":' * 5_000
            + "1"
            + "}" * 5_001,
            "stdin: document 1: is nested deeper than 100 levels",
            id="json-nested-without-end",
        ),
        pytest.param(
            POD + "spec: {overhead: {cpu: 1x}, containers: [{name: c, image: x}]}",
            "stdin: document 1 (Pod a): spec.overhead[cpu]: '1x' is not a quantity",
            id="a-bad-overhead",
        ),
        pytest.param(
            "apiVersion: v1\nkind: Node\nmetadata: {name: n}\nstatus: {capacity: {cpu: many}}",
            "stdin: document 1 (Node n): status.allocatable[cpu]: 'many' is not a quantity",
            id="a-bad-capacity",
        ),
        pytest.param(
            POD + f"spec: {{containers: [{{name: c, image: x, resources: {{requests: {{{GPU}: 1}}"
            "}}]}",
            f"stdin: document 1 (Pod a): spec.containers[0].resources.limits: {GPU} needs a limit"
            " equal to its request of 1",
            id="a-gpu-without-limit",
        ),
        pytest.param(
            POD
            + "spec: {containers: [{name: c, image: x, resources: {requests: {nvidia.com/gpu: 1},"
            " limits: {nvidia.com/gpu: 2}}}]}",
            "stdin: document 1 (Pod a): spec.containers[0].resources.requests: nvidia.com/gpu: 1 is"
            " not equal to its limit of 2",
            id="a-gpu-limit-above-its-request",
        ),
        pytest.param(
            POD + "spec: {containers: {name: c, image: x}}",
            "stdin: document 1 (Pod a): spec.containers: expected a list, found an object",
            id="an-object-for-a-list",
        ),
        pytest.param(
            POD + "spec: {nodeSelector: {gpu: true}, containers: [{name: c, image: x}]}",
            "stdin: document 1 (Pod a): spec.nodeSelector[...]: expected a text, found true or"
            " false; put it in quotes",
            id="a-truth-value-in-a-selector",
        ),
        pytest.param(
            POD,
            "stdin: document 1 (Pod a): spec.containers: is empty; a pod needs a container",
            id="no-spec",
        ),
        pytest.param(
            POD + "spec: {priority: 5, containers: [{name: c, image: x}]}",
            "stdin: document 1 (Pod a): spec.priority: is computed by the API server",
            id="a-priority-by-hand",
        ),
        pytest.param(
            "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: d}\nspec: {"
            "selector: {matchLabels: {a: d}}, template: {metadata: {labels: {a: d}}, spec:"
            " {priorityClassName: x, containers: [{name: c, image: x}]}}}",
            "stdin: document 1 (Deployment d): spec.template.spec.priorityClassName: the input"
            " has no PriorityClass x; add it",
            id="an-unknown-priority-class-in-a-template",
        ),
        pytest.param(
            "apiVersion: apps/v1beta1\nkind: Deployment\nmetadata: {name: d}",
            "stdin: document 1 (Deployment d): apiVersion: apps/v1beta1 is not read; write apps/v1",
            id="an-old-version",
        ),
        pytest.param(
            "kind: Pod\nmetadata: {name: a}",
            "stdin: document 1 (Pod a): apiVersion: is missing; write apiVersion: v1",
            id="no-version",
        ),
        pytest.param(
            "apiVersion: v1\nkind: Pod\nspec: {containers: [{name: c, image: x}]}",
            "stdin: document 1: metadata.name: is missing; give the object a name",
            id="no-name",
        ),
        pytest.param(
            "metadata: {name: a}", "stdin: document 1: kind: is missing; write", id="no-kind"
        ),
        pytest.param("hello", "stdin: document 1: expected an object", id="a-word"),
        pytest.param(
            "apiVersion: v1\nkind: Node\nmetadata: {name: n}\n---\na: [1",
            "stdin: document 2: line 6 of the file is not valid YAML",
            id="not-yaml",
        ),
        pytest.param(
            POD + "metadata: {name: b}",
            "stdin: document 1: line 4 of the file is not valid YAML: duplicate key"
            ' "metadata" in one object',
            id="a-key-twice",
        ),
        pytest.param(
            "apiVersion: v1\nkind: List\nitems: [{apiVersion: v1, kind: Pod, metadata: {name: a}}]",
            "stdin: document 1, item 1 (Pod a): spec.containers: is empty",
            id="inside-a-list",
        ),
    ],
)
def test_the_line_says_where_and_what(text: str, line: str) -> None:
    result = gpuctl("simulate", "-", stdin=text)

    assert (result.status, result.out) == (1, "")
    assert result.err.startswith(f"gpuctl simulate: {line}")
    assert result.err.count("\n") == 1


@pytest.mark.parametrize(
    ("name", "line"),
    [
        pytest.param("none.yaml", "none.yaml: No such file or directory", id="missing"),
        pytest.param("folder", "folder: is a directory; name the files in it", id="a-folder"),
        pytest.param("bad.conf", "bad.conf: Object contains unknown field", id="a-bad-config"),
    ],
)
def test_a_file_that_cannot_be_read_is_named(name: str, line: str, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "bad.conf").write_text("typo: 1")
    (tmp_path / "good.yaml").write_text("")
    path = str(tmp_path / name)
    words = [str(tmp_path / "good.yaml"), "--config", path] if name == "bad.conf" else [path]

    result = gpuctl("simulate", *words)

    assert result.status == 1
    assert result.err.startswith(f"gpuctl simulate: {tmp_path}/{line}")


def test_kinds_that_are_not_played_are_named_in_one_line_and_skipped() -> None:
    other = "apiVersion: v1\nkind: Service\nmetadata: {name: s}\n"
    volcano = "apiVersion: batch.volcano.sh/v1alpha1\nkind: Job\nmetadata: {name: j}\n"

    result = gpuctl("simulate", "-", "-o", "json", stdin=f"{other}---\n{other}---\n{volcano}")

    assert result == (
        0,
        "[]\n",
        "gpuctl simulate: skipped kinds that the simulator does not support: 1 Job, 2 Service\n",
    )


def test_fields_that_are_null_are_fields_that_are_not_there() -> None:
    text = """
apiVersion: v1
kind: Node
metadata: {name: n1, labels: , annotations: }
spec: {taints: }
status: {allocatable: {nvidia.com/gpu: 1}, conditions: }
---
apiVersion: v1
kind: Pod
metadata: {name: a, labels: , annotations: , ownerReferences: }
spec:
  schedulerName: gpu-scheduler
  tolerations:
  affinity:
  nodeSelector:
  initContainers:
  volumes:
  containers:
  - {name: c, image: x, env: , ports: , resources: {limits: {nvidia.com/gpu: 1}, requests: }}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: d}
spec:
  selector: {matchLabels: {a: d}}
  replicas:
  template:
    metadata: {labels: {a: d}, annotations: }
    spec: {tolerations: , containers: [{name: c, image: x}]}
"""
    assert [row["node"] for row in rows(text)] == ["n1", "n1"]


def test_lists_and_json_are_read_like_documents() -> None:
    listed = {"apiVersion": "v1", "kind": "List", "items": [node("n1", gpu=1)]}
    typed = (
        '{"apiVersion": "v1", "kind": "PodList", "items": [{"metadata": {"name": "a"}, "spec":'
        ' {"schedulerName": "gpu-scheduler", "containers": [{"name": "c", "image": "x"}]}}]}'
    )

    assert places(rows(listed, typed)) == {"a": "n1"}


def test_a_file_of_json_is_read(tmp_path: Path) -> None:
    import json

    path = tmp_path / "dump.json"
    items = [node("n1", gpu=1), pod("a", spec(GPU, 1))]
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))

    result = gpuctl("simulate", str(path), "-o", "json")

    assert [row["node"] for row in json.loads(result.out)] == ["n1"]


@pytest.mark.parametrize(
    ("written", "as_text"),
    [
        pytest.param("2026-01-01", "2026-01-01", id="a-date"),
        pytest.param("1:30", "1:30", id="base-sixty"),
        pytest.param("=", "=", id="an-equals-sign"),
    ],
)
def test_yaml_is_read_as_kubectl_reads_it(written: str, as_text: str, tmp_path: Path) -> None:
    path = tmp_path / "node.yaml"
    path.write_text(f"kind: Node\nmetadata: {{name: n1, annotations: {{x: {written}}}}}\n")

    (document,) = read([str(path)])

    assert document.metadata["annotations"] == {"x": as_text}
