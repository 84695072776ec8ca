"""What `gpuctl doctor` says of preemption."""

from __future__ import annotations

from gpuctl.doctor.checks import examine
from gpuctl.doctor.facts import Guard
from gpuctl.doctor.finding import Level
from gpuctl.doctor.rights import rights_of_preemption
from tests.unit.gpuctl.doctor.wellcluster import POLICIES, facts


def test_disabled_preemption_needs_no_policy_and_is_no_fault() -> None:
    policies = tuple(
        Guard(f"gpu-scheduler-{one}", True) for one in POLICIES if one != "preemptions"
    )
    off = facts(missing_for_preemption=tuple(rights_of_preemption()), policies=policies)

    found = {one.about: one for one in examine(off)}

    assert found["policies"].level is Level.OK
    assert found["preemption"].level is Level.OK
    assert "preemption.enabled is to be false" in found["preemption"].says
