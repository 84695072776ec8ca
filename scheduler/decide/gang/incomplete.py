"""Why a gang cannot be planned yet: how many members are missing, and which if that is known."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from scheduler.model.pods.gang import READ_ON_DEMAND, GangSource
from scheduler.model.reasons.reason import Reason
from scheduler.plugins.groups.plugin import GROUP_NOT_FOUND, WAITING_FOR_MEMBERS
from scheduler.plugins.pod_supported import UNSUPPORTED
from scheduler.state.gangs.gang import Gang

#: Indexes that are named in a reason.
SHOWN_MAX: Final = 8


def why_incomplete(gang: Gang) -> Reason:
    """The reason of all members of a gang that is not complete."""
    if gang.problem:
        kind = GangSource(gang.key.source).value
        text = f"unsupported: {gang.problem} of {kind} {gang.key.name}"
        return Reason(code=UNSUPPORTED, text=text, resolvable=False)
    minimum = gang.minimum
    if minimum is None:
        kind = GangSource(gang.key.source).value
        return Reason(
            code=GROUP_NOT_FOUND,
            text=f"group not found: {kind} {_object(gang)} does not exist{_or_unread(gang)}",
            resolvable=False,
        )
    there = _counted(gang)
    details = "".join(f"; {one}" for one in _details(gang, minimum))
    return Reason(
        code=WAITING_FOR_MEMBERS,
        text=f"waiting for members {there}/{minimum} of group {gang.key.name}{details}",
        resolvable=False,
    )


def _object(gang: Gang) -> str:
    """The object that has the minimum: the gang of one role is ``OWNER/ROLE``."""
    return f"{gang.key.namespace}/{gang.key.name.partition('/')[0]}"


def _or_unread(gang: Gang) -> str:
    return ", or was not read yet" if gang.key.source in READ_ON_DEMAND else ""


def _counted(gang: Gang) -> int:
    """The members that count towards the minimum; of a role no more than its own minimum."""
    if not gang.roles:
        return len(gang.placed) + len(gang.waiting)
    there = gang.count((*gang.placed, *gang.waiting))
    return sum(min(count, there[role]) for role, count in gang.roles.items())


def _short_roles(gang: Gang) -> Iterator[str]:
    there = gang.count((*gang.placed, *gang.waiting))
    for role, count in gang.roles.items():
        if there[role] < count:
            yield f"{there[role]}/{count} of {role}"


def _details(gang: Gang, minimum: int) -> Iterator[str]:
    yield from _short_roles(gang)
    if missing := _missing_indexes(gang, minimum):
        shown = " ".join(map(str, missing[:SHOWN_MAX]))
        more = f" and {len(missing) - SHOWN_MAX} more" if len(missing) > SHOWN_MAX else ""
        yield f"no pod has the index {shown}{more}"
    idle = [
        pod
        for uid, pod in gang.members.items()
        if uid not in gang.placed and uid not in gang.waiting
    ]
    gated = sum(1 for pod in idle if pod.gates)
    ending = sum(1 for pod in idle if pod.is_deleting)
    if gated:
        yield f"{gated} with scheduling gates"
    if ending:
        yield f"{ending} being deleted"
    if foreign := len(idle) - gated - ending:
        yield f"{foreign} of another scheduler"


def _missing_indexes(gang: Gang, minimum: int) -> list[int]:
    """The indexes below the minimum that no member has; empty where members have no indexes."""
    if gang.roles:
        return []
    found = [pod.index() for pod in gang.members.values()]
    indexes = {index for index in found if isinstance(index, int)}
    if len(indexes) < len(found):
        return []  # members without an index, or roles with equal ones
    return [index for index in range(minimum) if index not in indexes]
