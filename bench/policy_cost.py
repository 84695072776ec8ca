"""The cost of the policy on protected annotations for a pod with very many of them.

python -m bench.policy_cost [--rounds N] [--annotations N] [--policy FILE ...]

A pod of another scheduler with this many annotations is created, and its status is written; in turn
without any policy, and with each of the files. Any user can create such a pod, and the API server
evaluates the policy for each write. The last line is JSON; times in seconds, medians over the
rounds.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any, Final

from bench.control_plane import without_kubelets
from tools.controlplane import ApiError, Client, ControlPlane, wait_until
from tools.product import ROOT

SHIPPED: Final = ROOT / "cluster" / "admission-policies.yaml"
PODS: Final = "/api/v1/namespaces/default/pods"
ACCOUNTS: Final = "/api/v1/namespaces/default/serviceaccounts"
FORGED: Final = "gpu-scheduler.io/devices"
#: Excludes the API server's own warm-up from the comparison.
WARM_UP: Final = 1


def pod(name: str, annotations: dict[str, str]) -> dict[str, Any]:
    """A pod of another scheduler."""
    return {
        "metadata": {"name": name, "annotations": annotations},
        "spec": {"schedulerName": "another", "containers": [{"name": "app", "image": "none"}]},
    }


def timed(action: Callable[[], object]) -> float:
    """The duration in seconds."""
    began = time.perf_counter()
    action()
    return time.perf_counter() - began


def once(client: Client, annotations: dict[str, str]) -> tuple[float, float]:
    """Seconds of a creation and of a write of the status."""
    created = timed(lambda: client.create(PODS, pod("many", annotations)))
    body = {"status": {"message": "seen"}}
    written = timed(lambda: client.patch(f"{PODS}/many/status", body))
    client.delete(f"{PODS}/many", {"gracePeriodSeconds": 0})
    return created, written


def is_guarded(client: Client) -> bool:
    """Whether a policy rejects annotations that only a Binding may write."""
    try:
        client.create(f"{PODS}?dryRun=All", pod("probe", {FORGED: "gpu:0"}))
    except ApiError as error:
        return "only gpu-scheduler may" in str(error)
    return False


def guard(plane: ControlPlane, policy: Path | None) -> None:
    """Activate this policy, or none."""
    for kind in ("validatingadmissionpolicybinding", "validatingadmissionpolicy"):
        plane.kubectl("delete", kind, "--all")
    wait_until(lambda: not is_guarded(plane.client), what="no policy to be in force")
    if policy is not None:
        plane.kubectl("apply", "-f", str(policy))
        wait_until(lambda: is_guarded(plane.client), what=f"{policy} to be in force")


def measure(plane: ControlPlane, count: int, rounds: int, policies: list[Path]) -> dict[str, Any]:
    """The medians of each policy, by name."""
    annotations = {f"a{number:x}": "" for number in range(count)}
    ways: dict[str, Path | None] = {"none": None} | {path.stem: path for path in policies}
    seen: dict[str, list[tuple[float, float]]] = {name: [] for name in ways}
    for _ in range(rounds):
        for name, policy in ways.items():
            guard(plane, policy)
            for _ in range(WARM_UP):
                once(plane.client, annotations)
            seen[name].append(once(plane.client, annotations))
    return {
        name: {
            "create_s": round(median(created for created, _ in times), 3),
            "status_s": round(median(written for _, written in times), 3),
        }
        for name, times in seen.items()
    }


def main() -> None:
    """Run the benchmark, and print the result."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--annotations", type=int, default=20_000)
    parser.add_argument("--policy", type=Path, nargs="*", default=[SHIPPED])
    told = parser.parse_args()
    with without_kubelets() as (plane, _):
        plane.client.create(ACCOUNTS, {"metadata": {"name": "default"}})
        found = measure(plane, told.annotations, told.rounds, told.policy)
    none = found["none"]
    for name, one in found.items():
        ratio = one["status_s"] / none["status_s"]
        print(f"{name:24} create {one['create_s']:6.3f} s  status {one['status_s']:6.3f} s", end="")
        print(f"  {ratio:.2f} times none")
    print(json.dumps({"annotations": told.annotations, "rounds": told.rounds, **found}))


if __name__ == "__main__":
    main()
