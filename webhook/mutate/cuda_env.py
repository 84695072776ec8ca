"""CUDA_VISIBLE_DEVICES for the containers of a mapped pod.

The value is a literal where the devices are known at admission, else a reference to an annotation
that the Binding writes. In a container whose devices a plugin on a kubelet-assigned node provides,
GPUs are numbered from 0, so a host index would hide them: such a container gets no value.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from scheduler.model import well_known
from scheduler.model.admission import AdmissionDecision
from scheduler.model.gpu.cuda_env import CudaMode, device_shares, share_key, visible
from scheduler.model.gpu.gpu_map import shown
from scheduler.model.limits import INJECTED_BYTES_MAX
from webhook.mutate import raw_pod
from webhook.mutate.gpu_map import MappedPod
from webhook.mutate.pod_draft import PodDraft, Refused
from webhook.mutate.raw_pod import ContainerRef, RawContainer

EnvEntry = dict[str, Any]

_NO_VALUE: Final = "another source"


def inject(draft: PodDraft, mapped: MappedPod, answer: AdmissionDecision | None) -> None:
    """Set the variable in the containers that get devices."""
    entries = _entries(draft, mapped, answer)
    _check_size(entries)
    before = draft.pod
    for slot, entry in entries:
        container, replaced = _with_entry(slot.container, entry)
        draft.pod = raw_pod.with_container(draft.pod, slot, container)
        if replaced is not None:
            draft.warnings.append(
                f'container "{shown(slot.name)}": {well_known.CUDA_ENV} ({replaced}) is replaced by'
                f" the value from {well_known.MAP}"
            )
    if draft.pod is not before:
        _warn_unreadable(draft, mapped)


def _check_size(entries: Sequence[tuple[ContainerRef, EnvEntry]]) -> None:
    """Reject a pod that would be too large to be stored with the values."""
    size = sum(len(entry.get("value", "")) for _, entry in entries)
    if size > INJECTED_BYTES_MAX:
        raise Refused(
            f"{well_known.MAP}: {well_known.CUDA_ENV} of {len(entries)} containers would take"
            f" {size} bytes, at most {INJECTED_BYTES_MAX} are written; name fewer devices on the"
            " line"
        )


def _entries(
    draft: PodDraft, mapped: MappedPod, answer: AdmissionDecision | None
) -> Sequence[tuple[ContainerRef, EnvEntry]]:
    if mapped.mode is CudaMode.NONE:
        return []
    if _is_dra(mapped, answer) and (not mapped.wants or mapped.mode is CudaMode.AUTO):
        return _for_claims(draft, mapped)
    if mapped.wants:
        return _for_requesting(draft, mapped, answer)
    slots = tuple(raw_pod.slots(draft.pod))
    if any(raw_pod.uses_devices(slot.container) for slot in slots):
        return []
    if not mapped.entry and not _may_be_read_later(draft, mapped):
        return []
    literal = _literal(visible(mapped.entry.devices, mapped.mode)) if mapped.entry else None
    return [(slot, literal or _from_annotation(well_known.CUDA_VISIBLE_DEVICES)) for slot in slots]


def _for_claims(draft: PodDraft, mapped: MappedPod) -> Sequence[tuple[ContainerRef, EnvEntry]]:
    """A container counts the devices of its claim from 0: only an entry that is there is set."""
    if not any(raw_pod.uses_devices(slot.container) for slot in raw_pod.slots(draft.pod)):
        draft.warnings.append(
            f"{well_known.CUDA_ENV} is not set: {well_known.MAP} names DRA devices, which a"
            " container gets by a request or a claim only"
        )
    return [
        (slot, _literal(visible(range(want.count), CudaMode.LOCAL)))
        for slot, want in zip(mapped.requesting, mapped.wants, strict=True)
        if _own_entries(slot.container)
    ]


def _for_requesting(
    draft: PodDraft, mapped: MappedPod, answer: AdmissionDecision | None
) -> Sequence[tuple[ContainerRef, EnvEntry]]:
    """The share of each requesting container; the others see no GPU."""
    slots, wants = mapped.requesting, mapped.wants
    if mapped.mode is CudaMode.LOCAL:
        texts = [visible(range(want.count), mapped.mode) for want in wants]
        return [(slot, _literal(text)) for slot, text in zip(slots, texts, strict=True)]
    if mapped.mode is CudaMode.AUTO and not _is_index_assigned(draft, mapped, answer):
        return []
    if mapped.mode is CudaMode.INDEX and "counted" in _kinds(mapped, answer):
        draft.warnings.append(
            f"{well_known.CUDA_MODE}: index gives host numbers, and on a node of {well_known.MAP}"
            f" the kubelet assigns the GPUs and a container that requests {well_known.GPU} counts"
            " from 0; use auto or local"
        )
    if mapped.entry:
        shares = device_shares(wants, mapped.entry.devices)
        texts = [visible(share, mapped.mode) for share in shares]
        return [(slot, _literal(text)) for slot, text in zip(slots, texts, strict=True)]
    if not _may_be_read_later(draft, mapped):
        return []
    keys = [share_key(position, len(slots)) for position in range(len(slots))]
    return [(slot, _from_annotation(key)) for slot, key in zip(slots, keys, strict=True)]


def _is_index_assigned(
    draft: PodDraft, mapped: MappedPod, answer: AdmissionDecision | None
) -> bool:
    """Whether a container sees host indexes on every node that the pod may get."""
    kinds = _kinds(mapped, answer)
    if kinds == {"numbered"}:
        return True
    if kinds != {"counted"}:
        draft.warnings.append(
            f"{well_known.CUDA_ENV} is not set: not every node of {well_known.MAP} is known to "
            f"number its devices, and elsewhere a container that requests {well_known.GPU} counts "
            "from 0"
        )
    return False


def _kinds(mapped: MappedPod, answer: AdmissionDecision | None) -> set[str]:
    """The device assignment of the nodes that the pod may get, as far as it is known."""
    known = answer.node_kinds if answer else {}
    tokens = {entry.node for entry in mapped.candidates}
    return {known[token].kind if token in known else "unknown" for token in tokens}


def _is_dra(mapped: MappedPod, answer: AdmissionDecision | None) -> bool:
    """Whether the pod's GPUs are DRA devices on every node that it may get."""
    known = answer.node_kinds if answer else {}
    tokens = {entry.node for entry in mapped.candidates}
    return all(token in known and known[token].dra for token in tokens)


def _may_be_read_later(draft: PodDraft, mapped: MappedPod) -> bool:
    """Whether a Binding of gpu-scheduler will write the annotation that the variable reads."""
    if isinstance(mapped.index, int):
        draft.log.append(f"No GPU assignment for pod index {mapped.index}")
        draft.warnings.append(f"{well_known.MAP} has no line for the pod's index {mapped.index}")
    if not raw_pod.spec(draft.pod).get("nodeName"):
        return True
    draft.warnings.append(
        f"{well_known.CUDA_ENV} is not set: spec.nodeName is given, so no scheduler assigns devices"
    )
    return False


def _warn_unreadable(draft: PodDraft, mapped: MappedPod) -> None:
    """The log lines of seed 002, and one for a pod whose devices are assigned later."""
    if not raw_pod.metadata(draft.pod).get("name"):
        draft.log.append(f"Pod name not set, using generateName: {draft.name}")
    if mapped.entry:
        value = visible(mapped.entry.devices, mapped.mode)
        draft.log.append(
            f"Injecting {well_known.CUDA_ENV}={value} for pod {draft.name} (index "
            f"{mapped.entry.index})"
        )
        draft.audit["cuda-visible-devices"] = value
    else:
        draft.log.append(
            f"Injecting {well_known.CUDA_ENV} for pod {draft.name}, to be set when bound"
        )
    draft.log.append(f"Created patch for pod {draft.name}")


def _literal(value: str) -> EnvEntry:
    return {"name": well_known.CUDA_ENV, "value": value}


def _from_annotation(key: str) -> EnvEntry:
    path = f"metadata.annotations['{key}']"
    return {
        "name": well_known.CUDA_ENV,
        "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": path}},
    }


def _with_entry(container: RawContainer, entry: EnvEntry) -> tuple[RawContainer, str | None]:
    """The container with the variable, and its former value.

    A new entry goes first, because ``$(VAR)`` is expanded from earlier entries only; an existing
    one stays in its place, and every duplicate is replaced, because the last one counts.
    """
    env, own = _env(container), _own_entries(container)
    if not own:
        return {**container, "env": [entry, *env]}, None
    others = [item for item in own if item != entry]
    if not others:
        return container, None
    changed = [entry if item in own else item for item in env]
    value = others[0].get("value")
    replaced = f'"{shown(value)}"' if isinstance(value, str) else _NO_VALUE
    return {**container, "env": changed}, replaced


def _env(container: RawContainer) -> list[Any]:
    listed = container.get("env")
    return list(listed) if isinstance(listed, list) else []


def _own_entries(container: RawContainer) -> list[Any]:
    """The entries of the variable that the container has already."""
    return [
        one for one in _env(container) if raw_pod.mapping(one).get("name") == well_known.CUDA_ENV
    ]
