"""Leader election on a lease that a real server would keep: conflicts, silence, stepping down."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from aiohttp import web
from structlog.testing import capture_logs

from scheduler.controllers.leadership.elector import MARGIN_S
from scheduler.watch.client import Client
from tests.http.fakeapi import FakeApi, failure, reset
from tests.http.leadership.election import (
    FIRST,
    LEASE,
    LEASES,
    TIMINGS,
    Candidate,
    Leases,
    running,
)
from tests.patience import PATIENCE_S


async def test_first_candidate_creates_and_keeps_the_lease(leases: Leases, client: Client) -> None:
    one = Candidate(client, "one")
    async with running(one):
        await one.says(True)
        await leases.written()
        await leases.written()

        assert one.elector.leads()
        assert one.elector.epoch == FIRST
    assert leases.writes[0] == {
        "holderIdentity": "one",
        "leaseDurationSeconds": 60,
        "acquireTime": "2026-11-27T00:00:03.000000Z",
        "renewTime": "2026-11-27T00:00:03.000000Z",
        "leaseTransitions": FIRST,
    }
    assert leases.spec["holderIdentity"] == "one", "ending does not give it back"


@pytest.mark.contract("S2-B12")
async def test_exactly_one_of_two_candidates_leads(leases: Leases, client: Client) -> None:
    one, two = (Candidate(client, name) for name in ("one", "two"))
    async with running(one, two):
        for _ in range(30):
            await leases.written()
            assert not (one.elector.leads() and two.elector.leads())

        leaders = [c for c in (one, two) if c.elector.leads()]
        assert [leases.spec["holderIdentity"]] == [
            "one" if leader is one else "two" for leader in leaders
        ]
    holders = {spec["holderIdentity"] for spec in leases.writes}
    assert len(holders) == 1, "a lease that is renewed never changes hands"


@pytest.mark.contract("S2-B12")
async def test_a_standby_takes_over_from_a_dead_leader_with_a_new_term(
    leases: Leases, client: Client
) -> None:
    one, two = Candidate(client, "one"), Candidate(client, "two")
    async with running(one):
        await one.says(True)
    async with running(two):
        await two.outlasts()
        await two.says(True)

    assert (one.elector.epoch, two.elector.epoch) == (FIRST, FIRST + 1)
    assert leases.spec["leaseTransitions"] == FIRST + 1


async def test_released_lease_is_taken_at_once(leases: Leases, client: Client) -> None:
    one, two = (Candidate(client, name) for name in ("one", "two"))
    async with running(one):
        await one.says(True)
        one.elector.stop_leading()
        assert not one.elector.leads()
        assert leases.spec["holderIdentity"] == "one", "kept until everything sent has ended"
    await one.elector.release()
    assert leases.spec["holderIdentity"] == ""
    async with running(two):
        await two.says(True)

    assert leases.spec["leaseTransitions"] == FIRST + 1


async def test_stopped_leader_stays_stopped_although_it_renews(
    leases: Leases, client: Client
) -> None:
    one = Candidate(client, "one")
    async with running(one):
        await one.says(True)
        one.elector.stop_leading()
        await leases.written()
        await leases.written()

        assert not one.elector.leads()
        assert one.announced[-1] is False


async def test_only_the_holder_releases_the_lease(leases: Leases, client: Client) -> None:
    one, two = Candidate(client, "one"), Candidate(client, "two")
    async with running(one, two):
        await asyncio.wait_for(leases.written(), PATIENCE_S)
    leader = one if leases.spec["holderIdentity"] == "one" else two
    other = two if leader is one else one
    before = len(leases.writes)
    await other.elector.release()
    assert len(leases.writes) == before

    assert leases.lease is not None
    leases.lease["spec"]["holderIdentity"] = "third"
    await leader.elector.release()
    assert leases.spec["holderIdentity"] == "third"


async def test_renewal_counts_from_the_time_before_its_request(
    api: FakeApi, client: Client
) -> None:
    """The answer came so late that the lease, as others see it, is all but over."""
    leases = Leases(api)
    one = Candidate(client, "one")

    async def slowly(request: web.Request) -> web.StreamResponse:
        one.shift_s += TIMINGS.renew_deadline_s
        return await (leases.create if request.method == "POST" else leases.update)(request)

    api.script(f"POST {LEASES}", slowly)
    api.script(f"PUT {LEASE}", slowly)
    async with running(one):
        for _ in range(3):
            await leases.written()

    assert one.announced == [False]


async def test_a_leader_that_cannot_renew_steps_down_before_its_deadline(
    api: FakeApi, leases: Leases, client: Client
) -> None:
    """And takes up its own lease at once when the server is back."""
    one = Candidate(client, "one")
    async with running(one):
        await one.says(True)
        api.script(f"PUT {LEASE}", failure(503))
        await one.elector.round_ended()
        assert one.announced == [False, True]
        one.shift_s = TIMINGS.renew_deadline_s - MARGIN_S
        await one.says(False)

        api.script(f"PUT {LEASE}", leases.update)
        await one.says(True)
    assert (one.elector.epoch, leases.spec["leaseTransitions"]) == (FIRST, FIRST)
    assert one.announced == [False, True, False, True]


async def test_leadership_ends_a_margin_before_the_renew_deadline(
    leases: Leases, client: Client
) -> None:
    one = Candidate(client, "one")
    async with running(one):
        await one.says(True)
    one.shift_s = TIMINGS.renew_deadline_s - 10 * MARGIN_S
    assert one.elector.leads()
    one.shift_s = TIMINGS.renew_deadline_s - MARGIN_S

    assert not one.elector.leads()


async def test_leadership_expires_without_an_answer(leases: Leases, client: Client) -> None:
    """Nothing else has to run for it: the clock alone decides."""
    one = Candidate(client, "one")
    async with running(one):
        await one.says(True)
    assert one.elector.leads()
    one.shift_s = TIMINGS.renew_deadline_s

    assert not one.elector.leads()


async def test_conflict_means_that_another_candidate_won(
    api: FakeApi, leases: Leases, client: Client
) -> None:
    one = Candidate(client, "one")
    async with running(one):
        await one.says(True)
        api.script(f"PUT {LEASE}", failure(409, "Conflict"))
        await one.says(False)


@pytest.mark.parametrize("answer", [failure(500), reset], ids=["500", "reset"])
async def test_one_failed_renewal_keeps_leadership(
    api: FakeApi, leases: Leases, client: Client, answer: Any
) -> None:
    one = Candidate(client, "one")
    async with running(one):
        await one.says(True)
        api.script(f"PUT {LEASE}", answer, leases.update)
        await leases.written()

        assert one.announced == [False, True]


async def test_a_lease_that_was_deleted_is_made_again(leases: Leases, client: Client) -> None:
    one = Candidate(client, "one")
    async with running(one):
        await one.says(True)
        leases.lease = None
        await leases.written()

    assert leases.spec["holderIdentity"] == "one"


async def test_without_election_it_leads_and_touches_no_lease(
    api: FakeApi, leases: Leases, client: Client
) -> None:
    one = Candidate(client, "one", enabled=False)
    async with running(one):
        await one.says(True)
        one.elector.stop_leading()
        assert not one.elector.leads()
        await one.elector.release()

    assert (api.seen, one.elector.epoch) == ([], None)


async def test_foreign_lease_fields_are_kept(leases: Leases, client: Client) -> None:
    one = Candidate(client, "one")
    leases.lease = {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {
            "name": "gpu-scheduler",
            "namespace": "system",
            "resourceVersion": "0",
            "annotations": {"a": "b"},
            "labels": {"c": "d"},
        },
        "spec": {"holderIdentity": ""},
    }
    async with running(one):
        await one.says(True)

    assert leases.lease is not None
    assert leases.lease["metadata"]["annotations"] == {"a": "b"}
    assert leases.lease["metadata"]["labels"] == {"c": "d"}
    assert leases.lease["kind"] == "Lease"


def address_on(leases: Leases) -> str | None:
    assert leases.lease is not None
    found = leases.lease["metadata"].get("annotations") or {}
    return found.get("gpu-scheduler.io/leader-address")


async def test_a_standby_learns_where_the_leader_answers(leases: Leases, client: Client) -> None:
    one, two = (Candidate(client, n, address=f"{n}:8444") for n in ("one", "two"))
    async with running(one):
        await one.says(True)
        async with running(two):
            await two.elector.round_ended()

            assert (one.elector.leader_address, two.elector.leader_address) == ("", "one:8444")
    async with running(two):
        await two.outlasts()
        await two.says(True)

        assert two.elector.leader_address == "", "a leader is no peer of itself"
        assert address_on(leases) == "two:8444"


async def test_standby_logs_once_which_leader_it_follows(leases: Leases, client: Client) -> None:
    one, two = Candidate(client, "one"), Candidate(client, "two")
    async with running(one):
        await one.says(True)
        with capture_logs() as lines:
            async with running(two):
                for _ in range(3):
                    await two.elector.round_ended()
    assert [line["holder"] for line in lines] == ["one"]


async def test_leader_address_ends_with_its_leader(leases: Leases, client: Client) -> None:
    """Released, or taken over by a replica without an address."""
    one, two = Candidate(client, "one", address="one:8444"), Candidate(client, "two")
    async with running(one):
        await one.says(True)
        assert address_on(leases) == "one:8444"
    async with running(two):
        await two.outlasts()
        await two.says(True)
        assert address_on(leases) is None
    again = Candidate(client, "one", address="one:8444")
    async with running(again):
        await again.outlasts()
        await again.says(True)
    await again.elector.release()

    assert address_on(leases) is None
