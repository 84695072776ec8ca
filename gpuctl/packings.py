"""How well the pods of a simulation fill the GPUs that are cut to order, told in slices.

Only where somebody waits for such an instance: then the figures say whether the order of the pods
is why, or whether there is no room for him in any order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from gpuctl.verdict import Verdict
from scheduler.decide import joint
from scheduler.decide.filters import CLASS_FILTERS, first_rejection
from scheduler.decide.packing import best
from scheduler.model import mig
from scheduler.model.pod import Pod
from scheduler.state.cluster import Cluster
from scheduler.state.cutting import Gpus
from scheduler.state.ledger import NodeBooks


class Pool(msgspec.Struct, frozen=True):
    """The nodes of one board that are cut to order, and their GPUs as one node's."""

    books: tuple[NodeBooks, ...]
    gpus: Gpus


def pools(cluster: Cluster) -> dict[mig.Board, Pool]:
    """What is held now, board by board."""
    found: dict[mig.Board, list[tuple[NodeBooks, Gpus]]] = {}
    for books in cluster.candidates():
        if books.gpus is not None:
            found.setdefault(books.gpus.board, []).append((books, books.gpus))
    return {board: _pool(board, nodes) for board, nodes in found.items()}


def _pool(board: mig.Board, nodes: Sequence[tuple[NodeBooks, Gpus]]) -> Pool:
    gpus = [one for _, one in nodes]
    held = tuple(layout for one in gpus for layout in one.held)
    idle = tuple(there for one in gpus for there in one.idle)
    return Pool(tuple(books for books, _ in nodes), Gpus(board, held, idle))


def told(
    before: Mapping[mig.Board, Pool], cluster: Cluster, verdicts: Mapping[str, Verdict]
) -> list[str]:
    """For each board on which one of these pods does not fit, what they fill and could fill."""
    # A pod that was refused at admission does not exist.
    found = [(cluster.pods[uid], one.node) for uid, one in verdicts.items() if uid in cluster.pods]
    now = pools(cluster)
    lines = (_line(board, before[board], now[board], found) for board in before)
    return [line for line in lines if line]


def _line(
    board: mig.Board, before: Pool, now: Pool, pods: Sequence[tuple[Pod, str | None]]
) -> str | None:
    here = {books.node.name for books in now.books if books.node is not None}
    placed = [pod for pod, node in pods if node in here]
    left = [pod for pod, node in pods if node is None and _could_go(pod, board, now)]
    if not left:
        return None
    asked = [joint.wanted(pod) for pod in (*placed, *left)]
    free, filled = before.gpus.free_slices, before.gpus.free_slices - now.gpus.free_slices
    choice = best(before.gpus, asked)
    head = f"{board.name}, cut to order: these pods fill {filled} of {free} free memory slices"
    if choice.slices <= filled:
        return f"{head}; no choice of them fills more"
    # Two instances of one pod are on one node, and the choice was made as if there were one.
    is_exact = choice.is_exact and (len(here) == 1 or all(len(one) == 1 for one in asked))
    if is_exact:
        return f"{head}; the best choice of them would fill {choice.slices}"
    return f"{head}; no choice of them fills more than {choice.slices}"


def _could_go(pod: Pod, board: mig.Board, pool: Pool) -> bool:
    """Whether it waits for nothing but slices, or for something that is short beside them."""
    asked = joint.wanted(pod)
    return (
        bool(asked)
        and not pod.gates
        and all(mig.profile_of(board, profile) is not None for profile in asked)
        and any(not first_rejection(pod, books, CLASS_FILTERS) for books in pool.books)
    )
