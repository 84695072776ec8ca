"""Random groups that do not all fit, with refused Bindings and deleted pods, on a real API server.

In ``make nightly``: 12 small groups, and 50 of 2 to 40 pods.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

import pytest

from scheduler.controllers.gangs.held_places import HELD_S
from scheduler.state.queue.backoff import ERROR_BACKOFF_MAX_S
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
from tools.controlplane import ControlPlane
from tools.product import Product

GPUS: Final = 16
#: Of the room that an offline packing uses.
USED_SHARE: Final = 0.95
#: Seconds for which the first group that does not fit keeps others from the room.
RESERVE_S: Final = 2.0
figures = logging.getLogger("figures")


class Size(NamedTuple):
    seed: int
    groups: int
    largest: int
    nodes: int
    refused: int
    deleted: int


pytestmark = [pytest.mark.nightly, pytest.mark.timeout(900)]
SIZES: Final = [
    pytest.param(Size(1850, groups=12, largest=12, nodes=4, refused=2, deleted=6), id="12"),
    pytest.param(Size(1850, groups=50, largest=40, nodes=40, refused=8, deleted=60), id="50"),
    pytest.param(Size(1851, groups=50, largest=40, nodes=40, refused=8, deleted=60), id="50-other"),
]


@pytest.fixture(scope="module")
def product(cp: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Product]:
    config = {"gang": {"reserveSeconds": RESERVE_S}}
    with Product(cp, tmp_path_factory.mktemp("product"), config=config) as running:
        yield running


class Course:
    """The groups of one test, and the waits in which every list of the pods is judged."""

    def __init__(self, here: Watcher, nodes: list[str], groups: list[Group], seed: int) -> None:
        self._here = here
        self._seed = seed
        self._bound: set[str] = set()
        self.groups = {one.name: one for one in groups}
        self.cluster = Cluster(nodes, GPUS)
        self.halves = Halves(self.groups)

    def wait(
        self, what: str, check: Callable[[list[Json]], bool], timeout_s: float = 60.0
    ) -> list[Json]:
        """Wait until the pods are as wanted."""

        def seen(items: list[Json]) -> bool:
            self.halves.see(items)
            self._bound |= {item["metadata"]["uid"] for item in items if node_of(item)}
            return check(items)

        return self._here.wait(what, seen, timeout_s=timeout_s)

    def settle(self) -> list[Json]:
        """Wait until no group that waits has room. A refused member may keep a place for a minute
        although the others of its group have none.
        """
        return self.wait(
            "groups that wait to have no room",
            lambda items: not self.cluster.startable(self.groups, items),
            timeout_s=HELD_S + 30.0,
        )

    def check_room(self, items: list[Json]) -> None:
        """The room in use is nearly that of an offline packing."""
        used, packed = self.cluster.used(items), self.cluster.packed(self.groups, items, self._seed)
        figures.info("%d GPUs in use, %d in an offline packing", used, packed)
        assert used >= USED_SHARE * packed

    def report(self) -> None:
        """Print what a person compares."""
        text = "%d groups, %d pods bound; a group was bound in part for %.1f s at most"
        figures.info(text, len(self.groups), len(self._bound), self.halves.longest_s)

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


def name_of(item: Json) -> str:
    """The name of a pod."""
    return str(item["metadata"]["name"])


def delete_some(course: Course, rng: random.Random, items: list[Json], count: int) -> None:
    """Delete random pods; most of them are replaced, as by a controller."""
    chosen = rng.sample(items, count)
    course.halves.excused |= {group_of(item) for item in chosen if node_of(item)}
    course.delete([name_of(item) for item in chosen])
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
    names = {name_of(item) for item in items if group_of(item) in running}
    course.delete(sorted(names))
    course.wait(
        "ended pods to be gone",
        lambda seen: not names & {name_of(item) for item in seen},
    )
    return course.settle()


@pytest.mark.parametrize("size", SIZES)
def test_random_groups_are_bound_as_wholes_despite_faults(
    cp: ControlPlane, here: Watcher, kwok_node: MakeNode, size: Size
) -> None:
    rng = random.Random(size.seed)
    nodes = [kwok_node(f"crowd-{number}", gpus=GPUS) for number in range(size.nodes)]
    course = Course(here, nodes, random_groups(rng, size.groups, size.largest), size.seed)
    whole = [one for one in course.groups.values() if one.minimum == one.size][: size.refused]
    refused = {f"{one.name}-{one.size - 1}" for one in whole}
    others = [one for one in course.groups.values() if one not in whole]
    bodies = [one.member(rank) for one in others for rank in range(one.size)]
    rng.shuffle(bodies)
    with refused_bindings(here, sorted(refused), nodes[0]):
        course.create([one.member(rank) for one in whole for rank in range(one.size)])
        course.wait(
            "refused Bindings",
            lambda items: (
                {name_of(one) for one in items if "binding failed" in why(one)} >= refused
            ),
        )
    # The refused members wait for their next attempt, and their groups run in part.
    course.create(bodies)
    items = course.wait(
        "all pods", lambda items: len(items) == sum(one.size for one in course.groups.values())
    )
    delete_some(course, rng, [one for one in items if name_of(one) not in refused], size.deleted)

    items = course.settle()
    course.check_room(items)
    while course.cluster.complete(course.groups, items):
        assert course.cluster.used(items), "a group that fits an empty cluster waits"
        items = end_all(course, items)
        course.check_room(items)
    course.report()
    assert course.halves.longest_s < ERROR_BACKOFF_MAX_S
