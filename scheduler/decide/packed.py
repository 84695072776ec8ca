"""Packed pods: the best-fitting node, found through the index, or by a scan where that is blind.

Both ways give the same node; a property test compares them on random clusters. The scan also
explains a rejection, node by node.
"""

from __future__ import annotations

from collections.abc import Iterable

from scheduler.decide import cutsearch, joint
from scheduler.decide.cutting import positioned
from scheduler.decide.filters import CLASS_FILTERS, NODE_FILTERS, first_rejection
from scheduler.decide.scores import Score, preference, score
from scheduler.decide.view import View
from scheduler.decide.work import Work, is_light
from scheduler.model import mig, names
from scheduler.model.device import Devices
from scheduler.model.pod import Pod
from scheduler.model.reason import Diagnosis, Reason
from scheduler.state.index import ANY, Kinds, NodeClass
from scheduler.state.ledger import NodeBooks
from scheduler.state.shelf import LEAST
from scheduler.state.verdicts import Check

#: With up to this many classes each one's own shelf is read; beyond, the shelf of all nodes.
SHELVES_MAX = 8


def find(view: View, pod: Pod, work: Work, *, spread: bool) -> NodeBooks | None:
    """The best node for the pod, or None; also None where ``work`` is over before it is known."""
    if len(pod.gpu_requests) > 1 or not _is_covered(view, pod):
        return scan(_narrowed(view, pod), pod, work, spread=spread)[0]
    if not work.once(pod.kind, len(view.index.classes) * pod.label_steps):
        return None
    for kinds in _kinds(view, pod):
        found = _best_of(view, pod, kinds, work, spread=spread)
        if work.is_over:
            return None
        if found is not None:
            return found
    return None


def _kinds(view: View, pod: Pod) -> tuple[Kinds, ...]:
    """The classes that the pod may use; what a pod that is not light asks for is not remembered."""
    if not is_light(pod):
        return _sort(pod, view.index.classes.values())
    return view.index.kinds(pod.constraints, lambda classes: _sort(pod, classes))


def steps_of_diagnosis(view: View, pod: Pod, most: int) -> int:
    """What it takes to ask every node why it says no, or anything above ``most``."""
    nodes = len(view.nodes) + len(view.changed)
    if _is_covered(view, pod):
        steps = len(view.index.classes) * pod.label_steps + nodes * pod.node_steps
    else:
        steps = nodes * (pod.label_steps + pod.node_steps)
    signatures = view.index.cuts.signatures
    if signatures and len(profiles := joint.wanted(pod)) > 1:
        for one in signatures:
            if steps > most:
                break
            steps += joint.searched(mig.BOARDS[one.board], one.layouts, profiles).steps
    return steps


def devices(pod: Pod, books: NodeBooks) -> Devices:
    """What a packed pod gets on a node where it fits: the lowest free indexes, or a count."""
    assert books.node is not None
    numbers: tuple[int, ...] = ()
    counts = dict(pod.gpu_requests)
    if books.node.is_numbered and names.GPU in counts:
        numbers = books.free_numbers()[: counts.pop(names.GPU)]
        assert len(numbers) == pod.requests[names.GPU], "free count and free numbers disagree"
    given = tuple((books.node.unit(name), n) for name, n in sorted(counts.items()))
    return positioned(pod, books, Devices(numbers, given))


def diagnosis(view: View, pod: Pod) -> Diagnosis | None:
    """Why every node says no, or None where one does not."""
    check = _checker(view, pod)
    verdict = view.verdicts.of(pod.kind, check) if is_light(pod) else view.verdicts.once(check)
    return verdict.diagnosis({name: check(books) for name, books in view.changed.items()})


def is_hopeless(view: View, pod: Pod) -> bool:
    """Whether every node says no, even without what was tried out."""
    return view.verdicts.of(pod.kind, _checker(view, pod)).is_hopeless


def _checker(view: View, pod: Pod) -> Check:
    """What any node says to the pod; nodes of one class are asked once about what they share."""
    if not _is_covered(view, pod):
        return lambda books: first_rejection(pod, books)
    by_class: dict[int, tuple[Reason, ...]] = {}

    def check(books: NodeBooks) -> tuple[Reason, ...]:
        assert books.node is not None
        number = view.index.class_of(books.node.name)
        reasons = by_class.get(number)
        if reasons is None:
            reasons = by_class[number] = first_rejection(pod, books, CLASS_FILTERS)
        return reasons or first_rejection(pod, books, NODE_FILTERS)

    return check


def _is_covered(view: View, pod: Pod) -> bool:
    """Whether the classes of the index decide about the pod's labels and taints."""
    return not pod.names_nodes and view.index.covers(pod.label_keys)


def scan(
    candidates: Iterable[NodeBooks], pod: Pod, work: Work, *, spread: bool
) -> tuple[NodeBooks | None, dict[str, tuple[Reason, ...]]]:
    """The best of these nodes, and why each of the others was rejected; no node is the best once
    ``work`` is over."""
    rejected: dict[str, tuple[Reason, ...]] = {}
    best: tuple[Score, NodeBooks] | None = None
    steps = pod.label_steps + pod.node_steps
    for books in candidates:
        if not work.spend(steps):
            return None, rejected
        reasons = first_rejection(pod, books, CLASS_FILTERS)
        if not reasons:
            _count_search(pod, books, work)
            reasons = first_rejection(pod, books, NODE_FILTERS)
        if reasons:
            assert books.node is not None
            rejected[books.node.name] = reasons
            continue
        mark = score(pod, books, spread=spread)
        if best is None or mark < best[0]:
            best = (mark, books)
    return (best[1] if best else None), rejected


def _count_search(pod: Pod, books: NodeBooks, work: Work) -> None:
    """Count the search for room for several instances, once where GPUs are held alike.

    Each search is bounded by itself, so the last one may be one too many.
    """
    if books.gpus is not None and len(profiles := joint.wanted(pod)) > 1:
        signature = books.gpus.signature
        found = joint.searched(books.gpus.board, signature, profiles)
        work.once((books.gpus.board.name, signature), found.steps)


def _narrowed(view: View, pod: Pod) -> Iterable[NodeBooks]:
    """The nodes that a selector on a wide label (a host name, say) leaves; else all."""
    for key, value in pod.node_selector.items():
        found = view.index.with_value(key, value)
        if found is not None:
            return [books for name in sorted(found) if (books := view.at(name)) is not None]
    return view.candidates()


def _sort(pod: Pod, classes: Iterable[NodeClass]) -> tuple[Kinds, ...]:
    """The classes that pass the filters of labels and taints, most liked first."""
    liked: dict[int, list[NodeClass]] = {}
    for kind in classes:
        sample = NodeBooks(kind.sample)
        if not first_rejection(pod, sample, CLASS_FILTERS):
            liked.setdefault(preference.dislike(pod, kind.sample), []).append(kind)
    return tuple(
        Kinds(dislike, tuple(kinds), frozenset(kind.number for kind in kinds))
        for dislike, kinds in sorted(liked.items())
    )


def _best_of(view: View, pod: Pod, kinds: Kinds, work: Work, *, spread: bool) -> NodeBooks | None:
    steps = pod.node_steps
    found = _tried_out(view, pod, kinds, work, spread=spread)
    is_few = len(kinds.classes) <= SHELVES_MAX
    resource, need = next(iter(pod.gpu_requests.items()), (ANY, 0))
    # A node may be over its cpu; whoever asks for none may go there all the same.
    cpu = pod.requests.get(names.CPU, 0) or LEAST
    for shelves in [kind.shelves for kind in kinds.classes] if is_few else [view.index.shelves]:
        shelf = shelves.get(resource)
        for _, (_, name) in shelf.fitting(need, cpu, spread=spread) if shelf is not None else ():
            if not work.spend(steps):
                return None
            books = _willing(view, pod, kinds, name)
            if books is not None:
                found.append((score(pod, books, spread=spread), books))
                break
    if view.index.cuts.signatures:
        found += _cut_to_order(view, pod, kinds, work, is_few=is_few, spread=spread)
    return min(found, key=lambda mark: mark[0])[1] if found else None


def _willing(view: View, pod: Pod, kinds: Kinds, name: str) -> NodeBooks | None:
    """A node that the index names, if it will do and nothing was tried out on it."""
    if name in view.changed or view.index.class_of(name) not in kinds.numbers:
        return None
    books = view.at(name)
    assert books is not None, f"{name} is on a shelf and does not exist"
    return None if first_rejection(pod, books, NODE_FILTERS) else books


def _cut_to_order(
    view: View, pod: Pod, kinds: Kinds, work: Work, *, is_few: bool, spread: bool
) -> list[tuple[Score, NodeBooks]]:
    def judge(name: str) -> tuple[Score, NodeBooks] | None:
        books = _willing(view, pod, kinds, name) if work.spend(pod.node_steps) else None
        return None if books is None else (score(pod, books, spread=spread), books)

    sets = [kind.cuts for kind in kinds.classes] if is_few else [view.index.cuts]
    return cutsearch.best(sets, pod, judge, work, spread=spread)


def _tried_out(
    view: View, pod: Pod, kinds: Kinds, work: Work, *, spread: bool
) -> list[tuple[Score, NodeBooks]]:
    """Nodes that the index knows only as they were before something was tried out on them."""
    if not view.changed or not work.spend(len(view.changed) * pod.node_steps):
        return []
    return [
        (score(pod, books, spread=spread), books)
        for name, books in view.changed.items()
        if view.index.class_of(name) in kinds.numbers
        and not first_rejection(pod, books, NODE_FILTERS)
    ]
