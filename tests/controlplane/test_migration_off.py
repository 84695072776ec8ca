"""With `restore.mode: off` the scheduler works without the rights for migrations."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.controlplane.audit_log import audited, now
from tests.controlplane.conftest import MakeNode
from tests.controlplane.rights import decisions, granted_rights, used_rights
from tests.controlplane.workloads import Watcher, pod
from tests.unit.gpuctl.cli import gpuctl
from tools.controlplane import ControlPlane, ControlPlaneError, wait_until
from tools.product import ACCOUNT, ROOT, Product

ROLES: Final = str(ROOT / "cluster/rbac-migrations.yaml")
USER: Final = f"system:serviceaccount:{ACCOUNT.replace('/', ':')}"


@pytest.fixture
def product(cp: ControlPlane, tmp_path: Path) -> Iterator[Product]:
    """Restarted after the rights are removed."""
    with Product(cp, tmp_path / "product", config={"restore": {"mode": "off"}}) as running:
        running.stop("scheduler")
        cp.kubectl("delete", "-f", ROLES)
        wait_until(lambda: not may_evict(cp), what="the rights to be gone")
        try:
            yield running
        finally:
            cp.kubectl("apply", "-f", ROLES)
            wait_until(lambda: may_evict(cp), what="the rights to be back")


def may_evict(cp: ControlPlane) -> bool:
    """Whether the account has the right."""
    try:
        words = ("auth", "can-i", "create", "pods", "--subresource=eviction")
        cp.kubectl(*words, f"--as={USER}")
    except ControlPlaneError:
        return False
    return True


def test_migration_off_places_pods_without_migration_rights(
    cp: ControlPlane, product: Product, namespace: str, kwok_node: MakeNode
) -> None:
    before = now(cp)
    kwok_node("still", gpus=2)
    here = Watcher(cp, namespace)

    product.start_scheduler()
    here.create(pod("one", limits={"nvidia.com/gpu": "1"}))
    here.wait_bound(1)

    events = audited(cp, USER, before)
    assert decisions(events) == {"allow"}
    only_migrations = granted_rights("rbac-migrations.yaml") - granted_rights(
        "rbac-preemption.yaml"
    )
    assert not used_rights(events) & only_migrations
    said = gpuctl("doctor", "--kubeconfig", str(cp.kubeconfig), "-n", namespace, "-o", "json")
    (moves,) = [one for one in json.loads(said.out) if one["about"] == "moves"]
    assert moves["level"] == "OK"
    assert "has no right to migrate pods" in moves["says"]
