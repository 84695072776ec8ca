"""Random DeviceClasses and specs of ResourceClaims."""

from __future__ import annotations

from typing import Any, Final

from tests.differential.generate.devices import GPU, NIC, RACK
from tests.differential.generate.draws import Draws
from tests.differential.sequence import SetObject

Json = dict[str, Any]

CLASSES: Final = ("any", "gpus", "nics")
_DRIVERS: Final = {"gpus": GPU, "nics": NIC}
_ATTRIBUTES: Final = (f"{GPU}/model", f"{GPU}/numa", f"{RACK}/root", f"{RACK}/mixed")


def device_class(draws: Draws, name: str) -> SetObject:
    """One of the classes; it may serve an extended resource."""
    spec: Json = {}
    if name in _DRIVERS:
        spec["selectors"] = [_cel(f'device.driver == "{_DRIVERS[name]}"')]
    if name == "gpus" and draws.chance(0.8):
        spec["extendedResourceName"] = "nvidia.com/gpu"
    if name == "nics" and draws.chance(0.6):
        spec["extendedResourceName"] = "example.com/widget"
    return SetObject("deviceclasses", {"metadata": {"name": name}, "spec": spec})


def claim_spec(draws: Draws, counts: tuple[int, ...] = (1, 1, 1, 2, 2, 3)) -> Json:
    """The spec of a claim with so many requests."""
    requests = [_request(draws, f"r{at}") for at in range(draws.one(counts))]
    devices: Json = {"requests": requests}
    if draws.chance(0.25):
        field = "matchAttribute" if draws.chance(0.65) else "distinctAttribute"
        constraint: Json = {field: draws.one(_ATTRIBUTES)}
        names = _some_names(draws, requests)
        if names:
            constraint["requests"] = names
        devices["constraints"] = [constraint]
    return {"devices": devices}


def _some_names(draws: Draws, requests: list[Json]) -> list[str]:
    """Some requests, or their first subrequests; none means all."""
    found = []
    for one in requests:
        if draws.chance(0.4):
            sub = one.get("firstAvailable", ())
            is_sub = bool(sub) and draws.chance(0.5)
            found.append(f"{one['name']}/{sub[0]['name']}" if is_sub else one["name"])
    return found


def _request(draws: Draws, name: str) -> Json:
    if draws.chance(0.25):
        count = draws.number(1, 3)
        return {
            "name": name,
            "firstAvailable": [{"name": f"s{at}", **_asked(draws)} for at in range(count)],
        }
    exactly = _asked(draws)
    if draws.chance(0.06):
        exactly["adminAccess"] = True
    return {"name": name, "exactly": exactly}


def _asked(draws: Draws) -> Json:
    found: Json = {
        "deviceClassName": draws.one(("any", "gpus", "gpus", "nics"))
        if draws.chance(0.985)
        else "absent"
    }
    if draws.chance(0.05):
        found["allocationMode"] = "All"
    elif draws.chance(0.3):
        found["count"] = draws.number(2, 3)
    for field, drawn in (
        ("selectors", _selectors(draws)),
        ("tolerations", _tolerations(draws)),
        ("capacity", _capacity(draws)),
    ):
        if drawn:
            found[field] = drawn
    return found


def _cel(expression: str) -> Json:
    return {"cel": {"expression": expression}}


def _selectors(draws: Draws) -> list[Json]:
    if draws.chance(0.7):
        return []
    texts = [
        f'device.attributes[device.driver].model == "{draws.one("ab")}"',
        f'device.attributes["{GPU}"].?size.orValue(0) == {draws.number(1, 2)}',
        f'device.driver == "{GPU}"',
        f'"memory" in device.capacity["{GPU}"]',
        "!device.allowMultipleAllocations",
    ]
    if draws.chance(0.07):  # it fails where the attribute is missing
        texts = [f'device.attributes["{GPU}"].numa == 1']
    return [_cel(draws.one(texts))]


def _tolerations(draws: Draws) -> list[Json]:
    if draws.chance(0.55):
        return []
    return [
        draws.one(
            (
                {"operator": "Exists"},
                {"key": "broken", "operator": "Exists", "effect": "NoSchedule"},
                {"key": "slow", "operator": "Equal", "value": "yes"},
            )
        )
    ]


def _capacity(draws: Draws) -> Json:
    if draws.chance(0.75):
        return {}
    amounts = {"memory": draws.one(("1Gi", "1500Mi", "3Gi", "5Gi", "8Gi"))}
    if draws.chance(0.3):
        amounts["cores"] = draws.one(("1", "600m", "100m", "2300m", "700u"))
    return {"requests": amounts}
