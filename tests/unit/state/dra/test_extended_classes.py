"""Which DeviceClass serves an extended resource."""

from __future__ import annotations

import msgspec

from scheduler.model.dra.device_class import DeviceClass
from scheduler.state.dra.extended_classes import ExtendedClasses
from tests.builders import GPU
from tests.dra import device_class

IMPLICIT = "deviceclass.resource.kubernetes.io/"


def of_gpu(name: str, day: int = 1) -> DeviceClass:
    """A class for ``nvidia.com/gpu``, created on that day."""
    found = device_class(name, extendedResourceName=GPU)
    return msgspec.structs.replace(found, created=f"2026-11-{day:02}T10:00:00Z")


def seen(*classes: DeviceClass) -> ExtendedClasses:
    extended = ExtendedClasses()
    for one in classes:
        extended.change(None, one)
    return extended


def test_every_class_has_an_implicit_name() -> None:
    assert seen(device_class("x.example")).classes == {IMPLICIT + "x.example": "x.example"}


def test_the_newest_class_counts() -> None:
    assert seen(of_gpu("a", 2), of_gpu("b", 3), of_gpu("c", 1)).classes[GPU] == "b"


def test_of_classes_of_one_moment_the_first_name_counts() -> None:
    assert seen(of_gpu("b"), of_gpu("a"), of_gpu("c")).classes[GPU] == "a"


def test_an_older_class_takes_over_when_the_newest_goes() -> None:
    extended = seen(of_gpu("a", 1), of_gpu("b", 2))
    extended.change(of_gpu("b", 2), None)

    assert extended.classes[GPU] == "a"
    assert IMPLICIT + "b" not in extended.classes


def test_a_class_may_change_its_resource() -> None:
    extended = seen(of_gpu("a"))
    extended.change(of_gpu("a"), device_class("a", extendedResourceName="example.com/x"))

    assert extended.named.keys() == {"example.com/x"}
    assert extended.classes == {IMPLICIT + "a": "a", "example.com/x": "a"}


def test_an_unreadable_class_serves_nothing() -> None:
    extended = seen(of_gpu("a"))
    extended.change(of_gpu("a"), DeviceClass(name="a", unread="spec: broken"))

    assert extended.classes == {}
