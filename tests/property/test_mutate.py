"""What must hold for the review of any pod, however odd."""

from __future__ import annotations

import copy
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from scheduler.model import well_known
from scheduler.model.admission import NOTHING, AdmissionDecision, NodeAssignment, ResourceRewrite
from scheduler.model.mig.tier_nodes import TierNodes
from webhook.mutate.json_patch import apply, difference
from webhook.mutate.pod_mutation import Config, Outcome, PodMutation, Request

TIERS = [well_known.mig_resource(p) for p in ("3g.40gb", "2g.20gb", "1g.10gb")] + [well_known.GPU]
CONFIG = Config(scheduler_name="gpu-scheduler")
SIDES = ("limits", "requests")

amounts = st.sampled_from(["0", "1", "2", "1000m", 1, "x", None])
device_amounts = st.dictionaries(st.sampled_from([*TIERS, "cpu", "memory"]), amounts, max_size=3)
resources: st.SearchStrategy[Any] = st.none() | st.one_of(
    device_amounts.map(lambda d: {"limits": d}),
    device_amounts.map(lambda d: {"limits": d, "requests": dict(d)}),
    st.fixed_dictionaries({"limits": device_amounts, "requests": device_amounts}),
    st.just({"limits": None, "requests": None, "claims": []}),
)
variables = st.one_of(
    st.just({"name": well_known.CUDA_ENV}),
    st.builds(lambda v: {"name": well_known.CUDA_ENV, "value": v}, st.text(max_size=5)),
    st.just(
        {"name": well_known.CUDA_ENV, "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}
    ),
    st.builds(lambda v: {"name": "OTHER", "value": v}, st.text(max_size=5)),
    st.none(),
)
optional_fields: dict[str, st.SearchStrategy[Any]] = {
    "env": st.none() | st.lists(variables, max_size=4),
    "resources": resources,
    "restartPolicy": st.just("Always"),
    "future": st.just({"x": [1, {}]}),
}


def containers(names_of: list[str]) -> st.SearchStrategy[Any]:
    """Some containers with these names, or null, or with a null among them."""
    listed = [
        st.fixed_dictionaries({"name": st.just(name)}, optional=optional_fields)
        for name in names_of
    ]
    return st.none() | st.lists(st.none() | st.one_of(listed), max_size=3)


maps = st.sampled_from(
    [
        "0=a:0",
        "0=a:0,1\n1=b:2",
        "0=a:3,1,2\n1=a:0,4,5",
        "1=b:0",
        "0=a:0,x",
        "",
    ]
)
given_annotations: st.SearchStrategy[Any] = st.none() | st.fixed_dictionaries(
    {},
    optional={
        well_known.MAP: maps,
        well_known.CUDA_MODE: st.sampled_from(["auto", "index", "local", "none", "uuid", "x"]),
        well_known.FALLBACK: st.sampled_from(["2g.20gb->1g.10gb", "x"]),
        well_known.ORIGINAL: st.sampled_from(['{"c0":{}}', "{"]),
        well_known.RESERVATION: st.sampled_from(["r-1", "r-forged"]),
        well_known.DEVICES: st.just("gpu:0"),
        "team": st.text(max_size=3),
        "odd": st.none(),
    },
)
owners = st.sampled_from(
    [None, [], *([{"kind": k, "controller": True}] for k in ("Job", "StatefulSet", "ReplicaSet"))]
)
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
terms = st.none() | st.lists(
    st.sampled_from([None, {}, {"matchExpressions": None}, {"matchExpressions": [{"key": "x"}]}]),
    max_size=2,
)


def affinity(listed: Any) -> Any:
    """Node affinity with these terms, null where there are none."""
    return {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": listed}}}


pods = st.fixed_dictionaries(
    {
        "metadata": st.fixed_dictionaries(
            {},
            optional={
                "name": st.sampled_from(["w-0", "w-1", "w-9", "w-x", ""]),
                "generateName": st.just("w-"),
                "annotations": given_annotations,
                "labels": st.none() | st.just({well_known.JOB_INDEX: "1"}),
                "ownerReferences": owners,
            },
        ),
        "spec": st.fixed_dictionaries(
            {"schedulerName": st.sampled_from(["gpu-scheduler", "gpu-scheduler", "other"])},
            optional={
                "containers": containers(["c0", "c1", "c2"]),
                "initContainers": containers(["i0", "i1"]),
                "nodeName": st.sampled_from(["a", "b"]),
                "nodeSelector": st.none() | st.just({"zone": "a"}),
                "affinity": st.none() | st.just({}) | st.builds(affinity, terms),
                "future": st.just({"y": None}),
            },
        ),
    }
)
rewrites = st.lists(
    st.builds(
        ResourceRewrite,
        container=st.sampled_from(["c0", "c1", "i0"]),
        source=st.sampled_from([*TIERS[:2], NOTHING]),
        target=st.sampled_from(TIERS[2:]),
        init=st.booleans(),
    ),
    max_size=3,
    unique_by=lambda r: (r.container, r.source, r.init),
)
kinds = st.dictionaries(
    st.sampled_from(["a", "b"]),
    st.builds(
        NodeAssignment,
        node=st.sampled_from([None, "a", "b"]),
        kind=st.sampled_from(["numbered", "counted", "unknown"]),
    ),
)
answers = st.none() | st.builds(
    AdmissionDecision,
    rewrites=rewrites.map(tuple),
    reservation=st.none() | st.just("r-1"),
    annotate=st.booleans(),
    known_reservation=st.booleans(),
    node_kinds=kinds,
    denied=st.sampled_from([None, None, None, "no"]),
    where=st.builds(
        TierNodes,
        labels=st.sampled_from([(), (("zone", "a"),), (("zone", "a"), ("kind", "b"))]),
        memory_mib=st.sampled_from([0, 15000]),
    ),
)
requests = st.builds(Request, namespace=st.just("n"), scope=st.sampled_from(["ours", "any"]))


def look(body: Any, request: Request, answer: AdmissionDecision | None) -> Outcome:
    """One review with the usual configuration."""
    return PodMutation(body, request, CONFIG).outcome(answer)


@given(pods, requests, answers)
def test_every_patch_applies_and_a_second_review_changes_nothing(
    body: Any, request: Request, answer: AdmissionDecision | None
) -> None:
    """With the same answer, and with the one that knows the reservation."""
    outcome = look(body, request, answer)
    once = apply(body, outcome.patch)

    assert look(once, request, answer).patch == ()
    if answer is not None:
        known = msgspec.structs.replace(answer, known_reservation=True)
        assert look(once, request, known).patch == ()


@given(pods, requests, answers)
def test_review_leaves_its_input_and_foreign_fields_unchanged(
    body: Any, request: Request, answer: AdmissionDecision | None
) -> None:
    """Outside of protected and recorded annotations, one variable and MIG amounts: no change."""
    before = copy.deepcopy(body)
    once = apply(body, look(body, request, answer).patch)

    assert body == before
    assert without_ours(once) == without_ours(before)


def without_ours(body: Any) -> Any:
    """The pod without every part that the webhook may write."""
    body = copy.deepcopy(body)
    meta, spec = body["metadata"], body["spec"]
    ours = {
        well_known.FALLBACK,
        well_known.ORIGINAL,
        well_known.TIER_NODES,
        well_known.MEMORY_GIVEN,
    }
    for field in ("nodeSelector", "affinity"):
        spec.pop(field, None)
    meta["annotations"] = {
        key: value
        for key, value in (meta.get("annotations") or {}).items()
        if key not in ours and not well_known.is_protected(key)
    }
    for field in ("initContainers", "containers"):
        for item in spec.get(field) or ():
            if item:
                _without_tiers(item)
                env = item.get("env") or []
                item["env"] = [v for v in env if v is None or v["name"] != well_known.CUDA_ENV]
    return body


def _without_tiers(container: Any) -> None:
    """Amounts of tiers go, and with them the maps that hold nothing else."""
    found = container.pop("resources", None) or {}
    rest = {
        side: {k: v for k, v in (amounts or {}).items() if side not in SIDES or k not in TIERS}
        for side, amounts in found.items()
    }
    if kept := {side: amounts for side, amounts in rest.items() if amounts}:
        container["resources"] = kept


@given(pods, requests, answers)
def test_a_denied_pod_is_never_patched_and_says_why_in_one_line(
    body: Any, request: Request, answer: AdmissionDecision | None
) -> None:
    """400 for what the user wrote, 403 for what the scheduler does not allow."""
    outcome = look(body, request, answer)
    if outcome.denial is None:
        return
    assert outcome.patch == ()
    assert outcome.denial.code in (400, 403)
    assert outcome.denial.message.isprintable()


@given(pods, answers)
def test_a_pod_of_another_scheduler_gets_no_variable(
    body: Any, answer: AdmissionDecision | None
) -> None:
    """Both paths together change nothing but MIG requests and their record."""
    body["spec"]["schedulerName"] = "other"
    for scope in ("ours", "any"):
        once = apply(body, look(body, Request(namespace="n", scope=scope), answer).patch)
        for field in ("initContainers", "containers"):
            pairs = zip(once["spec"].get(field) or (), body["spec"].get(field) or (), strict=True)
            for after, before in pairs:
                assert (after or {}).get("env") == (before or {}).get("env")


@given(pods, requests, answers)
def test_equal_limits_and_requests_stay_equal(
    body: Any, request: Request, answer: AdmissionDecision | None
) -> None:
    """The API server refuses an extended resource whose request is unlike its limit."""
    once = apply(body, look(body, request, answer).patch)
    for field in ("initContainers", "containers"):
        pairs = zip(once["spec"].get(field) or (), body["spec"].get(field) or (), strict=True)
        for after, before in pairs:
            if before and agrees(before):
                assert agrees(after)


def agrees(item: Any) -> bool:
    """Whether the requests of every device are missing or as the limits."""
    amounts_of = [(item.get("resources") or {}).get(side) or {} for side in SIDES]
    limits, asked = amounts_of
    return all(tier not in asked or asked[tier] == limits.get(tier, object()) for tier in TIERS)


scalars = st.none() | st.booleans() | st.integers(-3, 3) | st.text(max_size=2)
json_values = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["a", "/", "~", "~1", ""]), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(json_values, json_values)
def test_a_difference_always_applies_and_gives_the_new_value(old: Any, new: Any) -> None:
    """For any two JSON values, not only for pods."""
    assert apply(old, difference(old, new)) == new
