"""What is watched, and how each kind becomes events.

Vital is what a decision could give away twice if its view were frozen. Quotas are only looked at by
admissions; a ticket that was not seen evicts nobody; an instance that was not seen is waited for.
"""

from __future__ import annotations

from scheduler.model import migcut, migrule
from scheduler.state.event import Event
from scheduler.watch import convert, cuts, quotas, rules
from scheduler.watch.reflector import Source

#: Every scheduler's pods count; pods that ended leave the selector, which reads as DELETED.
PODS: Source[Event] = Source(
    kind="pods",
    path="/api/v1/pods",
    decode=convert.pod_event,
    decode_list=convert.pods_listed,
    selector="status.phase!=Succeeded,status.phase!=Failed",
)
NODES: Source[Event] = Source(
    kind="nodes", path="/api/v1/nodes", decode=convert.node_event, decode_list=convert.nodes_listed
)
NAMESPACES: Source[Event] = Source(
    kind="namespaces",
    path="/api/v1/namespaces",
    decode=convert.namespace_event,
    decode_list=convert.namespaces_listed,
)
#: Those that limit GPUs; the rest is dropped as it comes in.
QUOTAS: Source[Event] = Source(
    kind="resourcequotas",
    path="/api/v1/resourcequotas",
    decode=quotas.quota_event,
    decode_list=quotas.quotas_listed,
    is_vital=False,
)


def tickets(namespace: str) -> Source[Event]:
    """The tickets of moves, in our own namespace; a cluster may lack the kind."""
    return Source(
        kind=migrule.PLURAL,
        path=migrule.path(namespace),
        decode=rules.ticket_event,
        decode_list=rules.tickets_listed,
        is_optional=True,
        is_vital=False,
    )


def cut_instances(namespace: str) -> Source[Event]:
    """What the operators of dynamic nodes cut, in our own namespace; likewise."""
    return Source(
        kind=migcut.PLURAL,
        path=migcut.path(namespace),
        decode=cuts.cuts_event,
        decode_list=cuts.cuts_listed,
        is_optional=True,
        is_vital=False,
    )


def every(namespace: str, *, moves: bool = True) -> tuple[Source[Event], ...]:
    """All that is watched; ``namespace`` is our own. Without moves there is no right to tickets."""
    of_moves = (tickets(namespace),) if moves else ()
    return (NODES, NAMESPACES, QUOTAS, *of_moves, cut_instances(namespace), PODS)
