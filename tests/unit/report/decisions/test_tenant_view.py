"""The readers of a namespace learn no name of another namespace's pod."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import msgspec
import pytest

from scheduler.decide.explain import (
    Outcome,
    PreemptionOutcome,
    Refusal,
    SparedPods,
    VictimOutcome,
    meanings,
)
from scheduler.decide.remedy.edit import Edit, EditKind
from scheduler.decide.remedy.outlook import CanStart, Closest, Holder, Outlook
from scheduler.decide.remedy.search import Remedy
from scheduler.decide.score_breakdown import Ranking
from scheduler.model.pods.pod import Pod
from scheduler.model.reasons.reason import ReasonCode
from scheduler.report.decisions.api_types import (
    API_VERSION,
    Admitted,
    Ahead,
    Decided,
    PodAnswer,
    Tier,
    Waiting,
)
from scheduler.report.decisions.tenant_view import PAST_ROWS_MAX, tenant_view
from tests.builders import cluster, node, pod
from tests.questions import explain_now, outlook
from tests.reason_worlds import EXAMPLES, world_of

OURS = Holder(namespace="team", pod="ours", holds="1 nvidia.com/gpu")
THEIRS = Holder(namespace="rival", pod="secret", holds="3 nvidia.com/gpu")


def answer_with(**fields: Any) -> PodAnswer:
    """An answer about team/p."""
    return PodAnswer(api_version=API_VERSION, namespace="team", pod="p", leads=True, **fields)


def text_of(answer: PodAnswer) -> str:
    """What a reader gets."""
    return msgspec.json.encode(tenant_view(answer)).decode()


def rivals(objects: Iterable[Any]) -> list[Any]:
    """The same objects, with the pods in another namespace."""
    names = ("namespace", "name", "uid")
    return [
        msgspec.structs.replace(
            one,
            **dict(zip(names, ("rival", f"secret-{one.name}", f"rival-{one.uid}"), strict=True)),
        )
        if isinstance(one, Pod)
        else one
        for one in objects
    ]


@pytest.mark.parametrize("code", EXAMPLES, ids=lambda code: code.name)
def test_no_rejection_names_a_pod_of_another_namespace(code: ReasonCode) -> None:
    world, (objects, _) = world_of(code), EXAMPLES[code]
    state = cluster(*rivals(objects))
    now = explain_now(state, world.pod, world.pipeline)
    expected = outlook(state, world.pod, world.pipeline, now)
    codes = meanings(one.code for one in now.refusals)

    seen = text_of(answer_with(now=now, outlook=expected, codes=codes))

    assert "secret-" not in seen
    assert "rival" not in seen


def test_holders_elsewhere_become_a_count() -> None:
    closest = Closest(node="n1", text="0 of 4 free", holders=(THEIRS, OURS, THEIRS), others=5)
    expected = Outlook(can_start=CanStart.LATER, closest=closest)

    seen = tenant_view(answer_with(outlook=expected)).outlook

    assert seen is not None
    assert seen.closest == Closest(
        node="n1", text="0 of 4 free", holders=(OURS,), elsewhere=2, others=5
    )


def test_victims_elsewhere_become_a_count() -> None:
    victims = tuple(VictimOutcome(namespace=space, pod="v") for space in ("rival", "team"))
    outcome = Outcome(preemption=PreemptionOutcome(node="n1", victims=victims))
    past = Decided(
        id="1",
        time="",
        namespace="team",
        pod="p",
        uid="u",
        attempt=1,
        generation=1,
        outcome=outcome,
    )

    seen = tenant_view(answer_with(now=outcome, decisions=(past,)))

    expected = PreemptionOutcome(node="n1", victims=victims[1:], elsewhere=1)
    assert seen.now is not None
    assert seen.now.preemption == expected
    assert seen.decisions[0].outcome.preemption == expected


def test_queue_keeps_the_position_and_names_own_pods_only() -> None:
    ahead = tuple(Ahead(namespace=space, pod="a") for space in ("rival", "team"))
    waiting = Waiting(place="active", attempts=1, waits_s=1.0, position=3, of=9, before=ahead)

    seen = tenant_view(answer_with(waiting=waiting)).waiting

    assert seen == msgspec.structs.replace(waiting, before=ahead[1:])


def test_remedies_delete_pods_of_the_namespace_only() -> None:
    remedies = tuple(
        Remedy(
            codes=("INSUFFICIENT",),
            edits=(Edit(kind=EditKind.DELETE_POD, field=f"{space}/x", text="delete it"),),
            node="n1",
        )
        for space in ("team", "team-b", "rival")
    )
    expected = Outlook(can_start=CanStart.LATER, remedies=remedies)

    seen = tenant_view(answer_with(outlook=expected)).outlook

    assert seen is not None
    assert seen.remedies == remedies[:1]


def test_past_decisions_keep_a_few_nodes() -> None:
    """The whole answer has to fit into one message."""
    world = world_of(next(code for code in EXAMPLES if code.name == "INSUFFICIENT"))
    nodes = [node(f"n{number}", gpus=1) for number in range(PAST_ROWS_MAX + 5)]
    now = explain_now(cluster(*nodes), pod(gpus=2), world.pipeline)
    past = Decided(
        id="1", time="", namespace="team", pod="p", uid="u", attempt=1, generation=1, outcome=now
    )

    [seen] = tenant_view(answer_with(decisions=(past,))).decisions

    assert (len(seen.outcome.refusals), seen.detail_dropped) == (PAST_ROWS_MAX, True)


#: The fields of an explanation. A new one is considered here,
#: and then in ``tenant_view``, before a reader can see it.
KNOWN: Final[dict[type[msgspec.Struct], str]] = {
    PodAnswer: "api_version namespace pod leads waiting now outlook decisions admission codes",
    Waiting: "place attempts waits_s next_try_s woken_by position of before",
    Decided: "id time namespace pod uid attempt generation outcome ranking fallback end problem"
    " detail_dropped",
    Admitted: "time result asked granted tried",
    Tier: "tier message",
    Outcome: "node devices claims index cuda_visible_devices shares notes message total refusals"
    " preemption",
    Refusal: "node stage code text resource need have is_final",
    PreemptionOutcome: "node victims elsewhere violations claims refusals barred spared",
    SparedPods: "cause pods",
    Outlook: "can_start text closest remedies searched",
    Closest: "node text holders elsewhere others",
    Ranking: "winner runner_up decided_by margin",
}


@pytest.mark.parametrize("kind", KNOWN, ids=lambda kind: kind.__name__)
def test_each_field_was_considered(kind: type[msgspec.Struct]) -> None:
    assert " ".join(kind.__struct_fields__) == KNOWN[kind]
