"""The decisions API has the result of a pod's admission, and the tiers that were not free."""

from __future__ import annotations

import msgspec
import pytest

from scheduler.admission.server import AdmissionServer
from scheduler.decide.admission.admit import Rules
from scheduler.model import well_known
from scheduler.model.admission import AdmissionDecision, AdmissionQuery
from scheduler.model.mig.fallback_ladder import parse_ladder
from scheduler.report.decisions.api_types import PodAnswer
from scheduler.state import event as ev
from tests.builders import namespace, node, pod, pod_json
from tests.http.test_decisions import Asking, asking

__all__ = ["asking"]

MIG_2G = {"2g.20gb": 1}


@pytest.mark.parametrize(
    ("room", "result", "granted", "tried"),
    [
        pytest.param({"2g.20gb": 1}, "kept", "2g.20gb", [], id="what-was-asked"),
        pytest.param({"1g.10gb": 1}, "degraded", "1g.10gb", ["2g.20gb"], id="the-next-tier"),
        pytest.param({}, "pending", "", ["2g.20gb", "1g.10gb"], id="nothing-free"),
    ],
)
async def test_explanation_lists_full_tiers_with_reasons(
    asking: Asking, room: dict[str, int], result: str, granted: str, tried: list[str]
) -> None:
    stage = asking.stage
    stage.see(ev.NodeUpdated(node("m", mig=room)), ev.NamespaceUpdated(namespace("team")))
    await stage.quiet()
    rules = Rules(ladders=(parse_ladder("2g.20gb->1g.10gb"),))
    body = msgspec.Raw(msgspec.json.encode(pod_json("w", uid="", mig=MIG_2G)))
    answerer = AdmissionServer(stage.loop, rules, stage.metrics, stage.clock)
    for dry_run in (True, False):
        question = AdmissionQuery(
            uid="u", dry_run=dry_run, namespace="team", scope="ours", pod=body
        )
        reply = await answerer.forwarded(msgspec.json.encode(question))
        answer = msgspec.json.decode(reply.content, type=AdmissionDecision)
    tag = {well_known.RESERVATION: answer.reservation} if answer.reservation else {}
    stage.see(ev.PodUpdated(pod("w", mig=MIG_2G, annotations=tag)))
    await stage.quiet()

    told = await asking.ask("/decisions/team/w", PodAnswer)

    assert told.admission is not None
    assert (told.admission.result, told.admission.asked) == (result, "2g.20gb")
    assert told.admission.granted == granted
    assert [one.tier for one in told.admission.tried] == tried
    for one in told.admission.tried:
        if one.tier == "1g.10gb":
            assert one.message == "not tried: no node offers it"
        else:
            assert f"Insufficient {well_known.mig_resource(one.tier)}" in one.message
