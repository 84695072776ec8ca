"""Packed pods: the best-fitting node, found through the index, or by a scan where that is blind.

Both ways give the same node; a property test compares them on random clusters. The scan also
explains a rejection, node by node.
"""

from __future__ import annotations

from collections.abc import Iterable

from scheduler.decide.budget import Budget, is_light
from scheduler.decide.filters import CLASS_FILTERS, NODE_FILTERS, first_rejection
from scheduler.decide.mig import instance_search, node_search
from scheduler.decide.mig.instance_plan import positioned
from scheduler.decide.scores import Score, preference, score
from scheduler.decide.view import View
from scheduler.model import well_known
from scheduler.model.device import Devices
from scheduler.model.mig import layout
from scheduler.model.pod import Pod
from scheduler.model.reason import Diagnosis, Reason
from scheduler.state.index.capacity_bucket import LEAST
from scheduler.state.index.filter_cache import Check
from scheduler.state.index.node_index import ANY, NodeClass, RankedClasses
from scheduler.state.node_info import NodeInfo

#: With up to this many classes each one's own shelf is read; beyond, the shelf of all nodes.
SHELVES_MAX = 8


def find(view: View, pod: Pod, work: Budget, *, spread: bool) -> NodeInfo | None:
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


def _kinds(view: View, pod: Pod) -> tuple[RankedClasses, ...]:
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
    if signatures and len(profiles := instance_search.wanted(pod)) > 1:
        for one in signatures:
            if steps > most:
                break
            steps += instance_search.searched(layout.BOARDS[one.board], one.layouts, profiles).steps
    return steps


def devices(pod: Pod, node_info: NodeInfo) -> Devices:
    """What a packed pod gets on a node where it fits: the lowest free indexes, or a count."""
    assert node_info.node is not None
    numbers: tuple[int, ...] = ()
    counts = dict(pod.gpu_requests)
    if node_info.node.is_numbered and well_known.GPU in counts:
        numbers = node_info.free_numbers()[: counts.pop(well_known.GPU)]
        assert len(numbers) == pod.requests[well_known.GPU], "free count and free numbers disagree"
    given = tuple((node_info.node.unit(name), n) for name, n in sorted(counts.items()))
    return positioned(pod, node_info, Devices(numbers, given))


def diagnosis(view: View, pod: Pod) -> Diagnosis | None:
    """Why every node says no, or None where one does not."""
    check = _checker(view, pod)
    verdict = view.verdicts.of(pod.kind, check) if is_light(pod) else view.verdicts.once(check)
    return verdict.diagnosis({name: check(node_info) for name, node_info in view.changed.items()})


def is_hopeless(view: View, pod: Pod) -> bool:
    """Whether every node says no, even without what was tried out."""
    return view.verdicts.of(pod.kind, _checker(view, pod)).is_hopeless


def _checker(view: View, pod: Pod) -> Check:
    """What any node says to the pod; nodes of one class are asked once about what they share."""
    if not _is_covered(view, pod):
        return lambda node_info: first_rejection(pod, node_info)
    by_class: dict[int, tuple[Reason, ...]] = {}

    def check(node_info: NodeInfo) -> tuple[Reason, ...]:
        assert node_info.node is not None
        number = view.index.class_of(node_info.node.name)
        reasons = by_class.get(number)
        if reasons is None:
            reasons = by_class[number] = first_rejection(pod, node_info, CLASS_FILTERS)
        return reasons or first_rejection(pod, node_info, NODE_FILTERS)

    return check


def _is_covered(view: View, pod: Pod) -> bool:
    """Whether the classes of the index decide about the pod's labels and taints."""
    return not pod.names_nodes and view.index.covers(pod.label_keys)


def scan(
    candidates: Iterable[NodeInfo], pod: Pod, work: Budget, *, spread: bool
) -> tuple[NodeInfo | None, dict[str, tuple[Reason, ...]]]:
    """The best of these nodes, and why each of the others was rejected; no node is the best once
    ``work`` is over."""
    rejected: dict[str, tuple[Reason, ...]] = {}
    best: tuple[Score, NodeInfo] | None = None
    steps = pod.label_steps + pod.node_steps
    for node_info in candidates:
        if not work.spend(steps):
            return None, rejected
        reasons = first_rejection(pod, node_info, CLASS_FILTERS)
        if not reasons:
            _count_search(pod, node_info, work)
            reasons = first_rejection(pod, node_info, NODE_FILTERS)
        if reasons:
            assert node_info.node is not None
            rejected[node_info.node.name] = reasons
            continue
        mark = score(pod, node_info, spread=spread)
        if best is None or mark < best[0]:
            best = (mark, node_info)
    return (best[1] if best else None), rejected


def _count_search(pod: Pod, node_info: NodeInfo, work: Budget) -> None:
    """Count the search for room for several instances, once where GPUs are held alike.

    Each search is bounded by itself, so the last one may be one too many.
    """
    if node_info.gpus is not None and len(profiles := instance_search.wanted(pod)) > 1:
        signature = node_info.gpus.signature
        found = instance_search.searched(node_info.gpus.board, signature, profiles)
        work.once((node_info.gpus.board.name, signature), found.steps)


def _narrowed(view: View, pod: Pod) -> Iterable[NodeInfo]:
    """The nodes that a selector on a wide label (a host name, say) leaves; else all."""
    for key, value in pod.node_selector.items():
        found = view.index.with_value(key, value)
        if found is not None:
            return [node_info for name in sorted(found) if (node_info := view.at(name)) is not None]
    return view.candidates()


def _sort(pod: Pod, classes: Iterable[NodeClass]) -> tuple[RankedClasses, ...]:
    """The classes that pass the filters of labels and taints, most liked first."""
    liked: dict[int, list[NodeClass]] = {}
    for kind in classes:
        sample = NodeInfo(kind.sample)
        if not first_rejection(pod, sample, CLASS_FILTERS):
            liked.setdefault(preference.dislike(pod, kind.sample), []).append(kind)
    return tuple(
        RankedClasses(dislike, tuple(kinds), frozenset(kind.number for kind in kinds))
        for dislike, kinds in sorted(liked.items())
    )


def _best_of(
    view: View, pod: Pod, kinds: RankedClasses, work: Budget, *, spread: bool
) -> NodeInfo | None:
    steps = pod.node_steps
    found = _tried_out(view, pod, kinds, work, spread=spread)
    is_few = len(kinds.classes) <= SHELVES_MAX
    resource, need = next(iter(pod.gpu_requests.items()), (ANY, 0))
    # A node may be over its cpu; whoever asks for none may go there all the same.
    cpu = pod.requests.get(well_known.CPU, 0) or LEAST
    for shelves in [kind.shelves for kind in kinds.classes] if is_few else [view.index.shelves]:
        shelf = shelves.get(resource)
        for _, (_, name) in shelf.fitting(need, cpu, spread=spread) if shelf is not None else ():
            if not work.spend(steps):
                return None
            node_info = _willing(view, pod, kinds, name)
            if node_info is not None:
                found.append((score(pod, node_info, spread=spread), node_info))
                break
    if view.index.cuts.signatures:
        found += _cut_to_order(view, pod, kinds, work, is_few=is_few, spread=spread)
    return min(found, key=lambda mark: mark[0])[1] if found else None


def _willing(view: View, pod: Pod, kinds: RankedClasses, name: str) -> NodeInfo | None:
    """A node that the index names, if it will do and nothing was tried out on it."""
    if name in view.changed or view.index.class_of(name) not in kinds.numbers:
        return None
    node_info = view.at(name)
    assert node_info is not None, f"{name} is on a shelf and does not exist"
    return None if first_rejection(pod, node_info, NODE_FILTERS) else node_info


def _cut_to_order(
    view: View, pod: Pod, kinds: RankedClasses, work: Budget, *, is_few: bool, spread: bool
) -> list[tuple[Score, NodeInfo]]:
    def judge(name: str) -> tuple[Score, NodeInfo] | None:
        node_info = _willing(view, pod, kinds, name) if work.spend(pod.node_steps) else None
        return None if node_info is None else (score(pod, node_info, spread=spread), node_info)

    sets = [kind.cuts for kind in kinds.classes] if is_few else [view.index.cuts]
    return node_search.best(sets, pod, judge, work, spread=spread)


def _tried_out(
    view: View, pod: Pod, kinds: RankedClasses, work: Budget, *, spread: bool
) -> list[tuple[Score, NodeInfo]]:
    """Nodes that the index knows only as they were before something was tried out on them."""
    if not view.changed or not work.spend(len(view.changed) * pod.node_steps):
        return []
    return [
        (score(pod, node_info, spread=spread), node_info)
        for name, node_info in view.changed.items()
        if view.index.class_of(name) in kinds.numbers
        and not first_rejection(pod, node_info, NODE_FILTERS)
    ]
