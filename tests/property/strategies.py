"""Random clusters for properties: every kind of node, honest and odd pods, owners that share."""

from __future__ import annotations

from hypothesis import strategies as st

from scheduler.model.node import Node
from scheduler.model.pods.pod import Pod
from tests.builders import node, pod

NODE_NAMES = ("n0", "n1", "n2", "n3")
OWNERS = ("", "StatefulSet/w", "Deployment/web@r1", "Deployment/web@r2")
#: A line for every index that a test can need, on few devices: pods get in each other's way.
MAPS = tuple(
    "\n".join(f"{index}={nodes[index % len(nodes)]}:{index % devices}" for index in range(10))
    for nodes, devices in ((("n0",), 4), (("n0", "n1"), 2), (("n1", "alias"), 3), (("n0",), 1))
)

#: Nodes whose GPUs are being cut, will be, were; and one whose "GPUs" are slices.
MIG_LABELS = (
    {"nvidia.com/mig.config.state": "pending"},
    {"nvidia.com/mig.config": "all-1g.10gb", "nvidia.com/gpu.deploy.mig-manager": "true"},
    {"nvidia.com/mig.config": "all-1g.10gb", "nvidia.com/mig.config.state": "success"},
    {"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB-MIG-1g.10gb"},
)


@st.composite
def nodes(draw: st.DrawFn, name: str | None = None) -> Node:
    """Nodes that advertise nothing, are numbered, are counted, have MIG; some are closed."""
    labels = {"zone": draw(st.sampled_from("ab"))}
    if draw(st.integers(0, 3)) == 0:
        labels["gpu-node-name"] = "alias"
    labels |= draw(st.sampled_from([{}, {}, {}, *MIG_LABELS]))
    return node(
        name or draw(st.sampled_from(NODE_NAMES)),
        gpus=draw(st.none() | st.integers(0, 4)),
        mig=draw(st.sampled_from([{}, {"3g.40gb": 0}, {"1g.10gb": 3, "2g.20gb": 2}])),
        with_gpu_indexes=draw(st.booleans()),
        labels=labels,
        taints=draw(st.sampled_from([[], [], [], ["slow:PreferNoSchedule"], ["gpu=x:NoSchedule"]])),
        cordoned=draw(st.integers(0, 9)) == 9,
        cpu=draw(st.sampled_from(["8", "8", "2", "0"])),
        pods=draw(st.sampled_from([110, 110, 5, 1])),
    )


def open_nodes(name: str) -> st.SearchStrategy[Node]:
    """Nodes that accept every pod, of the three device assignment modes."""
    return st.sampled_from(
        [
            node(name),
            node(name, gpus=3, with_gpu_indexes=True),
            node(name, gpus=3, mig={"1g.10gb": 2}),
        ]
    )


@st.composite
def crowds(draw: st.DrawFn) -> list[Pod]:
    """Pods of few workloads and two tenants that all want the same few devices."""
    return [
        pod(
            f"w-{draw(st.integers(0, 2))}",
            uid=f"u{number}",
            namespace=draw(st.sampled_from(["team", "other"])),
            owner=draw(st.sampled_from(["", "StatefulSet/w", "StatefulSet/v"])),
            gpus=draw(st.sampled_from([0, 0, 1])),
            annotations=draw(
                st.sampled_from([{}, *({"gpu-scheduling-map": text} for text in CROWDED)])
            ),
        )
        for number in range(draw(st.integers(2, 9)))
    ]


CROWDED = ("0=n0:0\n1=n0:0\n2=n0:1", "0=n0:0\n1=n0:1\n2=n0:0", "0=n1:0\n1=n0:0\n2=n0:2")


@st.composite
def wanted(draw: st.DrawFn, number: int) -> Pod:
    """A pod that wants a place: packed, or mapped."""
    mapped = draw(st.booleans())
    gpus = draw(st.sampled_from([0, 0, 1]) if mapped else st.integers(0, 2))
    return pod(
        f"w-{number}",
        namespace=draw(st.sampled_from(["team", "other"])),
        uid=f"u{number}",
        gpus=gpus,
        mig=draw(st.sampled_from([{}, {}, {}, {"1g.10gb": 1}, {"2g.20gb": 1}])),
        requests=draw(st.sampled_from([{}, {"cpu": "1"}])),
        owner=draw(st.sampled_from(OWNERS)),
        annotations={"gpu-scheduling-map": draw(st.sampled_from(MAPS))} if mapped else {},
        selector=draw(st.sampled_from([{}, {}, {}, {"zone": "a"}])),
        tolerations=draw(st.sampled_from([[], [{"key": "gpu", "operator": "Exists"}]])),
    )


@st.composite
def strangers(draw: st.DrawFn, number: int) -> Pod:
    """A pod bound by another scheduler, which may have overcommitted the node."""
    return pod(
        f"s-{number}",
        uid=f"s{number}",
        node=draw(st.sampled_from((*NODE_NAMES, "ghost"))),
        scheduler="default-scheduler",
        gpus=draw(st.integers(0, 3)),
        mig=draw(st.sampled_from([{}, {"1g.10gb": 2}])),
        requests=draw(st.sampled_from([{}, {"cpu": "4"}])),
    )


def several(count: int) -> st.SearchStrategy[list[Pod]]:
    """Pods that want a place, at most so many, each with its own uid."""
    return st.integers(count // 2, count).flatmap(
        lambda n: st.tuples(*(wanted(number) for number in range(n))).map(list)
    )
