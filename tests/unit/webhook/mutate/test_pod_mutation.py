"""Which pods are reviewed, what is refused, and what only the webhook may write."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler.model import well_known
from scheduler.model.admission import AdmissionDecision, Scope
from tests.unit.webhook.pods import (
    CONFIG,
    MIG_2G,
    answer,
    container,
    environment,
    gpus,
    patched,
    pod,
    rewrite,
    run,
)
from webhook.mutate.json_patch import apply
from webhook.mutate.pod_mutation import Outcome, PodMutation, Request

MAP = "0=gpu-a:0,1"
SCOPES: tuple[Scope, ...] = ("ours", "any")


@pytest.mark.contract("S2-14", "S0-20")
@pytest.mark.parametrize("scope", ["ours", "any"])
@pytest.mark.parametrize(
    "body",
    [
        pytest.param(pod(map_text=MAP, schedulerName="default-scheduler"), id="other-scheduler"),
        pytest.param(pod(map_text="x", schedulerName=None), id="no-scheduler"),
        pytest.param({}, id="empty-object"),
        pytest.param({"metadata": None, "spec": None}, id="nulls"),
        pytest.param({"metadata": [], "spec": "x"}, id="odd-types"),
    ],
)
def test_a_pod_out_of_scope_is_never_changed(body: Any, scope: Any) -> None:
    """Not even a bad map is our business there."""
    assert run(body, answer(), scope) == Outcome()


@pytest.mark.contract("S0-20")
def test_each_path_ignores_pods_of_the_other_path() -> None:
    """Ours are reviewed by /mutate, all others by /mutate/fallback, none by both."""
    ours = pod(container(limits={MIG_2G: "1"}))
    foreign = pod(container(limits={MIG_2G: "1"}), schedulerName="default-scheduler")
    said = answer(rewrites=[rewrite()])

    changed = [bool(run(body, said, scope).patch) for body in (ours, foreign) for scope in SCOPES]

    assert changed == [True, False, False, True]


@pytest.mark.contract("S2-B10")
@pytest.mark.parametrize(
    "body",
    [
        pytest.param(
            {"metadata": {"annotations": None}, "spec": {"schedulerName": "gpu-scheduler"}},
            id="null-annotations",
        ),
        pytest.param(pod() | {"metadata": None}, id="null-metadata"),
        pytest.param(pod(containers=None), id="null-containers"),
        pytest.param(pod(map_text=MAP, initContainers=None), id="null-init-containers"),
        pytest.param(pod(map_text=MAP, labels={"a": None}), id="null-label"),
        pytest.param(
            {
                "metadata": {
                    "name": "w-0",
                    "annotations": {well_known.MAP: MAP, "n": 1, "z": None},
                },
                "spec": {
                    "schedulerName": "gpu-scheduler",
                    "containers": [None, {"name": None, "env": [None, {}], "resources": None}],
                },
            },
            id="odd-everywhere",
        ),
        pytest.param(
            pod(
                container(limits={well_known.GPU: None}),
                container("b", limits={well_known.GPU: []}),
            ),
            id="odd-quantities",
        ),
    ],
)
def test_odd_pod_shapes_never_crash_the_review(body: Any) -> None:
    """The API server's own validation has the last word about them."""
    outcome = run(body, answer(rewrites=[rewrite()], reservation="r-1"))

    assert outcome.denial is None
    apply(body, outcome.patch)


FORGED = dict.fromkeys((*well_known.BINDING_KEYS, *well_known.ADMISSION_KEYS), "x") | {
    well_known.CUDA_VISIBLE_DEVICES + ".3": "7"
}


@pytest.mark.parametrize("said", [None, answer()], ids=["no-answer", "answer"])
def test_protected_annotations_of_the_user_are_stripped(said: AdmissionDecision | None) -> None:
    """Each with a warning; everything else on the pod stays."""
    body = pod(annotations={"team": "a", well_known.PREFER: "preempt", **FORGED})

    outcome = run(body, said)

    assert patched(body, said)["metadata"]["annotations"] == {
        "team": "a",
        well_known.PREFER: "preempt",
    }
    assert sorted(outcome.warnings) == sorted(
        f"annotation {key} is removed: only gpu-scheduler.io sets it" for key in FORGED
    )


def test_a_foreign_pod_loses_only_a_forged_reservation() -> None:
    """The rest is the API server's policy to refuse; here it would be more than the fallback."""
    body = pod(
        container(limits={MIG_2G: "1"}), annotations=dict(FORGED), schedulerName="default-scheduler"
    )

    left = patched(body, answer(), "any")["metadata"]["annotations"]

    assert left.keys() == FORGED.keys() - set(well_known.ADMISSION_KEYS)


@pytest.mark.parametrize(
    ("before", "said", "after"),
    [
        pytest.param(None, answer(reservation="r-1"), "r-1", id="first-call"),
        pytest.param("r-0", answer(reservation="r-1"), "r-1", id="forged"),
        pytest.param("r-0", answer(), None, id="forged-and-none-given"),
        pytest.param("r-1", answer(known_reservation=True), "r-1", id="second-call"),
        pytest.param(
            "r-1", answer(known_reservation=True, reservation="r-1"), "r-1", id="told-again"
        ),
        pytest.param(None, answer(reservation="r-1", annotate=False), None, id="met-otherwise"),
        pytest.param("r-0", None, None, id="no-answer"),
    ],
)
def test_the_reservation_on_the_pod_is_the_schedulers(
    before: str | None, said: AdmissionDecision | None, after: str | None
) -> None:
    """A user cannot claim another admission's slice."""
    own = {well_known.RESERVATION: before} if before else None
    body = pod(container(limits={MIG_2G: "1"}), annotations=own)

    result = patched(body, said)

    assert result["metadata"].get("annotations", {}).get(well_known.RESERVATION) == after
    # A repeated answer finds its own reservation and treats it as genuine.
    assert run(result, said).warnings == ()


@pytest.mark.parametrize(
    ("before", "said", "after"),
    [
        pytest.param(
            None, answer(reservation="r-1", move="restore-1-a"), "restore-1-a", id="given"
        ),
        pytest.param("mine", answer(move="restore-1-a"), "restore-1-a", id="forged"),
        pytest.param("mine", answer(reservation="r-1"), None, id="forged-and-none-given"),
        pytest.param("mine", None, None, id="no-answer"),
    ],
)
def test_the_ticket_on_the_pod_is_the_schedulers(
    before: str | None, said: AdmissionDecision | None, after: str | None
) -> None:
    """A user cannot claim the room that a migration holds for another pod."""
    own = {well_known.MIGRATION: before} if before else None
    body = pod(container(limits={MIG_2G: "1"}), annotations=own)

    result = patched(body, said)

    assert result["metadata"].get("annotations", {}).get(well_known.MIGRATION) == after
    assert run(result, said).warnings == ()


def test_unknown_fields_of_the_pod_survive() -> None:
    """The patch touches only what it must."""
    body = pod(
        container(futureField={"x": [1, None]}, limits={MIG_2G: "1", "memory": "1Gi"}),
        annotations={"team": "a"},
        futureSpec={"y": None},
    )
    body["futureTop"] = 1

    outcome = run(body, answer(rewrites=[rewrite()], reservation="r-1"))

    assert {operation["path"].split("/")[1] for operation in outcome.patch} == {"metadata", "spec"}
    assert [(operation["op"], operation["path"]) for operation in outcome.patch] == [
        ("add", "/metadata/annotations/gpu-webhook.k8s.io~1fallback"),
        ("add", "/metadata/annotations/adapter.gpu.turbonomic.ibm.com~1original"),
        ("add", "/metadata/annotations/gpu-scheduler.io~1reservation"),
        ("remove", "/spec/containers/0/resources/limits/nvidia.com~1mig-2g.20gb"),
        ("add", "/spec/containers/0/resources/limits/nvidia.com~1mig-1g.10gb"),
        ("remove", "/spec/containers/0/resources/requests/nvidia.com~1mig-2g.20gb"),
        ("add", "/spec/containers/0/resources/requests/nvidia.com~1mig-1g.10gb"),
    ]


@pytest.mark.parametrize(
    ("body", "scope", "asks"),
    [
        pytest.param(pod(), "ours", False, id="cpu-only"),
        pytest.param(pod(map_text=MAP), "ours", True, id="map"),
        pytest.param(pod(container(limits=gpus(1))), "ours", False, id="whole-gpu"),
        pytest.param(
            pod(container(limits=gpus(1)), annotations={well_known.RESERVATION: "r-1"}),
            "ours",
            True,
            id="perhaps-forged",
        ),
        pytest.param(pod(container(limits={MIG_2G: "1"})), "ours", True, id="mig"),
        pytest.param(pod(container(limits={MIG_2G: "0"})), "ours", False, id="zero"),
        pytest.param(pod(container(limits={MIG_2G: "1"})), "any", False, id="ours-elsewhere"),
        pytest.param(
            pod(resourceClaims=[{"name": "a", "resourceClaimTemplateName": "t"}]),
            "ours",
            True,
            id="claim-template",
        ),
        pytest.param(
            pod(resourceClaims=[{"name": "a", "resourceClaimName": "c"}, 7]),
            "ours",
            False,
            id="named-claim",
        ),
        pytest.param(pod(resourceClaims="x"), "ours", False, id="claims-of-another-type"),
        pytest.param(
            pod(container(limits={MIG_2G: "1"}), schedulerName="x"), "any", True, id="foreign-mig"
        ),
        pytest.param(
            pod(container(limits=gpus(1)), schedulerName="x"), "any", False, id="foreign-gpu"
        ),
    ],
)
def test_the_scheduler_is_asked_only_where_its_answer_matters(
    body: Any, scope: Any, asks: bool
) -> None:
    """A query may reserve a slice, so there is none without need."""
    assert PodMutation(body, Request(namespace="default", scope=scope), CONFIG).needs_answer is asks


def test_object_names_cannot_inject_log_lines() -> None:
    """At admission a name has not been validated yet."""
    outcome = run(pod(name="w\nReviewing pod: other-0" + "x" * 300, map_text=MAP))

    assert all(line.isprintable() and len(line) < 400 for line in outcome.log)
    assert outcome.log[0].startswith(r"Reviewing pod: default/w\nReviewing")


def test_warnings_of_the_scheduler_reach_the_user() -> None:
    """For instance that a tier's quota is full."""
    assert run(pod(map_text=MAP), answer(warnings=["careful"])).warnings == ("careful",)


def test_audit_annotations_record_the_mutation() -> None:
    """They end up in the API server's audit log."""
    mapped = run(pod(map_text=MAP), answer(reservation="r-1"))
    degraded = run(pod(container(limits={MIG_2G: "1"})), answer(rewrites=[rewrite()]))

    assert mapped.audit == {"cuda-visible-devices": "0,1", "reservation": "r-1"}
    assert degraded.audit == {"fallback": "2g.20gb->1g.10gb"}


def test_environment_of_the_builders_reads_what_was_written() -> None:
    """The tests' own reader tells a literal from a reference and from nothing."""
    assert environment(pod()) == {"app": None}
