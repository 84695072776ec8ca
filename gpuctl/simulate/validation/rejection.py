"""The objects that the API server rejects.

Only what the scheduler and the controllers of workloads depend on is checked, and common mistakes;
``tests/controlplane/test_rejected_inputs.py`` compares the paths with a real API server.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

import msgspec

from gpuctl.simulate.manifests import Document, Raw, object_of, text_of
from gpuctl.simulate.validation import names, placement, pods
from gpuctl.simulate.validation.problem import REQUIRED, Problem, items, one_of
from scheduler.model.selector import LabelSelector, matches_labels

_TEMPLATE: Final = "spec.template."
_POD: Final = f"{_TEMPLATE}spec."


def check_pod(raw: Raw, document: Document) -> None:
    """Raise an InputError for a pod that the API server rejects."""
    _raise(document, pods.spec(raw, ""))


def check_workload(document: Document) -> None:
    """Raise an InputError for a workload that the API server rejects."""
    _raise(document, WORKLOADS[document.kind](document.raw))


def check_metadata(document: Document) -> None:
    """Raise an InputError for a name, labels or annotations that the API server rejects."""
    _raise(document, _object(document.raw))


def _raise(document: Document, problems: Iterator[Problem]) -> None:
    found = next(problems, None)
    if found is not None:
        raise document.error(found.path, found.text)


def _object(raw: Raw) -> Iterator[Problem]:
    meta = object_of(raw.get("metadata"))
    name, start = text_of(meta.get("name")), text_of(meta.get("generateName"))
    if name and not names.is_dns_subdomain(name):
        yield Problem("metadata.name", f"{name!r} {names.SUBDOMAIN_RULE}")
    if start and not names.is_dns_subdomain(f"{start.rstrip('-.')}x"):
        yield Problem("metadata.generateName", f"{start!r} {names.SUBDOMAIN_RULE}")
    yield from pods.metadata(raw, "")


def _scaled(raw: Raw) -> Iterator[Problem]:
    """A workload that finds its pods by a selector."""
    spec = object_of(raw.get("spec"))
    template = object_of(spec.get("template"))
    chosen = object_of(spec.get("selector"))
    if not chosen.get("matchLabels") and not chosen.get("matchExpressions"):
        yield Problem("spec.selector", f"{REQUIRED}; write the labels of the template")
    yield from placement.selector(spec, "selector", "spec.")
    if not _matches(chosen, object_of(object_of(template.get("metadata")).get("labels"))):
        yield Problem(f"{_TEMPLATE}metadata.labels", "are not those of spec.selector")
    yield from _template(template, frozenset(_claims(spec)))
    yield from one_of(object_of(template.get("spec")), "restartPolicy", ("Always",), _POD)


def _job(raw: Raw) -> Iterator[Problem]:
    spec = object_of(raw.get("spec"))
    yield from one_of(spec, "completionMode", ("NonIndexed", "Indexed"), "spec.")
    # With neither of them both are 1.
    is_open = "parallelism" in spec and "completions" not in spec
    if spec.get("completionMode") == "Indexed" and is_open:
        yield Problem("spec.completions", f"{REQUIRED} with completionMode: Indexed")
    template = object_of(spec.get("template"))
    yield from _template(template)
    if object_of(template.get("spec")).get("restartPolicy") not in ("OnFailure", "Never"):
        yield Problem(f"{_POD}restartPolicy", "must be OnFailure or Never in a Job")


def _template(template: Raw, claimed: frozenset[str] = frozenset()) -> Iterator[Problem]:
    yield from pods.metadata(template, _TEMPLATE)
    yield from pods.spec(template, _TEMPLATE, claimed)


def _claims(spec: Raw) -> Iterator[str]:
    for _, template in items(spec, "volumeClaimTemplates", ""):
        yield text_of(object_of(template.get("metadata")).get("name"))


def _matches(chosen: Raw, labels: Raw) -> bool:
    try:
        return matches_labels(msgspec.convert(chosen, LabelSelector), labels)
    except msgspec.ValidationError:
        return True  # the decoders report it


WORKLOADS: Final[dict[str, Callable[[Raw], Iterator[Problem]]]] = {
    "StatefulSet": _scaled,
    "Deployment": _scaled,
    "ReplicaSet": _scaled,
    "Job": _job,
}
