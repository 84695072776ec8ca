"""Objects that the API server rejects, each with the field that its message names.

``gpuctl simulate`` rejects each with the same field; the same objects are sent to a real API server
in ``tests/controlplane/test_rejected_inputs.py``.
"""

from __future__ import annotations

from typing import Any, Final

Json = dict[str, Any]
GPU: Final = "nvidia.com/gpu"
RESOURCES: Final = "spec.containers[0].resources"
HARD: Final = "requiredDuringSchedulingIgnoredDuringExecution"
SOFT: Final = "preferredDuringSchedulingIgnoredDuringExecution"
TERMS: Final = f"spec.affinity.nodeAffinity.{HARD}.nodeSelectorTerms"


def container(**fields: Any) -> Json:
    """A container with a GPU."""
    return {"name": "app", "image": "app:1", "resources": {"limits": {GPU: "1"}}, **fields}


def pod(name: str = "a", *, meta: Json | None = None, **spec: Any) -> Json:
    """A pod that the API server accepts, before the changes."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, **(meta or {})},
        "spec": {"schedulerName": "gpu-scheduler", "containers": [container()], **spec},
    }


def with_resources(**sides: Json) -> Json:
    """A pod whose container has these requests and limits."""
    return pod(containers=[container(resources=sides)])


def workload(kind: str, *, spec: Json | None = None, template: Json | None = None) -> Json:
    """A workload that the API server accepts, before the changes."""
    labels, group = {"app": "a"}, "batch" if kind == "Job" else "apps"
    own: Json = {} if kind == "Job" else {"selector": {"matchLabels": labels}}
    made: Json = {"containers": [container()]} | (
        {"restartPolicy": "Never"} if kind == "Job" else {}
    )
    body = {"metadata": {"labels": labels}, "spec": made | (template or {})}
    return {
        "apiVersion": f"{group}/v1",
        "kind": kind,
        "metadata": {"name": "a"},
        "spec": {**own, "template": body, **(spec or {})},
    }


def with_node_terms(*terms: Json) -> Json:
    """A pod with a required node affinity."""
    return pod(affinity={"nodeAffinity": {HARD: {"nodeSelectorTerms": [*terms]}}})


def expression(**fields: Any) -> Json:
    """A term of one requirement."""
    return {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"], **fields}]}


def with_spread(**fields: Any) -> Json:
    """A pod with a spread constraint."""
    usual = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}
    return pod(topologySpreadConstraints=[{**usual, **fields}])


def with_mount(**fields: Any) -> Json:
    """A pod with a volume and a mount."""
    mounts = [{"name": "data", "mountPath": "/data", **fields}]
    return pod(
        volumes=[{"name": "data", "emptyDir": {}}], containers=[container(volumeMounts=mounts)]
    )


def without(holder: Json, *fields: str) -> Json:
    """A copy without some fields."""
    return {key: value for key, value in holder.items() if key not in fields}


#: Name of the case -> the object, and the field.
REJECTED: Final[dict[str, tuple[Json, str]]] = {
    # --- amounts
    "half-a-gpu": (with_resources(limits={GPU: 0.5}), f"{RESOURCES}.limits[{GPU}]"),
    "one-and-a-half-gpus": (with_resources(limits={GPU: "1.5"}), f"{RESOURCES}.limits[{GPU}]"),
    "milli-gpus": (with_resources(limits={GPU: "1500m"}), f"{RESOURCES}.limits[{GPU}]"),
    "negative-gpus": (with_resources(limits={GPU: "-1"}), f"{RESOURCES}.limits[{GPU}]"),
    "negative-cpu": (with_resources(requests={"cpu": "-1"}), f"{RESOURCES}.requests[cpu]"),
    "half-a-slice": (
        with_resources(limits={"nvidia.com/mig-1g.10gb": "0.5"}),
        f"{RESOURCES}.limits[nvidia.com/mig-1g.10gb]",
    ),
    "request-without-limit": (with_resources(requests={GPU: 1}), f"{RESOURCES}.limits"),
    "request-below-limit": (
        with_resources(requests={GPU: 1}, limits={GPU: 2}),
        f"{RESOURCES}.requests",
    ),
    "memory-request-above-limit": (
        with_resources(requests={"memory": "2Gi"}, limits={"memory": "1Gi"}),
        f"{RESOURCES}.requests",
    ),
    "resource-without-domain": (with_resources(limits={"gpu": 1}), f"{RESOURCES}.limits[gpu]"),
    "resource-with-a-bad-name": (
        with_resources(limits={"nvidia.com/g pu": 1}),
        f"{RESOURCES}.limits[nvidia.com/g pu]",
    ),
    "resource-with-a-name-of-quotas": (
        with_resources(limits={"requests.nvidia.com/gpu": 1}),
        f"{RESOURCES}.limits[requests.nvidia.com/gpu]",
    ),
    "init-container-with-half-a-gpu": (
        pod(initContainers=[container(name="first", resources={"limits": {GPU: "0.5"}})]),
        f"spec.initContainers[0].resources.limits[{GPU}]",
    ),
    # --- names
    "pod-name": (pod("Bad_Name"), "metadata.name"),
    "long-pod-name": (pod("a" * 254), "metadata.name"),
    "generated-name": (pod(meta={"name": "", "generateName": "Bad_"}), "metadata.generateName"),
    "label-key": (pod(meta={"labels": {"a b": "c"}}), "metadata.labels"),
    "label-value": (pod(meta={"labels": {"a": "b c"}}), "metadata.labels"),
    "annotation-key": (pod(meta={"annotations": {"a b": "c"}}), "metadata.annotations"),
    "container-name": (pod(containers=[container(name="App")]), "spec.containers[0].name"),
    "no-container-name": (
        pod(containers=[without(container(), "name")]),
        "spec.containers[0].name",
    ),
    "equal-container-names": (
        pod(containers=[container(), container()]),
        "spec.containers[1].name",
    ),
    "init-container-named-as-another": (
        pod(initContainers=[container()]),
        "spec.initContainers[0].name",
    ),
    "no-image": (pod(containers=[without(container(), "image")]), "spec.containers[0].image"),
    "volume-name": (pod(volumes=[{"name": "A", "emptyDir": {}}]), "spec.volumes[0].name"),
    "equal-volume-names": (
        pod(volumes=[{"name": "a", "emptyDir": {}}, {"name": "a", "emptyDir": {}}]),
        "spec.volumes[1].name",
    ),
    "mount-of-no-volume": (with_mount(name="model"), "spec.containers[0].volumeMounts[0].name"),
    "mount-without-path": (
        with_mount(mountPath=""),
        "spec.containers[0].volumeMounts[0].mountPath",
    ),
    "variable-without-name": (
        pod(containers=[container(env=[{"value": "1"}])]),
        "spec.containers[0].env[0].name",
    ),
    "restart-policy": (pod(restartPolicy="Sometimes"), "spec.restartPolicy"),
    "probe-in-an-init-container": (
        pod(initContainers=[container(name="b", livenessProbe={"exec": {"command": ["a"]}})]),
        "spec.initContainers[0].livenessProbe",
    ),
    # --- nodes
    "selector-value": (pod(nodeSelector={"a": "b c"}), "spec.nodeSelector"),
    "toleration-operator": (
        pod(tolerations=[{"key": "a", "operator": "Exist"}]),
        "spec.tolerations[0].operator",
    ),
    "toleration-without-key": (
        pod(tolerations=[{"value": "a"}]),
        "spec.tolerations[0].operator",
    ),
    "toleration-of-any-value-with-one": (
        pod(tolerations=[{"key": "a", "operator": "Exists", "value": "b"}]),
        "spec.tolerations[0].operator",
    ),
    "toleration-effect": (
        pod(tolerations=[{"key": "a", "effect": "NoSchedules"}]),
        "spec.tolerations[0].effect",
    ),
    "toleration-seconds-of-another-effect": (
        pod(tolerations=[{"key": "a", "effect": "NoSchedule", "tolerationSeconds": 1}]),
        "spec.tolerations[0].effect",
    ),
    "no-node-terms": (with_node_terms(), TERMS),
    "node-operator": (
        with_node_terms(expression(operator="Is")),
        f"{TERMS}[0].matchExpressions[0].operator",
    ),
    "node-values": (
        with_node_terms(expression(values=[])),
        f"{TERMS}[0].matchExpressions[0].values",
    ),
    "node-values-of-exists": (
        with_node_terms(expression(operator="Exists")),
        f"{TERMS}[0].matchExpressions[0].values",
    ),
    "node-values-to-compare": (
        with_node_terms(expression(operator="Gt", values=["1", "2"])),
        f"{TERMS}[0].matchExpressions[0].values",
    ),
    "node-weight": (
        pod(affinity={"nodeAffinity": {SOFT: [{"weight": 0, "preference": expression()}]}}),
        f"spec.affinity.nodeAffinity.{SOFT}[0].weight",
    ),
    "pod-term-without-topology-key": (
        pod(affinity={"podAntiAffinity": {HARD: [{"labelSelector": {}, "topologyKey": ""}]}}),
        f"spec.affinity.podAntiAffinity.{HARD}[0].topologyKey",
    ),
    "spread-skew": (with_spread(maxSkew=0), "spec.topologySpreadConstraints[0].maxSkew"),
    "spread-without-topology-key": (
        with_spread(topologyKey=""),
        "spec.topologySpreadConstraints[0].topologyKey",
    ),
    "spread-when": (
        with_spread(whenUnsatisfiable="Never"),
        "spec.topologySpreadConstraints[0].whenUnsatisfiable",
    ),
    # --- workloads
    "deployment-with-half-a-gpu": (
        workload(
            "Deployment", template={"containers": [container(resources={"limits": {GPU: 0.5}})]}
        ),
        f"spec.template.{RESOURCES}.limits[{GPU}]",
    ),
    "deployment-without-selector": (
        workload("Deployment", spec={"selector": {}}),
        "spec.selector",
    ),
    "deployment-of-other-labels": (
        workload("Deployment", spec={"selector": {"matchLabels": {"app": "b"}}}),
        "spec.template.metadata.labels",
    ),
    "deployment-whose-pods-end": (
        workload("Deployment", template={"restartPolicy": "Never"}),
        "spec.template.spec.restartPolicy",
    ),
    "stateful-set-without-selector": (
        workload("StatefulSet", spec={"selector": {}}),
        "spec.selector",
    ),
    "replica-set-of-other-labels": (
        workload("ReplicaSet", spec={"selector": {"matchLabels": {"app": "b"}}}),
        "spec.template.metadata.labels",
    ),
    "job-whose-pods-never-end": (
        workload("Job", template={"restartPolicy": "Always"}),
        "spec.template.spec.restartPolicy",
    ),
    "indexed-job-without-completions": (
        workload("Job", spec={"completionMode": "Indexed", "parallelism": 2}),
        "spec.completions",
    ),
    "job-mode": (workload("Job", spec={"completionMode": "Ordered"}), "spec.completionMode"),
    "job-name": (
        {**workload("Job"), "metadata": {"name": "Bad_Name"}},
        "metadata.name",
    ),
}

#: Objects near the cases above that the API server accepts.
ACCEPTED: Final[dict[str, Json]] = {
    "pod": pod(),
    "whole-gpus-as-a-decimal": with_resources(limits={GPU: "1.0"}),
    "half-a-cpu": with_resources(requests={"cpu": 0.5}, limits={"cpu": 1, GPU: "1k"}),
    "request-equal-to-limit": with_resources(requests={GPU: "1000m"}, limits={GPU: 1}),
    "other-vendor": with_resources(limits={"nvida.com/gpu": 1}),
    "dotted-name": pod("a.b-1"),
    "annotation-in-capitals": pod(meta={"annotations": {"Example.com/Some_Key": ""}}),
    "toleration-of-all": pod(tolerations=[{"operator": "Exists"}]),
    "node-terms": with_node_terms(expression(), {}),
    "spread": with_spread(labelSelector={"matchLabels": {"a": "b"}}),
    "mount": with_mount(),
    "sidecar-with-a-probe": pod(
        initContainers=[
            container(name="b", restartPolicy="Always", livenessProbe={"exec": {"command": ["a"]}})
        ]
    ),
    "deployment": workload("Deployment"),
    "replica-set": workload("ReplicaSet"),
    "stateful-set-with-claims": workload(
        "StatefulSet",
        spec={
            "volumeClaimTemplates": [
                {
                    "metadata": {"name": "data"},
                    "spec": {
                        "accessModes": ["ReadWriteOnce"],
                        "resources": {"requests": {"storage": "1Gi"}},
                    },
                }
            ]
        },
        template={"containers": [container(volumeMounts=[{"name": "data", "mountPath": "/data"}])]},
    ),
    "job": workload("Job", spec={"completionMode": "Indexed", "completions": 2}),
    "indexed-job-of-one-pod": workload("Job", spec={"completionMode": "Indexed"}),
}
