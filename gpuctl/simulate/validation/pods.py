"""Pods and templates of pods, as the API server checks them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from gpuctl.simulate.manifests import Raw, object_of, text_of
from gpuctl.simulate.validation import amounts, names, placement
from gpuctl.simulate.validation.problem import REQUIRED, Problem, items, one_of, strings
from scheduler.model.selector import is_label_key

_RESTARTS: Final = ("Always", "OnFailure", "Never")
#: What the API server accepts only in an init container that is a sidecar.
_PROBES: Final = ("lifecycle", "livenessProbe", "readinessProbe", "startupProbe")


def metadata(raw: Raw, path: str) -> Iterator[Problem]:
    """Those of labels and annotations."""
    meta = object_of(raw.get("metadata"))
    yield from placement.labels(meta, "labels", f"{path}metadata.")
    for key, _ in strings(meta, "annotations"):
        if not is_label_key(key.lower()):
            yield Problem(f"{path}metadata.annotations", f"{key!r} is not a key of an annotation")


def spec(raw: Raw, path: str, claimed: frozenset[str] = frozenset()) -> Iterator[Problem]:
    """Those of a pod's spec; ``claimed`` are the volumes that a StatefulSet adds."""
    held, path = object_of(raw.get("spec")), f"{path}spec."
    volumes = set(claimed)
    yield from _volumes(held, path, volumes)
    taken: set[str] = set()
    for field in ("containers", "initContainers"):
        for at, container in items(held, field, path):
            yield from _container(container, f"{at}.", volumes, taken)
            if field == "initContainers" and container.get("restartPolicy") != "Always":
                yield from _no_probes(container, f"{at}.")
    yield from one_of(held, "restartPolicy", _RESTARTS, path)
    yield from placement.problems(held, path)


def _volumes(held: Raw, path: str, known: set[str]) -> Iterator[Problem]:
    listed: set[str] = set()
    for at, volume in items(held, "volumes", path):
        name = text_of(volume.get("name"))
        yield from _name(volume, f"{at}.", listed)
        known.add(name)


def _container(container: Raw, path: str, volumes: set[str], taken: set[str]) -> Iterator[Problem]:
    yield from _name(container, path, taken)
    if not container.get("image"):
        yield Problem(f"{path}image", REQUIRED)
    for at, mount in items(container, "volumeMounts", path):
        if text_of(mount.get("name")) not in volumes:
            yield Problem(f"{at}.name", f"the pod has no volume {mount.get('name')}")
        if not mount.get("mountPath"):
            yield Problem(f"{at}.mountPath", REQUIRED)
    for at, variable in items(container, "env", path):
        if not variable.get("name"):
            yield Problem(f"{at}.name", REQUIRED)
    yield from amounts.problems(object_of(container.get("resources")), f"{path}resources")


def _name(named: Raw, path: str, taken: set[str]) -> Iterator[Problem]:
    name = text_of(named.get("name"))
    if not name:
        yield Problem(f"{path}name", REQUIRED)
    elif not names.is_dns_label(name):
        yield Problem(f"{path}name", f"{name!r} {names.LABEL_RULE}")
    elif name in taken:
        yield Problem(f"{path}name", f"{name!r} is used twice")
    taken.add(name)


def _no_probes(container: Raw, path: str) -> Iterator[Problem]:
    for field in _PROBES:
        if field in container:
            yield Problem(f"{path}{field}", "needs restartPolicy: Always in an init container")
