"""The replacement of a migration: a pod's annotation is a claim, and the object decides."""

from __future__ import annotations

import pytest

from scheduler.model import well_known
from scheduler.model.pods.pod import Pod
from scheduler.state.migration.tickets import MigrationPhase, OpenMigrations
from tests.builders import pod, restoring

TICKET = restoring("restore-1-00000001")


def claims(name: str, owner: str) -> Pod:
    return pod(name, owner=owner, annotations={well_known.MIGRATION: TICKET.id})


FORGED = [
    pytest.param("", id="bare"),
    pytest.param("Deployment/other@r1", id="another-owner"),
    pytest.param("Deployment/web@r2", id="another-template"),
]


@pytest.mark.parametrize("owner", FORGED)
def test_forged_claim_does_not_block_the_ticket(owner: str) -> None:
    tickets = OpenMigrations()
    tickets.upsert(TICKET)
    replacement = claims("web-y", "Deployment/web@r1")

    tickets.upsert_pod(claims("forger", owner))
    assert tickets.phase(TICKET, {}) is MigrationPhase.AWAITED

    tickets.upsert_pod(replacement)
    assert tickets.taker(TICKET) == replacement


def test_first_of_two_claimants_keeps_the_ticket() -> None:
    tickets = OpenMigrations()
    tickets.upsert(TICKET)
    first, second = (claims(f"web-{n}", "Deployment/web@r1") for n in (1, 2))
    for one in (first, second, first):
        tickets.upsert_pod(one)
    assert tickets.taker(TICKET) == first

    tickets.delete_pod(second.uid)
    assert tickets.taker(TICKET) == first

    tickets.delete_pod(first.uid)
    tickets.upsert_pod(second)
    assert tickets.taker(TICKET) == second
