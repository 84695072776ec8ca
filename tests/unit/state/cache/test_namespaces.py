"""Namespaces: a change requeues the pods that wait in it."""

from __future__ import annotations

from scheduler.model.reasons.reason import RequeueCause
from scheduler.state import event as ev
from scheduler.state.fold import fold
from tests.builders import cluster, namespace


def test_changed_namespace_requeues_its_pods() -> None:
    state = cluster()
    allowed = namespace("team", maps=True)

    assert state.upsert_namespace(allowed) == [ev.ClusterEvent(RequeueCause.NAMESPACE, "team")]
    assert state.upsert_namespace(allowed) == []
    assert state.namespace("team") == allowed
    assert state.namespace("unknown").labels == {}


def test_a_namespace_that_is_gone_is_forgotten() -> None:
    state = cluster(namespace("one", maps=True), namespace("two", maps=True))
    fold(state, ev.NamespaceDeleted("one"))
    assert state.namespace("one").labels == {}

    fold(state, ev.NamespacesReplaced((namespace("three"),)))
    assert list(state.namespaces.known) == ["three"]
