"""DeviceClasses, as far as decisions read them (``resource.k8s.io/v1``)."""

from __future__ import annotations

import msgspec


class OpaqueConfig(msgspec.Struct, frozen=True, gc=False):
    """Configuration for a driver; ``parameters`` is the JSON text, which is not read."""

    driver: str
    parameters: str = "{}"


class DeviceClass(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """One DeviceClass; ``selectors`` are CEL expressions, all of which must hold.

    ``extended_resource`` is the resource that pods may request instead of a claim; ``created`` is
    the API's timestamp text. ``unread`` says what of it cannot be read: then nothing is allocated
    from it.
    """

    name: str
    selectors: tuple[str, ...] = ()
    config: tuple[OpaqueConfig, ...] = ()
    extended_resource: str = ""
    created: str = ""
    unread: str = ""

    @property
    def key(self) -> str:
        """The name."""
        return self.name
