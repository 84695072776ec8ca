"""Random groups that do not all fit, with refused Bindings and deleted pods, on a real API server.

In ``make nightly`` 50 groups of 2 to 40 pods.
"""

from __future__ import annotations

import logging
import random
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

import pytest

from scheduler.state.queue.backoff import BACKOFF_MAX_S
from tests.controlplane.conftest import MakeNode
from tests.controlplane.group_course import (
    Cluster,
    Group,
    Halves,
    group_of,
    members,
    random_groups,
)
from tests.controlplane.refused_binding import refused_bindings
from tests.controlplane.workloads import Json, Watcher, node_of, why
from tests.patience import SLOW_MACHINE
from tools.controlplane import ControlPlane

GPUS: Final = 8
SEED: Final = 1850
#: Of the room that an offline packing uses.
USED_SHARE: Final = 0.95
figures = logging.getLogger("figures")


class Size(NamedTuple):
    groups: int
    largest: int
    nodes: int
    refused: int
    deleted: int


SIZES: Final = [
    pytest.param(Size(groups=12, largest=12, nodes=7, refused=2, deleted=6), id="12"),
    pytest.param(
        Size(groups=50, largest=40, nodes=80, refused=8, deleted=60),
        id="50",
        marks=[pytest.mark.nightly, pytest.mark.timeout(900)],
    ),
]


class Course:
    """The groups of one test, and the waits in which every list of the pods is judged."""

    def __init__(self, here: Watcher, nodes: list[str], groups: list[Group]) -> None:
        self._here = here
        self.groups = {one.name: one for one in groups}
        self.cluster = Cluster(nodes, GPUS)
        self.halves = Halves(self.groups)

    def wait(self, what: str, check: Callable[[list[Json]], bool]) -> list[Json]:
        """Wait until the pods are as wanted."""

        def seen(items: list[Json]) -> bool:
            self.halves.see(items)
            return check(items)

        return self._here.wait(what, seen)

    def settle(self, *, except_for: frozenset[str] = frozenset()) -> list[Json]:
        """Wait until no group that waits has room."""
        return self.wait(
            "groups that wait to have no room",
            lambda items: {*self.cluster.startable(self.groups, items)} <= except_for,
        )

    def check_room(self, items: list[Json]) -> None:
        """The room in use is nearly that of an offline packing."""
        used, packed = self.cluster.used(items), self.cluster.packed(self.groups, items, SEED)
        figures.info("%d GPUs in use, %d in an offline packing", used, packed)
        assert used >= USED_SHARE * packed

    def create(self, bodies: list[Json]) -> None:
        """Create pods, in this order."""
        with self._here.client.kept() as client:
            for body in bodies:
                client.create(self._here.pods_path, body)

    def delete(self, names: list[str]) -> None:
        """Delete pods."""
        with self._here.client.kept() as client:
            for name in names:
                client.delete(self._here.path("Pod", name))


def first_complete(bodies: list[Json], groups: dict[str, Group]) -> Iterator[str]:
    """The members with which the groups become complete, in this order."""
    seen: Counter[str] = Counter()
    for body in bodies:
        name = group_of(body)
        seen[name] += 1
        if seen[name] == groups[name].minimum:
            yield body["metadata"]["name"]


def delete_some(course: Course, rng: random.Random, items: list[Json], count: int) -> None:
    """Delete random pods; most of them are replaced, as by a controller."""
    chosen = rng.sample(items, count)
    course.halves.excused |= {group_of(item) for item in chosen if node_of(item)}
    course.delete([item["metadata"]["name"] for item in chosen])
    course.create(
        [
            course.groups[group_of(item)].member(number, "-again")
            for number, item in enumerate(chosen)
            if rng.random() < 0.7
        ]
    )


def end_all(course: Course, items: list[Json]) -> list[Json]:
    """All groups that run end; returns the pods that are left."""
    running = {name for name, (bound, _) in members(items).items() if bound}
    names = {item["metadata"]["name"] for item in items if group_of(item) in running}
    course.delete(sorted(names))
    course.wait(
        "ended pods to be gone",
        lambda seen: not names & {item["metadata"]["name"] for item in seen},
    )
    return course.settle()


@pytest.mark.parametrize("size", SIZES)
def test_random_groups_are_bound_as_wholes_despite_faults(
    cp: ControlPlane, here: Watcher, kwok_node: MakeNode, size: Size
) -> None:
    rng = random.Random(SEED)
    nodes = [kwok_node(f"crowd-{number}", gpus=GPUS) for number in range(size.nodes)]
    course = Course(here, nodes, random_groups(rng, size.groups, size.largest))
    bodies = [one.member(rank) for one in course.groups.values() for rank in range(one.size)]
    rng.shuffle(bodies)
    refused = list(first_complete(bodies, course.groups))[: size.refused]
    course.halves.excused = {name.rpartition("-")[0] for name in refused}
    with refused_bindings(here, refused, nodes[0]):
        course.create(bodies)
        course.wait(
            "refused Bindings",
            lambda items: (
                len(items) == len(bodies)
                and all("binding failed" in why(one) for one in items if named(one, refused))
            ),
        )
        items = course.settle(except_for=frozenset(course.halves.excused))
        others = [item for item in items if not named(item, refused)]
        delete_some(course, rng, others, size.deleted)
    course.halves.excused -= {name.rpartition("-")[0] for name in refused}

    items = course.settle()
    course.check_room(items)
    while course.cluster.complete(course.groups, items):
        assert course.cluster.used(items), "a group that fits an empty cluster waits"
        items = end_all(course, items)
        course.check_room(items)
    figures.info("a group was bound in part for %.1f s at most", course.halves.longest_s)
    assert course.halves.longest_s < BACKOFF_MAX_S * SLOW_MACHINE


def named(item: Json, names: list[str]) -> bool:
    """Whether a pod is one of these."""
    return item["metadata"]["name"] in names
