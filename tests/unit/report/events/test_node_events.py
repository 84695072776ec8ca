"""A node's configuration error is reported once, by the leader, until it changes."""

from __future__ import annotations

from scheduler.model.actions import RecordNodeEvent
from scheduler.model.node import Node
from scheduler.report.events.node_events import NodeEvents
from scheduler.state import event as ev
from tests.builders import node

LABELS = {"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB"}
FOUR = "mig-configs.selected[0]: 4 x 2g.20gb do not fit on one A100-80"
FIVE = "mig-configs.selected[0]: 5 x 2g.20gb do not fit on one A100-80"


def cut_into(count: int, name: str = "n1", cpu: str = "8") -> Node:
    text = (
        "mig-configs: {selected: [{devices: [0], mig-enabled: true,"
        f" mig-devices: {{2g.20gb: {count}}}}}]}}"
    )
    return node(name, labels=LABELS, annotations={"run.ai/mig.config": text}, cpu=cpu)


def told(*events: ev.Event | None) -> list[tuple[str, str, str]]:
    """What was recorded after these events; None is a tick of the leader."""
    notes = NodeEvents()
    said: list[tuple[str, str, str]] = []
    for event in events:
        if event is not None:
            assert notes.handle(event, 0.0) == ()
            continue
        for effect in notes.tick(0.0, leads=True):
            assert isinstance(effect, RecordNodeEvent)
            said.append((effect.node.name, effect.reason, effect.text))
    assert notes.tick(0.0, leads=False) == ()
    return said


def line(text: str, name: str = "n1") -> tuple[str, str, str]:
    return (name, "MigConfigInvalid", f"run.ai/mig.config {text}")


def test_node_config_error_is_reported_once() -> None:
    again = ev.NodeUpdated(cut_into(4, cpu="9"))
    assert told(ev.NodeUpdated(cut_into(4)), None, again, None) == [line(FOUR)]


def test_events_wait_for_leadership_and_none_is_lost() -> None:
    listed = ev.NodesReplaced((cut_into(4), cut_into(3, "n2"), cut_into(5, "n3")))
    assert told(listed) == []
    assert told(listed, None) == [line(FOUR), line(FIVE, "n3")]


def test_changed_or_recurring_config_error_is_reported_again() -> None:
    flawed, mended = ev.NodeUpdated(cut_into(4)), ev.NodeUpdated(cut_into(3))
    assert told(flawed, None, ev.NodeUpdated(cut_into(5)), None) == [line(FOUR), line(FIVE)]
    assert told(flawed, None, mended, None, flawed, None) == [line(FOUR), line(FOUR)]
    assert told(flawed, mended, None) == []


def test_deleted_node_gets_no_event_and_returns_as_a_new_one() -> None:
    flawed, gone = ev.NodeUpdated(cut_into(4)), ev.NodeDeleted("n1")
    assert told(flawed, gone, None) == []
    assert told(flawed, None, gone, flawed, None) == [line(FOUR), line(FOUR)]
