"""A running kube-scheduler has no metric under one of our names: panels never add its pods."""

from __future__ import annotations

import re
import ssl
import urllib.request

from tests.controlplane.dra_objects import kube_scheduler
from tools.controlplane import ControlPlane, wait_until
from tools.product import Product


def families(url: str, tls: ssl.SSLContext | None = None) -> set[str]:
    """The metrics of a page, by their names without the suffix of a sample, except process_*: these
    are those of the Prometheus client in every program.
    """
    with urllib.request.urlopen(url, timeout=30, context=tls) as answer:  # noqa: S310  # loopback
        page = answer.read().decode()
    names = re.findall(r"^# TYPE (\S+)", page, re.MULTILINE)
    return {name for name in names if not name.startswith("process_")}


def test_no_metric_has_a_name_of_kube_schedulers(cp: ControlPlane, product: Product) -> None:
    tls = ssl.create_default_context(cafile=str(cp.ca_certificate))
    with kube_scheduler(cp):
        wait_until(lambda: cp.is_ready("kube-scheduler"), what="kube-scheduler to be ready")
        theirs = families(f"https://127.0.0.1:{cp.layout.ports.scheduler}/metrics", tls)
    ours = families(f"http://127.0.0.1:{product.health_port}/metrics")

    assert any(name.startswith("scheduler_") for name in theirs)
    assert "gpu_scheduler_pending_pods" in ours
    assert ours & theirs == set()
    assert {name for name in theirs if name.startswith("gpu_scheduler_")} == set()
