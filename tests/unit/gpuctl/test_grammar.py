"""The grammar of all commands: names of pods and owners, clusters, completion, errors in a line."""

from __future__ import annotations

import json
from importlib.metadata import version as version_of
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner

from gpuctl.__main__ import COMMANDS, main
from gpuctl.commands.completion import kubectl_lines
from gpuctl.output.formats import as_csv
from gpuctl.targets import KINDS, Target, parse
from scheduler.model.pods.pod import Owner
from tests.builders import pod
from tests.unit.gpuctl.cli import gpuctl


@pytest.mark.parametrize(
    ("text", "target"),
    [
        pytest.param("a", Target("pod", "a"), id="name"),
        pytest.param("pod/a", Target("pod", "a"), id="as-kubectl-prints-it"),
        pytest.param("PODS/a", Target("pod", "a"), id="in-capitals"),
        pytest.param("team/a", Target("pod", "a", "team"), id="with-namespace"),
        pytest.param("deploy/web", Target("deployment", "web"), id="short-word"),
        pytest.param("deployment.apps/web", Target("deployment.apps", "web"), id="with-group"),
        pytest.param("cj/night", Target("cronjob", "night"), id="cronjob"),
        pytest.param(
            "pytorchjobs.kubeflow.org/t", Target("pytorchjob.kubeflow.org", "t"), id="of-a-crd"
        ),
        pytest.param("widget.x.example/w", Target("widget.x.example", "w"), id="unknown-kind"),
    ],
)
def test_word_names_a_pod_or_an_owner(text: str, target: Target) -> None:
    assert parse(text) == target


def test_every_kind_is_read_by_each_of_its_words() -> None:
    words = {word: kind for kind, words in KINDS.items() for word in (kind, *words)}

    assert {word: parse(f"{word}/x").kind for word in words} == words


@pytest.mark.parametrize(
    ("text", "owner", "labels", "expected"),
    [
        pytest.param("job/a", ("Job", "a"), {}, True, id="job"),
        pytest.param("job/a", ("Job", "a-1"), {}, False, id="another-job"),
        pytest.param("sts/a", ("Job", "a"), {}, False, id="another-kind"),
        pytest.param(
            "deploy/web", ("ReplicaSet", "web-7d9"), {"pod-template-hash": "7d9"}, True, id="deploy"
        ),
        pytest.param(
            "deploy/web",
            ("ReplicaSet", "web-api-7d9"),
            {"pod-template-hash": "7d9"},
            False,
            id="deployment-whose-name-begins-alike",
        ),
        pytest.param("deployment.apps/web", ("ReplicaSet", "web"), {}, False, id="no-template"),
        pytest.param("cj/night", ("Job", "night-29012345"), {}, True, id="cronjob"),
        pytest.param("cj/night", ("Job", "night-shift"), {}, False, id="job-named-alike"),
        pytest.param("raycluster/r", ("RayCluster", "r", "ray.io"), {}, True, id="crd"),
        pytest.param(
            "raycluster.x.example/r", ("RayCluster", "r", "ray.io"), {}, False, id="another-group"
        ),
        pytest.param("job/a", None, {}, False, id="no-owner"),
    ],
)
def test_owner_has_the_pods_that_its_controllers_make(
    text: str, owner: tuple[str, ...] | None, labels: dict[str, str], expected: bool
) -> None:
    made = None
    if owner is not None:
        kind, name, *group = owner
        made = Owner(kind=kind, name=name, uid="u", group=group[0] if group else "")

    assert parse(text).has(msgspec.structs.replace(pod("p", labels=labels), owner=made)) is expected


# --- one line, completion, csv -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        pytest.param(("whi",), "gpuctl: no command whi; did you mean why?\n", id="similar"),
        pytest.param(("zzz",), "gpuctl: no command zzz; see gpuctl -h\n", id="unknown"),
        pytest.param(
            ("defrag",),
            "gpuctl defrag: Missing argument 'POD' (see gpuctl defrag -h)\n",
            id="argument",
        ),
        pytest.param(
            ("doctor", "-o", "x"),
            "gpuctl doctor: Invalid value for '-o' / '--output': 'x' is not one of 'table',"
            " 'json' (see gpuctl doctor -h)\n",
            id="format",
        ),
    ],
)
def test_usage_error_is_one_line(words: tuple[str, ...], expected: str) -> None:
    result = gpuctl(*words)

    assert (result.status, result.out, result.err) == (1, "", expected)


@pytest.mark.parametrize(
    ("words", "text"),
    [
        pytest.param(("simulate", "none.yaml"), "none.yaml: No such file or directory", id="file"),
        pytest.param(("replay", "none.json"), "none.json: No such file or directory", id="replay"),
        pytest.param(
            ("defrag", "a", "--from", "none.json"),
            "none.json: No such file or directory",
            id="defrag",
        ),
        pytest.param(
            ("doctor", "--kubeconfig", "none"), "none: no such kubeconfig file", id="doctor"
        ),
        pytest.param(("simulate", "-"), "the input contains no pod to place", id="note"),
    ],
)
@pytest.mark.parametrize("program", ["gpuctl", "kubectl gpu-scheduler"])
def test_errors_begin_with_the_command_as_it_was_called(
    words: tuple[str, ...], text: str, program: str
) -> None:
    result = CliRunner().invoke(main, words, prog_name=program, input="")

    assert (result.stdout, result.stderr) == ("", f"{program} {words[0]}: {text}\n")


def test_version_is_that_of_the_package() -> None:
    assert gpuctl("version").out.startswith(f"gpuctl {version_of('gpu-scheduler')} (Python 3.")
    assert set(json.loads(gpuctl("version", "-o", "json").out)) == {"gpuctl", "python", "platform"}


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_script_calls_gpuctl(shell: str) -> None:
    result = gpuctl("completion", shell)

    assert result.status == 0, result.err
    assert f"_GPUCTL_COMPLETE={shell}_complete" in result.out


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        pytest.param([""], [*COMMANDS], id="commands"),
        pytest.param(["snap"], ["snapshot"], id="command"),
        pytest.param(["completion", ""], ["bash", "zsh", "fish"], id="choice"),
        pytest.param(["doctor", "-o", "j"], ["json"], id="option's-choice"),
    ],
)
def test_kubectl_gets_the_values_and_a_directive(words: list[str], expected: list[str]) -> None:
    *lines, directive = kubectl_lines(main, words).splitlines()

    assert [line.partition("\t")[0] for line in lines] == expected
    assert directive == ":4"


class Line(msgspec.Struct, rename="camel"):
    node_name: str
    held: dict[str, int]
    free: tuple[int, ...] = ()
    is_ready: bool = True
    waits: int | None = None


def test_csv_has_the_keys_of_json_and_one_line_per_row() -> None:
    rows: list[Any] = [Line("n,1", {"b": 2, "a": 1}, (3, 4)), Line("n2", {})]

    assert as_csv(rows) == (
        'nodeName,held,free,isReady,waits\n"n,1",a=1 b=2,3 4,true,\nn2,,,true,\n'
    )
