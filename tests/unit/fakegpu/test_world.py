"""What the controller makes of its watches, and of its settings."""

from __future__ import annotations

import operator
from pathlib import Path

import pytest

from fakegpu.api_types import Listed, MapFacts, NodeFacts, Seen
from fakegpu.config import Config, ConfigError, parse
from fakegpu.controller.cluster_cache import ClusterCache
from fakegpu.controller.node_events import (
    ConfigMapEvents,
    NodeEvents,
    PluginConfigEvents,
    PodEvents,
)
from fakegpu.environment import load, with_environment
from fakegpu.pod_decode import PodFacts
from tests.unit.fakegpu.nodes import GPU, slicing, use

POOL = "run.ai/simulated-gpu-node-pool"
TWO = "nodePools: {p: {gpus: [{type: t4, count: 2}]}, q: {gpus: [{type: l4}]}}"


def node(name: str, pool: str = "p") -> NodeFacts:
    return NodeFacts(name=name, labels={POOL: pool})


def config_map(name: str, text: str, key: str = "topology.yml", **labels: str) -> MapFacts:
    return MapFacts(name=name, labels=labels, data={key: text})


def world(text: str = TWO) -> ClusterCache:
    """A world with one node, everything looked at."""
    found = ClusterCache("topology")
    found.fold(ConfigMapEvents(Seen("topology", config_map("topology", text))))
    found.fold(NodeEvents(Seen("a", node("a"))))
    taken(found)
    return found


def taken(found: ClusterCache) -> set[str]:
    names = set(found.dirty)
    found.dirty.clear()
    return names


def test_a_node_is_looked_at_when_it_changes_and_not_when_it_does_not() -> None:
    found = world()

    found.fold(NodeEvents(Seen("a", node("a"))))
    assert taken(found) == set()
    found.fold(NodeEvents(Seen("a", node("a", "q"))))
    assert taken(found) == {"a"}
    found.fold(NodeEvents(Seen("a", None)))
    assert taken(found) == {"a"}


@pytest.mark.contract("S1-B4")
def test_changed_pools_reconcile_every_node_and_equal_pools_none() -> None:
    found = world()

    found.fold(ConfigMapEvents(Seen("topology", config_map("topology", TWO, note="relabelled"))))
    assert taken(found) == set()
    found.fold(ConfigMapEvents(Seen("topology", config_map("topology", TWO.replace("2", "3")))))

    assert taken(found) == {"a"}
    pool = found.pool("p")
    assert pool is not None
    assert len(pool.gpus) == 3


@pytest.mark.contract("S1-B2", "S1-B13", "S1-B24")
def test_unreadable_change_keeps_the_former_value_and_is_logged_once() -> None:
    found = world()
    broken = TWO.replace("type: t4", "typ: t4").replace("l4", "l40s")

    found.fold(ConfigMapEvents(Seen("topology", config_map("topology", broken))))
    assert [problem.partition(":")[0] for problem in found.problems] == ["nodePools.p.gpus[0]"]
    pools = found.pool("p"), found.pool("q")
    assert [pool.gpus[0].product if pool else "" for pool in pools] == ["NVIDIA T4", "NVIDIA L40S"]

    found.fold(ConfigMapEvents(Seen("topology", config_map("topology", "nodePools: ["))))
    found.fold(ConfigMapEvents(Seen("topology", None)))
    assert found.pool("p") is not None
    assert len(found.problems) == 3


@pytest.mark.contract("S1-B6", "S1-B7")
def test_what_a_list_does_not_name_any_more_is_gone() -> None:
    """Deletions without a watch event: the next list is authoritative, for nodes, pods and maps."""
    found = world()
    pods = {f"u{n}": PodFacts("a", use(f"p{n}")) for n in range(2)}
    found.fold(PodEvents(Listed(pods)))
    assert len(found.pods_on("a")) == 2

    found.fold(PodEvents(Listed({"u1": pods["u1"]})))
    assert [pod.name for pod in found.pods_on("a")] == ["p1"]
    assert taken(found) == {"a"}
    found.fold(PodEvents(Listed({"u1": PodFacts("b", use("p1"))})))
    assert (found.pods_on("a"), taken(found)) == ([], {"a", "b"})
    found.fold(NodeEvents(Listed({})))
    assert taken(found) == {"a"}
    found.fold(ConfigMapEvents(Listed({"topology-gone": config_map("topology-gone", "")})))
    assert "gone" in taken(found)


@pytest.mark.contract("S1-21", "S1-23")
def test_changed_profile_config_map_changes_its_pools() -> None:
    def profile(count: int) -> ConfigMapEvents:
        text = (
            f"device_count: {count}\n"
            "device_defaults: {name: Mine, memory: {total_bytes: 1073741824}}\n"
        )
        return ConfigMapEvents(
            Seen("gpu-profile-x", config_map("gpu-profile-x", text, "profile.yaml"))
        )

    found = world("nodePools: {p: {gpu: {profile: x}}}")
    assert found.topology is not None
    assert "no profile 'x'" in found.topology.problems["p"]
    for count in (3, 4):
        found.fold(profile(count))
        pool = found.pool("p")
        assert pool is not None
        assert len(pool.gpus) == count
        assert taken(found) == {"a"}


@pytest.mark.contract("S4-15")
def test_plugin_files_are_reloaded_and_an_invalid_one_is_kept() -> None:
    def file(text: str) -> PluginConfigEvents:
        return PluginConfigEvents(
            Seen("device-plugin-config", config_map("x", text, "config.yaml"))
        )

    def replicas(found: ClusterCache) -> int:
        config = found.plugin_config(node("a"))
        assert config is not None
        shared = config.sharing.of(GPU)
        return shared.replicas if shared else 1

    found = world()
    found.fold(file(slicing(4)))
    assert (replicas(found), taken(found)) == (4, {"a"})
    found.fold(file("sharing: 3"))
    assert (replicas(found), len(found.problems)) == (4, 1)
    found.fold(file(slicing(2)))
    assert replicas(found) == 2


@pytest.mark.contract("S1-2", "S1-12")
def test_the_label_and_the_config_maps_name_are_configuration() -> None:
    found = ClusterCache("pools")
    text = f"nodePoolLabelKey: mine\n{TWO}"

    found.fold(ConfigMapEvents(Seen("pools", config_map("pools", text))))

    assert found.pool_name(NodeFacts(name="n", labels={"mine": "q"})) == "q"
    assert found.map_name("n") == "pools-n"


@pytest.mark.contract("S1-11", "S1-12")
def test_the_seeds_environment_goes_before_the_file(tmp_path: Path) -> None:
    file = tmp_path / "fakegpu.yaml"
    file.write_text(
        "apiVersion: gpu-scheduler.io/v1\nkind: FakeGpuConfiguration\n"
        "topology: {name: mine, namespace: there}\n"
    )
    told = {
        "TOPOLOGY_CM_NAME": "theirs",
        "FAKE_GPU_OPERATOR_NAMESPACE": "elsewhere",
        "RESOURCE_RESERVATION_NAMESPACE": "reserved",
        "DISABLE_NODE_LABELING": "true",
        "LEADER_ELECT": "false",
    }

    plain, found = load(file, {}), load(file, told)

    assert (plain.topology.name, plain.topology.namespace) == ("mine", "there")
    assert (found.topology.name, found.topology.namespace) == ("theirs", "elsewhere")
    assert found.reservation_namespace == "reserved"
    assert not found.node_labels.enabled
    assert not found.leader_election.leader_elect
    assert load(None, {}) == Config()


VARIABLES = [
    ("FAKE_GPU_OPERATOR_NAMESPACE", "there", "topology.namespace", "there"),
    ("TOPOLOGY_CM_NAME", "mine", "topology.name", "mine"),
    ("TOPOLOGY_CM_NAMESPACE", "there", "topology.namespace", "there"),
    ("RESOURCE_RESERVATION_NAMESPACE", "kept", "reservation_namespace", "kept"),
    ("PROMETHEUS_URL", "http://p:1", "node.prometheus_url", "http://p:1"),
    ("DISABLE_NODE_LABELING", "true", "node_labels.enabled", False),
    ("NODE_RESOURCE_TOPOLOGY_ENABLED", "true", "node_resource_topology.enabled", True),
    ("POD_RESOURCES_ENABLED", "true", "node.pod_resources_folder", "/var/lib/fake-gpu-operator"),
    ("TOPOLOGY_MAX_EXPORT_INTERVAL", "3s", "node.export_interval_s", 3.0),
    ("LEADER_ELECT", "false", "leader_election.leader_elect", False),
    ("CDI_ROOT", "/cdi", "dra.cdi_folder", "/cdi"),
    ("KUBELET_REGISTRAR_DIRECTORY_PATH", "/r", "dra.registrar_folder", "/r"),
    ("KUBELET_PLUGINS_DIRECTORY_PATH", "/p", "dra.plugins_folder", "/p"),
    ("HEALTHCHECK_PORT", "8082", "dra.health_port", 8082),
]


@pytest.mark.contract("S1-11")
@pytest.mark.parametrize(("name", "value", "setting", "wanted"), VARIABLES)
def test_each_variable_of_the_seed_sets_what_it_set_there(
    name: str, value: str, setting: str, wanted: object
) -> None:
    get = operator.attrgetter(setting)

    assert get(load(None, {})) != wanted
    assert get(load(None, {name: value})) == wanted


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        pytest.param("worker: 3", "unknown field `worker`", id="typo"),
        pytest.param(
            "kind: Pod", "expected apiVersion gpu-scheduler.io/v1 and kind Fake", id="kind"
        ),
        pytest.param("mig: {failureRate: 2}", "$.mig.failureRate", id="rate"),
        pytest.param("leaderElection: {leaseDurationS: 1}", "$.leaderElection: need", id="lease"),
    ],
)
def test_a_configuration_that_cannot_be_used_says_where(text: str, problem: str) -> None:
    with pytest.raises(ConfigError) as refused:
        parse(text.encode())

    assert problem in str(refused.value)


def test_an_environment_that_cannot_be_used_is_named() -> None:
    with pytest.raises(ConfigError, match="environment LEADER_ELECT: expected true or false"):
        with_environment(Config(), {"LEADER_ELECT": "perhaps"})
