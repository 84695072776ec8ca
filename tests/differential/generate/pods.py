"""Random pod templates: each uses a few of the fields that decide where its pods may run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from tests.differential.generate.draws import Draws
from tests.differential.generate.nodes import EXTENDED, LABELS
from tests.differential.generate.selectors import (
    NAMESPACE_LABELS,
    POD_LABELS,
    label_selector,
    node_term,
    toleration,
)
from tests.differential.sequence import Workload

Json = dict[str, Any]

NAMESPACES: Final = ("red", "green", "blue")
#: A pod may have each port once.
_PORTS: Final = (80, 81)
_SIDECAR_PORT: Final = 82
_PORT_COUNTS: Final = (0, 0, 0, 0, 0, 0, 0, 0, 1, 2)
_TOPOLOGY: Final = ("zone", "zone", "rack", "kubernetes.io/hostname")


def workload(draws: Draws, names: tuple[str, ...]) -> Workload:
    """A template; ``names`` are those of the nodes."""
    labels = {key: draws.one(values) for key, values in POD_LABELS.items() if draws.chance(0.8)}
    spec: Json = {}
    affinity: Json = {}
    for add in draws.some(_FIELDS, draws.one((0, 1, 1, 1, 2, 2, 3))):
        add(draws, names, spec, affinity)
    if affinity:
        spec["affinity"] = affinity
    return Workload(
        namespace=draws.one(("red", "red", *NAMESPACES)),
        labels=labels,
        requests=_requests(draws),
        ports=tuple(_port(draws, port) for port in draws.some(_PORTS, draws.one(_PORT_COUNTS))),
        priority=draws.one(("", "", "", "low", "high")),
        spec=spec,
    )


def uses_host_ports(workload: Workload) -> bool:
    """Whether a pod of the workload uses a port of its node."""
    containers = workload.spec.get("initContainers", ())
    return bool(workload.ports) or any("ports" in one for one in containers)


def _requests(draws: Draws) -> dict[str, str]:
    found: dict[str, str] = {}
    if draws.chance(0.7):
        found["cpu"] = draws.one(("100m", "250m", "0.3", "1"))
    if draws.chance(0.5):
        found["memory"] = draws.one(("64Mi", "128Mi", "300M", "0.5Gi"))
    if draws.chance(0.15):
        found[draws.one(EXTENDED)] = draws.one(("1", "1", "2"))
    return found


def _port(draws: Draws, port: int) -> Json:
    found: Json = {"containerPort": port, "hostPort": port}
    if draws.chance(0.3):
        found["protocol"] = "UDP"
    if draws.chance(0.4):
        found["hostIP"] = draws.one(("127.0.0.1", "127.0.0.2", "0.0.0.0"))  # noqa: S104 - in a pod
    return found


def _tolerations(draws: Draws, _names: tuple[str, ...], spec: Json, _affinity: Json) -> None:
    spec["tolerations"] = [toleration(draws) for _ in range(draws.number(1, 2))]


def _node_selector(draws: Draws, _names: tuple[str, ...], spec: Json, _affinity: Json) -> None:
    key = draws.one(("zone", "disk", "rack"))
    spec["nodeSelector"] = {key: draws.one(LABELS[key])}


def _node_affinity(draws: Draws, names: tuple[str, ...], _spec: Json, affinity: Json) -> None:
    rules: Json = {}
    if draws.chance(0.8):
        terms = [node_term(draws, names) for _ in range(draws.one((1, 1, 2)))]
        rules["required"] = {"nodeSelectorTerms": terms}
    if not rules or draws.chance(0.2):
        term = {"weight": draws.number(1, 100), "preference": node_term(draws, names)}
        rules["preferred"] = [term]
    affinity["nodeAffinity"] = rules


def _pod_affinity(draws: Draws, _names: tuple[str, ...], _spec: Json, affinity: Json) -> None:
    affinity["podAffinity"] = _pod_rules(draws)


def _pod_anti_affinity(draws: Draws, _names: tuple[str, ...], _spec: Json, affinity: Json) -> None:
    affinity["podAntiAffinity"] = _pod_rules(draws)


def _pod_rules(draws: Draws) -> Json:
    rules: Json = {}
    if draws.chance(0.85):
        rules["required"] = [_pod_term(draws) for _ in range(draws.one((1, 1, 1, 2)))]
    if not rules or draws.chance(0.15):
        rules["preferred"] = [{"weight": draws.number(1, 100), "podAffinityTerm": _pod_term(draws)}]
    return rules


def _pod_term(draws: Draws) -> Json:
    term: Json = {"topologyKey": draws.one(_TOPOLOGY)}
    if draws.chance(0.95):
        term["labelSelector"] = label_selector(draws, POD_LABELS)
    match draws.number(0, 7):
        case 0 | 1:
            term["namespaces"] = draws.some(NAMESPACES, draws.number(1, 2))
        case 2 | 3:
            term["namespaceSelector"] = label_selector(draws, NAMESPACE_LABELS)
        case 4:
            term["namespaces"] = [draws.one(NAMESPACES)]
            term["namespaceSelector"] = label_selector(draws, NAMESPACE_LABELS)
    if "labelSelector" in term and draws.chance(0.15):
        # The API server refuses a key that the selector has.
        field = draws.one(("matchLabelKeys", "mismatchLabelKeys"))
        if "rev" not in str(term["labelSelector"]):
            term[field] = ["rev"]
    return term


def _spread(draws: Draws, _names: tuple[str, ...], spec: Json, _affinity: Json) -> None:
    # The API server refuses two constraints with one topologyKey and whenUnsatisfiable.
    keys = draws.some(("zone", "rack", "kubernetes.io/hostname"), draws.one((1, 1, 2)))
    spec["topologySpreadConstraints"] = [_constraint(draws, key) for key in keys]


def _constraint(draws: Draws, key: str) -> Json:
    is_hard = draws.chance(0.85)
    found: Json = {
        "topologyKey": key,
        "maxSkew": draws.one((1, 1, 1, 2)),
        "whenUnsatisfiable": "DoNotSchedule" if is_hard else "ScheduleAnyway",
    }
    if draws.chance(0.95):
        found["labelSelector"] = label_selector(draws, POD_LABELS)
        if draws.chance(0.15) and "rev" not in str(found["labelSelector"]):
            found["matchLabelKeys"] = ["rev"]
    if is_hard and draws.chance(0.25):
        found["minDomains"] = draws.number(1, 4)
    for field in ("nodeAffinityPolicy", "nodeTaintsPolicy"):
        if draws.chance(0.3):
            found[field] = draws.one(("Honor", "Ignore"))
    return found


def _init_containers(draws: Draws, _names: tuple[str, ...], spec: Json, _affinity: Json) -> None:
    containers = []
    for number in range(draws.number(1, 2)):
        is_sidecar = draws.chance(0.5)
        requests = {"cpu": draws.one(("200m", "1") if is_sidecar else ("200m", "2"))}
        container: Json = {
            "name": f"init{number}",
            "image": "registry.example/init:1",
            "resources": {"requests": requests},
        }
        if is_sidecar:
            container["restartPolicy"] = "Always"
            if draws.chance(0.5):
                container["ports"] = [_port(draws, _SIDECAR_PORT + number)]
        containers.append(container)
    spec["initContainers"] = containers
    if draws.chance(0.3):
        # More than the containers together, as the API server demands.
        spec["resources"] = {"requests": {"cpu": draws.one(("3500m", "5"))}}


_Add = Callable[[Draws, tuple[str, ...], Json, Json], None]
_FIELDS: Final[tuple[_Add, ...]] = (
    _tolerations,
    _node_selector,
    _node_affinity,
    _pod_affinity,
    _pod_anti_affinity,
    _pod_anti_affinity,
    _spread,
    _spread,
    _init_containers,
)
