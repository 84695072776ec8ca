"""Targets and labels as the Prometheus operator makes them of a ServiceMonitor."""

from __future__ import annotations

from typing import Any

from tools.monitoring.scrape import Pod, scrape_configs

Json = dict[str, Any]


def service(name: str, port: str, **labels: str) -> Json:
    meta = {"name": name, "namespace": "system", "labels": labels}
    return {"kind": "Service", "metadata": meta, "spec": {"ports": [{"name": port}]}}


def test_each_endpoint_has_the_pods_of_its_service() -> None:
    monitor: Json = {
        "metadata": {"name": "m", "namespace": "monitoring"},
        "spec": {
            "selector": {"matchLabels": {"app": "a"}},
            "endpoints": [
                {"port": "health", "honorLabels": True},
                {"port": "tls", "scheme": "https", "tlsConfig": {"insecureSkipVerify": True}},
            ],
        },
    }
    services = [
        service("plain", "health", app="a"),
        service("secure", "tls", app="a"),
        service("other", "health", app="b"),
    ]
    pod = Pod("p-0", {"health": "c", "tls": "d"}, {"health": "127.0.0.1:1", "tls": "127.0.0.1:2"})

    plain, secure = scrape_configs(monitor, services, [pod], cluster="west")

    assert (plain["job_name"], plain["honor_labels"]) == ("serviceMonitor/monitoring/m/0", True)
    assert plain["static_configs"] == [
        {
            "targets": ["127.0.0.1:1"],
            "labels": {
                "job": "plain",
                "namespace": "system",
                "service": "plain",
                "pod": "p-0",
                "container": "c",
                "endpoint": "health",
                "cluster": "west",
            },
        }
    ]
    assert (secure["scheme"], secure["honor_labels"]) == ("https", False)
    assert secure["tls_config"] == {"insecure_skip_verify": True}
    assert [one["labels"]["job"] for one in secure["static_configs"]] == ["secure"]
