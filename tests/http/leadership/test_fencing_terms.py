"""Terms only grow: whatever became of the lease, a later leader has a later one."""

from __future__ import annotations

import pytest

from scheduler.watch.client import Client
from tests.http.leadership.election import FIRST, Candidate, Leases, running

HOUR_S = 3600


async def test_a_term_never_comes_twice_even_if_the_lease_is_deleted(
    leases: Leases, client: Client
) -> None:
    """Or a Binding of the former leader would pass as one of the next."""
    one = Candidate(client, "one")
    async with running(one):
        await one.says(True)
        async with running(two := Candidate(client, "two")):
            await two.elector.round_ended()
    leases.lease = None
    async with running(two):
        await two.says(True)

    assert (one.elector.epoch, two.elector.epoch) == (FIRST, FIRST + 1)


@pytest.mark.parametrize("is_rendered", [False, True], ids=["no-lease", "an-empty-lease"])
async def test_reinstalled_release_continues_above_the_former_terms(
    leases: Leases, client: Client, is_rendered: bool
) -> None:
    """The new replica never saw the former lease; the API server may still have its term."""
    async with running(first := Candidate(client, "one")):
        await first.says(True)
    async with running(former := Candidate(client, "two")):
        await former.outlasts()
        await former.says(True)
    leases.lease = None
    if is_rendered:
        leases.recreate()
    async with running(new := Candidate(client, "new", later_s=HOUR_S)):
        await new.says(True)

    assert (former.elector.epoch, new.elector.epoch) == (FIRST + 1, FIRST + HOUR_S)


async def test_clock_before_the_epoch_still_starts_a_term(leases: Leases, client: Client) -> None:
    """Zero is what a lease without a term counts as."""
    async with running(old := Candidate(client, "old", later_s=-10 * 365 * 24 * HOUR_S)):
        await old.says(True)

    assert old.elector.epoch == 1
