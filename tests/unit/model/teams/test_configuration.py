"""Teams from the ConfigMap's document and from annotations of Namespaces."""

from __future__ import annotations

import pytest

from scheduler.model.node import Namespace
from scheduler.model.teams.configuration import (
    TeamsError,
    parse_teams,
    team_problem,
    teams_of_namespaces,
)
from scheduler.model.teams.team import Team, TeamTable
from tests.teams import amount

PREFIX = "gpu-scheduler.io/team-"
DOCUMENT = """
label: team
kueue: false
minRuntimeS: 60
teams:
  research:
    guarantee: {slices: 28, gb: 320}
    limit: {slices: 56}
    weight: 2
  web: {}
"""


def test_a_document_has_all_teams() -> None:
    assert parse_teams(DOCUMENT) == TeamTable(
        teams={
            "research": Team(
                name="research", guarantee=amount(28, 320), limit_slices=56000, weight=2
            ),
            "web": Team(name="web"),
        },
        label="team",
        kueue=False,
        min_runtime_s=60,
    )


def test_an_empty_document_has_no_team() -> None:
    assert parse_teams("") == TeamTable()


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        pytest.param("teams: {a: {guarante: {}}}", "unknown field `guarante`", id="a typo"),
        pytest.param("teams: {a: {weight: 0}}", "`$.teams[...].weight`", id="no weight"),
        pytest.param("teams: {a: {guarantee: {slices: -1}}}", ">= 0", id="less than nothing"),
        pytest.param(
            "teams: {a: {guarantee: {gb: 20}, limit: {gb: 10}}}",
            "$.teams.a: the limit of 10 gb is below the guarantee of 20",
            id="a limit below the guarantee",
        ),
        pytest.param("teams: [", "while parsing", id="no YAML"),
        pytest.param('teams: {"": {}}', "a team without a name", id="no name"),
    ],
)
def test_a_mistake_is_one_line_with_its_path(text: str, problem: str) -> None:
    with pytest.raises(TeamsError) as refused:
        parse_teams(text)

    assert problem in str(refused.value)
    assert "\n" not in str(refused.value)


def quota(name: str, **texts: str) -> Namespace:
    annotations = {PREFIX + key: text for key, text in texts.items()}
    return Namespace(name=name, annotations=annotations)


def test_annotations_of_a_namespace_are_a_quota() -> None:
    found = teams_of_namespaces(
        [quota("a", guarantee="slices=14, gb=160", limit="gb=320", weight="2"), quota("b")], {}
    )

    assert found.teams == {
        "a": Team(name="a", guarantee=amount(14, 160), limit_mib=320 * 1024, weight=2)
    }


@pytest.mark.parametrize(
    ("texts", "problem"),
    [
        pytest.param({"guarantee": "14"}, "'14' is no amount", id="no name"),
        pytest.param({"limit": "slices=many"}, "Expected `float", id="no number"),
        pytest.param({"limit": "gpus=1"}, "unknown field `gpus`", id="another unit"),
    ],
)
def test_an_unreadable_annotation_keeps_the_former_quota(
    texts: dict[str, str], problem: str
) -> None:
    former = {"a": Team(name="a", guarantee=amount(7, 80))}
    namespace = quota("a", **texts)

    assert problem in team_problem(namespace)
    assert teams_of_namespaces([namespace], former).teams == former
    assert teams_of_namespaces([namespace], {}).teams == {}
