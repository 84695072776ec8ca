"""What the webhook writes at admission is what the scheduler gives at bind."""

from __future__ import annotations

from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from scheduler.bind.binder import binding_annotations
from scheduler.framework.decision import Placement
from scheduler.model import well_known
from scheduler.model.gpu import cuda_env
from scheduler.model.gpu.cuda_env import devices_needed
from scheduler.model.gpu.device import Devices
from scheduler.model.gpu.gpu_map import parse
from scheduler.watch.decode.pods import POD, to_pod
from tests.unit.webhook.pods import answer, container, gpus, patched, pod

MAP = "0=a:5,3,4\n1=b:7,1,2"
NUMBERED = answer(kinds={"a": "numbered", "b": "numbered"})

counts = st.integers(0, 3)
shapes = st.tuples(
    st.lists(st.tuples(counts, st.booleans()), max_size=3), st.lists(counts, min_size=1, max_size=3)
)
modes = st.sampled_from(["auto", "index", "local"])


def body(shape: Any, mode: str, **identity: Any) -> Any:
    """A pod with these GPU counts; init containers may be sidecars."""
    before, after = shape
    init = [
        container(f"i{n}", gpus(count) if count else None, **_always(is_sidecar))
        for n, (count, is_sidecar) in enumerate(before)
    ]
    apps = [container(f"c{n}", gpus(count) if count else None) for n, count in enumerate(after)]
    given_annotations = {well_known.CUDA_MODE: mode}
    return pod(*apps, init=init, map_text=MAP, annotations=given_annotations, **identity)


def _always(is_sidecar: bool) -> dict[str, Any]:
    return {"restartPolicy": "Always"} if is_sidecar else {}


def seen_by_containers(raw: Any, index: int) -> dict[str, str | None]:
    """What each container reads once the scheduler has bound the pod with this index."""
    converted = to_pod(POD.decode(msgspec.json.encode(raw)), "default")
    entry = parse(MAP).entries[index]
    devices = Devices(entry.devices)
    value, shares = cuda_env.environment(converted, devices)
    placement = Placement(
        pod=converted,
        node_name=entry.node,
        devices=devices,
        index=index,
        cuda_visible_devices=value,
        shares=shares,
    )
    written = binding_annotations(placement, "d-1", None)
    return {
        item.name: written[item.cuda_key] if item.cuda_key is not None else item.cuda_literal
        for item in converted.containers
    }


def fits(shape: Any) -> bool:
    """Whether the requests take three devices, as every line names, or none."""
    raw = body(shape, "auto")
    needed = devices_needed(
        cuda_env.container_gpus(to_pod(POD.decode(msgspec.json.encode(raw)), "default"))
    )
    return needed in (0, 3)


@given(shapes.filter(fits), modes, st.sampled_from([0, 1]))
def test_literal_and_annotation_agree(shape: Any, mode: str, index: int) -> None:
    """An index known at admission and the same index assigned at bind: one and the same value."""
    known = patched(body(shape, mode, name=f"w-{index}", owner="StatefulSet"), NUMBERED)
    assigned = patched(body(shape, mode, name="", owner="ReplicaSet"), NUMBERED)

    literal = seen_by_containers(known, index)
    read = seen_by_containers(assigned, index)

    assert literal == read
    requesting = {
        item["name"]
        for field in ("initContainers", "containers")
        for item in known["spec"].get(field, ())
        if item["resources"]
    }
    told = {name for name, value in literal.items() if value is not None}
    assert told == (requesting or set(literal))
    assert all(literal[name] for name in told)


@given(st.sampled_from(["w-0", "w-1", "w-7", "w-01", "w-x", ""]), st.booleans())
def test_webhook_and_scheduler_read_the_same_index(name: str, is_bare: bool) -> None:
    """Both through one function, from the raw pod here and from the converted pod there."""
    owner = None if is_bare else "StatefulSet"
    raw = body(([], [0]), "auto", name=name, owner=owner)
    converted = to_pod(POD.decode(msgspec.json.encode(raw)), "default")
    index = converted.index(2)

    value = seen_by_containers(patched(raw), index)["c0"] if index in (0, 1) else None

    if index in (0, 1):
        assert isinstance(index, int)
        assert value == parse(MAP).entries[index].value
    else:
        key = "metadata.annotations['gpu-scheduler.io/cuda-visible-devices']"
        (entry,) = patched(raw)["spec"]["containers"][0]["env"]
        assert entry["valueFrom"]["fieldRef"]["fieldPath"] == key
