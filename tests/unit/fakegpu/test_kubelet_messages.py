"""The modules generated from the kubelet's ``.proto`` files: services and bytes."""

from __future__ import annotations

import pytest
from google.protobuf.descriptor import FileDescriptor
from google.protobuf.message import DecodeError

from fakegpu import kubelet
from fakegpu.kubelet import (
    deviceplugin_pb2,
    dra_pb2,
    health_pb2,
    pluginregistration_pb2,
    podresources_pb2,
)

FILES = (deviceplugin_pb2, podresources_pb2, dra_pb2, pluginregistration_pb2, health_pb2)


def test_the_services_have_the_names_of_the_files() -> None:
    def services(file: FileDescriptor) -> set[str]:
        return {service.full_name for service in file.services_by_name.values()}

    assert set().union(*(services(file.DESCRIPTOR) for file in FILES)) == {
        kubelet.DEVICE_PLUGIN,
        kubelet.DEVICE_PLUGIN_REGISTRATION,
        kubelet.POD_RESOURCES,
        kubelet.PLUGIN_REGISTRATION,
        kubelet.DRA_PLUGIN,
        kubelet.HEALTH,
    }


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(b"\x18\x01\x18\xac\x02", id="one-field-each"),
        pytest.param(b"\x1a\x03\x01\xac\x02", id="packed"),
        pytest.param(b"\x1a\x01\x01\x0a\x01c\x18\xac\x02", id="both"),
    ],
)
def test_processors_are_read_packed_and_unpacked(content: bytes) -> None:
    """A kubelet that pins processors packs their numbers; the format allows either."""
    resources = podresources_pb2.ContainerResources.FromString(b"\x0a\x01c" + content)

    assert (resources.name, list(resources.cpu_ids)) == ("c", [1, 300])


def test_unknown_fields_are_skipped_and_torn_bytes_are_refused() -> None:
    """A newer kubelet sends fields that are not declared here."""
    newer = b"\x0a\x01p\x12\x02ns\x20\x07\x2a\x02\x08\x01"

    assert podresources_pb2.PodResources.FromString(newer).namespace == "ns"
    with pytest.raises(DecodeError):
        podresources_pb2.PodResources.FromString(b"\x0a\x05p")


def test_an_absent_share_is_not_sent() -> None:
    """``share_id`` is optional: present and empty is not absent."""
    assert not dra_pb2.Device(share_id=None).HasField("share_id")
    assert dra_pb2.Device(share_id=None).SerializeToString() == b""
