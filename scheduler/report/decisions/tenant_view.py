"""The part of an explanation that the readers of one namespace may know. Pure.

Kept are the reasons with the names of nodes and what is free there, since no explanation is
possible without them. Removed are the names of other namespaces' pods: of holders, of victims and
of the pods before it in the queue. Holders and victims become counts.
"""

from __future__ import annotations

from typing import Final

import msgspec

from scheduler.decide.explain import Outcome, PreemptionOutcome
from scheduler.decide.remedy.edit import Edit, EditKind
from scheduler.decide.remedy.outlook import Closest, Outlook
from scheduler.report.decisions.api_types import Decided, PodAnswer, Waiting

#: Maximum number of rejections of nodes in the present decision, and in each past one.
NOW_ROWS_MAX: Final = 500
PAST_ROWS_MAX: Final = 20


def tenant_view(answer: PodAnswer) -> PodAnswer:
    """The answer for the readers of the pod's namespace."""
    space = answer.namespace
    return msgspec.structs.replace(
        answer,
        waiting=None if answer.waiting is None else _waiting(answer.waiting, space),
        now=None if answer.now is None else _outcome(answer.now, space, NOW_ROWS_MAX),
        outlook=None if answer.outlook is None else _outlook(answer.outlook, space),
        decisions=tuple(_decided(one, space) for one in answer.decisions),
    )


def _waiting(waiting: Waiting, space: str) -> Waiting:
    own = tuple(one for one in waiting.before if one.namespace == space)
    return msgspec.structs.replace(waiting, before=own)


def _decided(decided: Decided, space: str) -> Decided:
    outcome = _outcome(decided.outcome, space, PAST_ROWS_MAX)
    dropped = decided.detail_dropped or len(decided.outcome.refusals) > PAST_ROWS_MAX
    return msgspec.structs.replace(decided, outcome=outcome, detail_dropped=dropped)


def _outcome(outcome: Outcome, space: str, rows_max: int) -> Outcome:
    preemption = outcome.preemption
    return msgspec.structs.replace(
        outcome,
        refusals=outcome.refusals[:rows_max],
        preemption=None if preemption is None else _preemption(preemption, space, rows_max),
    )


def _preemption(found: PreemptionOutcome, space: str, rows_max: int) -> PreemptionOutcome:
    own = tuple(one for one in found.victims if one.namespace == space)
    return msgspec.structs.replace(
        found,
        victims=own,
        elsewhere=len(found.victims) - len(own),
        refusals=found.refusals[:rows_max],
    )


def _outlook(expected: Outlook, space: str) -> Outlook:
    closest = expected.closest
    own = tuple(
        one for one in expected.remedies if not any(_is_foreign(edit, space) for edit in one.edits)
    )
    return msgspec.structs.replace(
        expected,
        closest=None if closest is None else _closest(closest, space),
        remedies=own,
    )


def _is_foreign(edit: Edit, space: str) -> bool:
    return edit.kind is EditKind.DELETE_POD and not edit.field.startswith(f"{space}/")


def _closest(closest: Closest, space: str) -> Closest:
    own = tuple(one for one in closest.holders if one.namespace == space)
    elsewhere = len(closest.holders) - len(own)
    return msgspec.structs.replace(closest, holders=own, elsewhere=elsewhere)
