"""The ResourceClaims that a pod names, with what its status says of them."""

from __future__ import annotations

from typing import Final

import msgspec


class PodClaim(msgspec.Struct, frozen=True, gc=False):
    """One entry of ``spec.resourceClaims``.

    ``claim_name`` is a claim, ``template_name`` a template from which kube-controller-manager
    creates one. ``has_status`` where ``status.resourceClaimStatuses`` has an entry for it, and
    ``created_name`` is the claim in that entry; an entry without a name means that no claim is
    needed.
    """

    name: str
    claim_name: str = ""
    template_name: str = ""
    has_status: bool = False
    created_name: str = ""


class PodClaims(msgspec.Struct, frozen=True, gc=False, cache_hash=True):
    """The claims of one pod, in the order of ``spec.resourceClaims``.

    ``extended`` is the claim that a scheduler created for its extended resources
    (``status.extendedResourceClaimStatus``); empty if there is none.
    """

    claims: tuple[PodClaim, ...] = ()
    extended: str = ""

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the claims that exist already, as far as the pod says it."""
        found = (one.claim_name or one.created_name for one in self.claims)
        return (*(name for name in found if name), *((self.extended,) if self.extended else ()))

    @property
    def sources(self) -> tuple[tuple[str, str], ...]:
        """The claims and templates; pods with equal templates have equal claims."""
        return tuple((one.claim_name, one.template_name) for one in self.claims)

    def __bool__(self) -> bool:
        return bool(self.claims or self.extended)

    def __len__(self) -> int:
        return len(self.claims) + bool(self.extended)


NO_CLAIMS: Final = PodClaims()
