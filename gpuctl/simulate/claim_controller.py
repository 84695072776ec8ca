"""What happens to ResourceClaims outside decisions, at once instead of after some requests.

kube-controller-manager creates the claims of templates, and frees the claims of pods that end. The
scheduler writes what a placement allocates and reserves.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from gpuctl.simulate import claim_changes
from gpuctl.simulate.workload_expansion import generated_name
from scheduler.framework.decision import Placement
from scheduler.model.actions import ClaimRef
from scheduler.model.dra.binding_conditions import binding_conditions
from scheduler.model.dra.claim import ResourceClaim
from scheduler.model.dra.pod_claims import PodClaim
from scheduler.model.pods.pod import Pod
from scheduler.state import event as ev
from scheduler.state.dra.store import DraStore


class ClaimController:
    """The templates of the input, and the writes of the claims of ``store``.

    ``missing`` are the templates that pods name and the input does not have.
    """

    def __init__(self, store: DraStore) -> None:
        self.missing: set[str] = set()
        self._store = store
        self._templates: dict[str, ResourceClaim] = {}

    def add_template(self, template: ResourceClaim) -> None:
        """Add a template, as the claim that it describes."""
        self._templates[template.key] = template

    def with_created(self, pod: Pod) -> tuple[Pod, list[ResourceClaim]]:
        """The pod with the claims of its templates in its status, and these claims."""
        created: dict[str, ResourceClaim] = {}
        for use in pod.resource_claims.claims:
            claim = self._created(pod, use)
            if claim is not None:
                created[use.name] = claim
        names = {use: claim.name for use, claim in created.items()}
        return claim_changes.naming(pod, names), list(created.values())

    def _created(self, pod: Pod, use: PodClaim) -> ResourceClaim | None:
        if not use.template_name or use.has_status:
            return None
        key = f"{pod.namespace}/{use.template_name}"
        template = self._templates.get(key)
        if template is None:
            self.missing.add(key)
            return None
        name = generated_name(f"{pod.name}-{use.name}-", pod.uid, 0)
        return msgspec.structs.replace(
            template, name=name, uid=f"{pod.namespace}/{name}", owner_uid=pod.uid
        )

    def reserved(self, placement: Placement) -> list[ResourceClaim]:
        """The claims of a placed pod as they are before its Binding."""
        pod, plan = placement.pod, placement.claims
        if plan is None:
            return []
        written: list[ResourceClaim] = []
        for one in plan.claims:
            claim = self._store.claim(one.key)
            assert claim is not None, f"{one.key} was planned and is gone"
            written.append(claim_changes.reserved(claim, one, pod))
        if plan.extended is not None:
            name = generated_name(f"{pod.name}-extended-resources-", pod.uid, 0)
            written.append(claim_changes.extended(pod, plan.extended, name))
        return written

    def released(self, pod: Pod) -> list[ev.DraEvent]:
        """What the end of a pod does to its claims: they go with it, or lose its reservation."""
        names = [f"{pod.namespace}/{name}" for name in pod.resource_claims.names]
        claims = [*map(self._store.claim, names), self._store.extended_claim(pod.uid)]
        known = {claim.key: claim for claim in claims if claim is not None}
        return list(claim_changes.released(known.values(), pod.uid))

    def deallocated(self, ref: ClaimRef) -> ResourceClaim:
        """A claim whose allocation the scheduler gives up."""
        claim = self._store.claim(ref.key)
        assert claim is not None, f"{ref.key} is to be deallocated and is gone"
        return claim_changes.deallocated(claim)

    def remark(self) -> list[str]:
        """The pods that wait for a template."""
        if not self.missing:
            return []
        return [
            f"{len(self.missing)} ResourceClaimTemplates are not in the input, so pods wait for"
            f" their claims, such as {min(self.missing)}"
        ]


def waits_for_devices(claims: list[ResourceClaim]) -> Iterator[str]:
    """What the Binding of a pod with these claims waits for; the simulation does not wait."""
    missing = [text for claim in claims for text in binding_conditions(claim).waits_for]
    if missing:
        yield f"its Binding waits for {', '.join(missing)}"
