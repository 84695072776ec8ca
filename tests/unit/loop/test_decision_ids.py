"""A decision has one id, wherever it shows."""

from __future__ import annotations

import pytest

from scheduler.state import event as ev
from tests.builders import node, pod
from tests.unit.loop.loop_world import Stage, playing


@pytest.mark.contract("S3-22")
async def test_a_placement_is_one_id_in_journal_binding_events_and_log(
    capfd: pytest.CaptureFixture[str],
) -> None:
    async with playing(Stage()) as stage:
        stage.see(ev.NodeUpdated(node("a", gpus=4)), ev.PodUpdated(pod("m-0", map="0=a:1", gpus=1)))
        stage.sync()
        stage.confirm(await stage.binder.next())
        for _ in range(2):
            await stage.recorder.next()
    said = capfd.readouterr()

    [record] = stage.journal.newest()
    assert stage.binder.ids == [record.id]
    assert stage.recorder.ids == [record.id, record.id]
    assert f"decision={record.id}" in said.out + said.err
    assert record.end == "bound"


@pytest.mark.contract("S3-22")
async def test_a_refusal_is_one_id_in_journal_event_and_log(
    capfd: pytest.CaptureFixture[str],
) -> None:
    async with playing(Stage()) as stage:
        stage.see(ev.NodeUpdated(node("a", gpus=4)), ev.PodUpdated(pod("big", gpus=9)))
        stage.sync()
        await stage.recorder.next()
    said = capfd.readouterr()

    [record] = stage.journal.newest()
    assert stage.recorder.ids == [record.id]
    assert f"decision={record.id}" in said.out + said.err


async def test_the_state_counts_what_was_folded_into_it() -> None:
    """So that two decisions of one generation were made on the same state."""
    async with playing(Stage()) as stage:
        stage.see(ev.NodeUpdated(node("a", gpus=4)))
        stage.see(
            ev.PodUpdated(pod("big", gpus=9, created=1)),
            ev.PodUpdated(pod("one", gpus=1, created=2)),
        )
        stage.sync()
        await stage.binder.next()
        await stage.quiet()
        after = stage.loop.generation

    one, big = stage.journal.newest()
    assert (big.generation, one.generation, after) == (3, 3, 4)
