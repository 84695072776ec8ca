"""The sharing section of the device plugin's configuration file.

It is NVIDIA's file (``version: v1``, ``sharing.timeSlicing``). ``flags`` and ``resources`` are
accepted, because users reuse existing files; only the MIG strategy is read from them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import msgspec
from msgspec import UNSET

from fakegpu.topology.invalid import Invalid, convert, read_yaml
from fakegpu.topology.node_topology import MigStrategy, Shared, Sharing


class _Part(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """A section of the file."""


class _Resource(_Part, frozen=True):
    name: str
    replicas: Annotated[int, msgspec.Meta(ge=2, le=1024)]
    rename: str = ""
    devices: Any = "all"


class TimeSlicing(_Part, frozen=True):
    """``sharing.timeSlicing``."""

    rename_by_default: bool = False
    fail_requests_greater_than_one: bool = False
    resources: tuple[_Resource, ...] = ()

    def sharing(self) -> Sharing:
        """The sharing of each resource; Invalid if the plugin would reject it."""
        shared: list[Shared] = []
        for number, one in enumerate(self.resources):
            path = f"resources[{number}]"
            if one.devices != "all":
                raise Invalid(f"{path}.devices", "only 'all' is supported, as in NVIDIA's plugin")
            if any(one.name == other.name for other in shared):
                raise Invalid(f"{path}.name", f"{one.name} is listed twice")
            named = one.rename or (f"{one.name}.shared" if self.rename_by_default else "")
            shared.append(Shared(name=one.name, replicas=one.replicas, rename=named or UNSET))
        return Sharing(
            resources=tuple(shared),
            fail_requests_greater_than_one=self.fail_requests_greater_than_one,
        )


class SharingSection(_Part, frozen=True):
    """``sharing``."""

    time_slicing: TimeSlicing = TimeSlicing()

    def read(self, path: str) -> Sharing:
        """The section, or Invalid with the whole path."""
        try:
            return self.time_slicing.sharing()
        except Invalid as problem:
            raise Invalid(f"{path}.timeSlicing.{problem.path}", problem.problem) from problem


class _File(_Part, frozen=True):
    version: str = "v1"
    sharing: SharingSection = SharingSection()
    flags: dict[str, Any] = {}
    resources: Any = None


class PluginConfig(msgspec.Struct, frozen=True):
    """The content of a file; a strategy of None leaves it to the topology."""

    sharing: Sharing = Sharing()
    mig_strategy: MigStrategy | None = None


def read_plugin_config(text: str) -> PluginConfig:
    """The configuration file's text, or Invalid."""
    if not text.strip():
        return PluginConfig()
    file = convert(read_yaml(text, ""), _File, "")
    if file.version != "v1":
        raise Invalid("version", f"expected v1, got {file.version!r}")
    strategy = file.flags.get("migStrategy")
    if strategy not in (None, "none", "single", "mixed"):
        raise Invalid("flags.migStrategy", f"expected none, single or mixed, got {strategy!r}")
    return PluginConfig(file.sharing.read("sharing"), strategy)


def chosen(files: Mapping[str, str], name: str) -> str:
    """The key of a ConfigMap of such files for a node; an empty text if there is none.

    ``name`` is the node's own choice (its label), else ``config.yaml``, else the only one.
    """
    if name:
        return name if name in files else ""
    for key in ("config.yaml", "default"):
        if key in files:
            return key
    return next(iter(files)) if len(files) == 1 else ""
