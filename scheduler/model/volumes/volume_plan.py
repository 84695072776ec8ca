"""What binding a pod to a node does to its unbound claims: decided before anything is written."""

from __future__ import annotations

import msgspec


class StaticBinding(msgspec.Struct, frozen=True, gc=False):
    """A claim gets an existing volume; ``claim`` is ``namespace/name``."""

    claim: str
    volume: str
    class_name: str = ""

    def __str__(self) -> str:
        name = self.claim.partition("/")[2]
        return f"{name} (class {self.class_name}; volume {self.volume})"


class Provision(msgspec.Struct, frozen=True, gc=False):
    """A claim gets a volume that its provisioner creates for the node."""

    claim: str
    class_name: str
    provisioner: str

    def __str__(self) -> str:
        name = self.claim.partition("/")[2]
        return f"{name} (class {self.class_name}; provisioner {self.provisioner})"


class VolumePlan(msgspec.Struct, frozen=True, gc=False):
    """The unbound claims of a pod on the node that was chosen."""

    node_name: str
    bindings: tuple[StaticBinding, ...] = ()
    provisions: tuple[Provision, ...] = ()

    @property
    def claims(self) -> tuple[str, ...]:
        """The keys of the claims that are not bound yet."""
        return (*(one.claim for one in self.bindings), *(one.claim for one in self.provisions))

    def __str__(self) -> str:
        return " and ".join(map(str, (*self.bindings, *self.provisions)))
