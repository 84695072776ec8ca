"""Teams never evict each other without end (KUE#14543, VOL#3869)."""

from __future__ import annotations

from fractions import Fraction

from hypothesis import example, given, settings
from hypothesis import strategies as st

from bench.teams import GRACE_S, PRODUCT, WHOLE, Simulation, node_of
from scheduler.model.actions import PreemptPods
from scheduler.model.well_known import GPU, GPU_PRODUCT

GPUS = 16
STEPS = 60
amounts = st.integers(min_value=0, max_value=GPUS)
PARTS = f"{PRODUCT}-MIG-1g.10gb"
#: Whole GPUs and instances, and pods that run on any of them or on one kind only.
TWO_KINDS = [node_of("n0"), node_of("n1", PARTS)]
KINDS: tuple[dict[str, str], ...] = ({}, {GPU_PRODUCT: PRODUCT}, {GPU_PRODUCT: PARTS})


@settings(max_examples=25, deadline=None)
@given(
    guarantees=st.lists(amounts, min_size=2, max_size=4),
    demands=st.lists(st.lists(amounts, min_size=4, max_size=4), min_size=1, max_size=3),
    seed=st.integers(min_value=0, max_value=1000),
    priorities=st.sampled_from([(0,), (0, 1), (-1, 0, 5)]),
)
def test_constant_demand_ends_in_no_eviction(
    guarantees: list[int], demands: list[list[int]], seed: int, priorities: tuple[int, ...]
) -> None:
    """Mixed pending and borrowed work: after each change of demand there is a last eviction."""
    names = [f"t{at}" for at in range(len(guarantees))]
    world = Simulation(
        dict(zip(names, guarantees, strict=True)),
        GPUS // 8,
        seed,
        (1, 2, 4, 8),
        priorities,
        jobs_end=False,
    )
    _settles(world, demands)
    for action in world.taken_back:
        assert _is_within(action)


@settings(max_examples=25, deadline=None)
@given(
    quarters=st.lists(st.integers(0, 40), min_size=2, max_size=3),
    demands=st.lists(st.lists(amounts, min_size=3, max_size=3), min_size=1, max_size=3),
    seed=st.integers(min_value=0, max_value=1000),
    kinds=st.sampled_from([KINDS, KINDS[:2], KINDS[1:], KINDS[1:2]]),
)
# A team with less than a whole GPU takes one, and the other team is inside its guarantee then.
@example(quarters=[2, 30], demands=[[0, 16, 0], [16, 16, 0]], seed=0, kinds=KINDS[1:2])
def test_two_kinds_of_gpu_end_in_no_eviction(
    quarters: list[int],
    demands: list[list[int]],
    seed: int,
    kinds: tuple[dict[str, str], ...],
) -> None:
    """A pod is worth more on one node than on the other, and some run on one kind only."""
    world = Simulation(
        {f"t{at}": Fraction(count, 4) for at, count in enumerate(quarters)},
        TWO_KINDS,
        seed,
        (1, 2),
        jobs_end=False,
        selectors=kinds,
    )
    _settles(world, demands)


def _settles(world: Simulation, demands: list[list[int]]) -> None:
    names = list(world.table.teams)
    for demand in demands:
        world.set_demand({name: demand[at] for at, name in enumerate(names)})
        begin = world.now
        world.run(begin + STEPS * 5.0)
        for _ in range(4):  # every pod is decided again after some minutes
            world.retry()
            world.run(world.now + STEPS * 2.0)
        late = [at for at in world.evicted_at if at > begin + STEPS * 7.0]
        assert not late, f"evictions after the settled state: {late}"
    assert world.above_guarantee == 0


def _is_within(action: PreemptPods) -> bool:
    """What ends is at most what is asked for and one job (KAI pull request 1565)."""
    released = [one.requests[GPU] for one in action.victims]
    return sum(released) <= action.preemptor.requests[GPU] + max(released)


def test_lent_room_is_back_within_one_grace_time() -> None:
    """The way that the random demand above takes too: decisions, then their controller."""
    world = Simulation({"a": 6, "b": 4, "c": 6}, GPUS // 8, 1, (1,), jobs_end=False)
    world.set_demand({"a": 0, "b": 16, "c": 16})
    world.run(100.0)
    borrowed = world.shares()
    assert borrowed["b"] + borrowed["c"] == GPUS

    world.set_demand({"a": 9, "b": 16, "c": 16})
    world.run(400.0)

    victims = [one for action in world.taken_back for one in action.victims]
    assert {action.preemptor.namespace for action in world.taken_back} == {"a"}
    assert len(world.evicted_at) == len(victims) == 6
    assert world.shares()["a"] == 6
    assert world.entitled_wait_max_s == GRACE_S
    assert max(world.evicted_at) <= 110.0, "nothing ends afterwards"


@settings(max_examples=25, deadline=None)
@given(guarantees=st.lists(amounts, min_size=1, max_size=6), seed=st.integers(0, 100))
def test_guarantees_together_never_exceed_the_cluster(guarantees: list[int], seed: int) -> None:
    """KAI#1750: quotas above the cluster."""
    names = [f"t{at}" for at in range(len(guarantees))]
    world = Simulation(dict(zip(names, guarantees, strict=True)), GPUS // 8, seed)
    teams = world.cluster.teams
    entitled = [teams.guarantee(one) for one in world.table.teams.values()]

    assert sum(one.slices for one in entitled) <= GPUS * WHOLE.slices
    assert sum(one.mib for one in entitled) <= GPUS * WHOLE.mib
