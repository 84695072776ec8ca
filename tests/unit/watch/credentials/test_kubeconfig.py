"""Which kubeconfig, context, cluster and user are chosen, and one line for each defect."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from scheduler.watch.credentials.access import find, namespace_of
from scheduler.watch.credentials.errors import NoCluster
from scheduler.watch.credentials.kubeconfig import selected


def config(*contexts: str, current: str = "", **more: Any) -> str:
    """A kubeconfig whose contexts have one cluster and one user."""
    named = [
        {"name": name, "context": {"cluster": "c", "user": "u", "namespace": f"ns-{name}"}}
        for name in contexts
    ]
    content = {
        "contexts": named,
        "current-context": current,
        "clusters": [{"name": "c", "cluster": {"server": "https://h:1"}}],
        "users": [{"name": "u", "user": {"token": "t"}}],
    }
    return yaml.safe_dump(content | more)


DEFECTS = [
    pytest.param(
        {},
        (None, None),
        {"KUBECONFIG": "{0}/x"},
        "no cluster: {0}/x does not exist (pass --kubeconfig FILE)",
        id="no-file",
    ),
    pytest.param(
        {},
        (None, None),
        {"KUBECONFIG": "{0}/x:{0}/y"},
        "no cluster: {0}/x, {0}/y do not exist (pass --kubeconfig FILE)",
        id="no-files",
    ),
    pytest.param({}, ("{0}/x", None), {}, "{0}/x: no such kubeconfig file", id="named-file"),
    pytest.param({}, ("{0}", None), {}, "{0}: Is a directory", id="directory"),
    pytest.param(
        {"x": config()}, ("{0}/x", None), {}, "no cluster: {0}/x has no context", id="no-contexts"
    ),
    pytest.param(
        {"x": config("b", "a", current="a")},
        ("{0}/x", "nope"),
        {},
        "context nope does not exist; there are: a, b",
        id="no-context",
    ),
    pytest.param(
        {"x": config("a", current="gone")},
        ("{0}/x", None),
        {},
        "the current context gone of {0}/x does not exist; there are: a",
        id="current-context-is-gone",
    ),
    pytest.param(
        {"x": config("a")},
        ("{0}/x", None),
        {},
        "{0}/x has no current context (pass --context NAME; there are: a)",
        id="no-current-context",
    ),
    pytest.param({"x": ""}, ("{0}/x", None), {}, "{0}/x: is no kubeconfig", id="empty"),
    pytest.param({"x": "a: ["}, ("{0}/x", None), {}, "{0}/x: is not YAML: ", id="no-yaml"),
    pytest.param(
        {"x": "#" * (5 << 20)},
        ("{0}/x", None),
        {},
        "{0}/x: is larger than 4 MiB, which no kubeconfig is",
        id="too-large",
    ),
    pytest.param(
        {"x": config("a", current="a", users=[{"name": "u", "user": {"token": 5}}])},
        ("{0}/x", None),
        {},
        "{0}/x: users[0].user.token: expected `str`, got `int`",
        id="type-of-a-field",
    ),
    pytest.param(
        {"x": config("a", current="a", clusters=None)},
        ("{0}/x", None),
        {},
        "{0}/x: context a: cluster c does not exist",
        id="no-cluster",
    ),
    pytest.param(
        {"x": config("a", current="a", clusters=[{"name": "c"}])},
        ("{0}/x", None),
        {},
        "{0}/x: cluster c: server is missing",
        id="no-server",
    ),
    pytest.param(
        {"x": config("a", current="a", users=[])},
        ("{0}/x", None),
        {},
        "{0}/x: context a: user u does not exist",
        id="no-user",
    ),
    pytest.param(
        {"x": config(current="a", contexts=[{"name": "a"}])},
        ("{0}/x", None),
        {},
        "{0}/x: context a: cluster is missing",
        id="empty-context",
    ),
]


def placed(folder: Path, text: str | None) -> str | None:
    """A text with the test's folder."""
    return text and text.format(folder)


@pytest.mark.parametrize(("files", "given", "environment", "expected"), DEFECTS)
def test_defect_of_a_kubeconfig_is_one_line_that_names_the_fix(
    tmp_path: Path,
    files: Mapping[str, str],
    given: tuple[str | None, str | None],
    environment: Mapping[str, str],
    expected: str,
) -> None:
    for name, content in files.items():
        (tmp_path / name).write_text(content)
    variables = {name: value.format(tmp_path) for name, value in environment.items()}

    with pytest.raises(NoCluster) as found:
        selected(placed(tmp_path, given[0]), placed(tmp_path, given[1]), variables)

    assert str(found.value).startswith(expected.format(tmp_path))
    assert "\n" not in str(found.value)


def test_default_kubeconfig_is_named_as_it_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))

    with pytest.raises(NoCluster) as found:
        selected(None, None, {})
    assert str(found.value) == "no cluster: ~/.kube/config does not exist (pass --kubeconfig FILE)"


def test_first_file_with_a_name_decides(tmp_path: Path) -> None:
    """As in client-go, for contexts, clusters, users and the current context."""
    other = {"clusters": [{"name": "c", "cluster": {"server": "https://other:1"}}]}
    (tmp_path / "x").write_text(config("a", users=None))
    (tmp_path / "y").write_text(config("a", "b", current="b", **other))
    (tmp_path / "z").write_text(config("c", current="c"))
    files = ":".join(str(tmp_path / name) for name in ("x", "absent", "y", "z"))

    found = selected(None, None, {"KUBECONFIG": files})

    assert (found.context, found.namespace) == ("b", "ns-b")
    assert (found.cluster.server, found.cluster_file) == ("https://h:1", str(tmp_path / "x"))
    assert (found.user.token, found.user_file) == ("t", str(tmp_path / "y"))


def test_json_kubeconfig_is_read(tmp_path: Path) -> None:
    (tmp_path / "x").write_text(
        '{"apiVersion":"v1","kind":"Config","current-context":"a","contexts":[{"name":"a",'
        '"context":{"cluster":"c"}}],"clusters":[{"name":"c","cluster":{"server":"http://h"}}]}'
    )

    found = selected(str(tmp_path / "x"), None, {})

    assert found.cluster.server == "http://h"
    assert not found.user.token


@pytest.mark.parametrize(
    ("context", "expected"),
    [
        pytest.param(None, "ns-a", id="current"),
        pytest.param("b", "ns-b", id="named"),
        pytest.param("nope", "", id="unknown"),
    ],
)
def test_namespace_is_that_of_the_context(
    tmp_path: Path, context: str | None, expected: str
) -> None:
    (tmp_path / "x").write_text(config("a", "b", current="a"))

    assert namespace_of(str(tmp_path / "x"), context, {}) == expected


async def test_named_kubeconfig_has_precedence_over_the_pod(tmp_path: Path) -> None:
    (tmp_path / "x").write_text(config("a", current="a"))

    found = await find(str(tmp_path / "x"), None, {"KUBERNETES_SERVICE_HOST": "h"})

    assert found.url == "https://h:1"
