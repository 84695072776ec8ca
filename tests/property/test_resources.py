"""What holds for the effective requests of every pod."""

from __future__ import annotations

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from scheduler.model import resources
from scheduler.model.gpu.cuda_env import ContainerGpus, devices_needed

amounts = st.dictionaries(st.sampled_from(["cpu", "gpu", "memory"]), st.integers(0, 5))
apps = st.lists(amounts, max_size=4)
init = st.lists(st.tuples(amounts, st.booleans()), max_size=4)


@given(apps, init)
def test_no_container_is_larger_than_its_pod(
    regular: list[dict[str, int]], before: list[tuple[dict[str, int], bool]]
) -> None:
    whole = resources.effective(regular, before)

    for one in (*regular, *(requests for requests, _ in before)):
        assert all(whole[resource] >= value for resource, value in one.items())


@given(apps, init, st.randoms())
def test_the_order_of_app_containers_does_not_matter(
    regular: list[dict[str, int]], before: list[tuple[dict[str, int], bool]], chance: Random
) -> None:
    shuffled = sorted(regular, key=lambda _: chance.random())

    assert resources.effective(shuffled, before) == resources.effective(regular, before)


@given(apps, init, amounts)
def test_a_further_container_never_makes_a_pod_smaller(
    regular: list[dict[str, int]],
    before: list[tuple[dict[str, int], bool]],
    more: dict[str, int],
) -> None:
    whole = resources.effective(regular, before)

    for larger in (
        resources.effective([*regular, more], before),
        resources.effective(regular, [*before, (more, True)]),
        resources.effective(regular, [*before, (more, False)]),
    ):
        assert all(larger[resource] >= value for resource, value in whole.items())


@given(apps, init)
def test_requests_and_shares_agree_on_how_many_devices_a_pod_holds(
    regular: list[dict[str, int]], before: list[tuple[dict[str, int], bool]]
) -> None:
    """The ledger counts by the one, the environment is divided by the other."""
    wants = [ContainerGpus(one.get("gpu", 0), not is_sidecar) for one, is_sidecar in before]
    wants += [ContainerGpus(one.get("gpu", 0)) for one in regular]

    assert resources.effective(regular, before).get("gpu", 0) == devices_needed(wants)
