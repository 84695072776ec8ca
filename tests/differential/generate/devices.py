"""Random pools of devices: whole, shared, and partitions with counters; on one node or on several.

What a device has never changes, but for its taints: a device that is allocated and then published
otherwise is another subject (difference D9).
"""

from __future__ import annotations

from typing import Any, Final

from tests.differential.generate.draws import Draws
from tests.differential.sequence import DeleteObject, SetObject

Json = dict[str, Any]

KIND: Final = "resourceslices"
GPU: Final = "gpu.example.com"
NIC: Final = "nic.example.com"
RACK: Final = "rack.example.com"
#: The slices of a card, and how its partitions are listed.
_CARD: Final = 4
_SIZES: Final = ((4, 2, 1), (1, 2, 4), (2, 1))


class Pool:
    """One pool as its driver publishes it: devices in one slice or in two."""

    def __init__(self, driver: str, name: str, where: Json) -> None:
        self.driver = driver
        self.name = name
        self.where = where
        self.generation = 1
        #: The content of each slice.
        self.parts: list[Json] = []
        #: More slices than there are: the pool is incomplete.
        self.missing = 0

    def slices(self) -> list[SetObject]:
        """All slices."""
        return [self.slice(at) for at in range(len(self.parts))]

    def slice(self, at: int, generation: int | None = None) -> SetObject:
        """One slice."""
        pool = {
            "name": self.name,
            "generation": self.generation if generation is None else generation,
            "resourceSliceCount": len(self.parts) + self.missing,
        }
        spec = {"driver": self.driver, "pool": pool, **self.where, **self.parts[at]}
        return SetObject(KIND, {"metadata": {"name": self.slice_name(at)}, "spec": spec})

    def slice_name(self, at: int) -> str:
        """The name of a slice."""
        return f"{self.name}-{self.driver[:3]}-{at}"

    def without(self, at: int) -> DeleteObject:
        """A slice is deleted."""
        return DeleteObject(KIND, self.slice_name(at))

    def whole_devices(self) -> list[str]:
        """The devices that one claim has alone, and that have no counters."""
        return [
            str(device["name"])
            for part in self.parts
            for device in part.get("devices", ())
            if not device.keys() & {"consumesCounters", "allowMultipleAllocations"}
        ]


class Pools:
    """The pools of a cluster, and changes of them."""

    def __init__(self, draws: Draws, nodes: tuple[str, ...]) -> None:
        self._draws = draws
        self._nodes = nodes
        self._named = 0
        self.every: list[Pool] = []
        for node in nodes:
            self._add_local(node)
        if draws.chance(0.6):
            self._add_shared()

    def objects(self) -> list[SetObject]:
        """Every slice; of some pools also one of an older generation."""
        found = []
        for pool in self.every:
            if self._draws.chance(0.15) and "devices" in pool.parts[0]:
                old = pool.slice(0, generation=0).manifest
                old["metadata"]["name"] += "-old"
                found.append(SetObject(KIND, old))
            found += pool.slices()
        return found

    def change(self) -> list[SetObject | DeleteObject]:
        """One pool is published otherwise, in one step or in some."""
        draws, pool = self._draws, self._draws.one(self.every)
        at = draws.number(0, len(pool.parts) - 1)
        match draws.number(0, 5):
            case 0:
                return [pool.without(at)]
            case 1:
                return list(pool.slices())
            case 2 | 3 if "devices" in pool.parts[at]:
                devices = [dict(one) for one in pool.parts[at]["devices"]]
                for device in draws.some(devices, draws.one((1, 1, len(devices)))):
                    device.pop("taints", None)
                    device.update(self._taints(0.6))
                pool.parts[at] = {"devices": devices}
                return [pool.slice(at)]
        return self._republished(pool, at)

    def _republished(self, pool: Pool, at: int) -> list[SetObject | DeleteObject]:
        """A new generation, with a device less or one more."""
        draws, part = self._draws, pool.parts[at]
        pool.generation += 1
        pool.missing = 0
        if "devices" in part and "sharedCounters" not in pool.parts[0]:
            devices = list(part["devices"])
            if len(devices) > 1 and draws.chance(0.5):
                devices = draws.some(devices, len(devices) - 1)
            elif "perDeviceNodeSelection" not in pool.where:
                devices.append(self._device(pool.driver[:3]))
            pool.parts[at] = {"devices": devices}
        return list(pool.slices())

    # --- pools -------------------------------------------------------------------------------

    def _add_local(self, node: str) -> None:
        draws, where = self._draws, {"nodeName": node}
        if draws.chance(0.8):
            self._add(GPU, f"{node}-gpu", where, (2, 3, 4))
        if draws.chance(0.35):
            self._add(NIC, f"{node}-nic", where, (1, 2, 3))
        if draws.chance(0.5):
            self._add_cards(Pool(GPU, f"{node}-cards", where))

    def _add(self, driver: str, name: str, where: Json, counts: tuple[int, ...]) -> Pool:
        draws, pool = self._draws, Pool(driver, name, where)
        for _ in range(draws.one((1, 1, 2))):
            devices = [self._device(driver[:3]) for _ in range(draws.one(counts))]
            pool.parts.append({"devices": devices})
        if draws.chance(0.03):
            pool.missing = 1
        if len(pool.parts) == 2 and draws.chance(0.05):  # the pool contradicts itself
            pool.parts[1]["devices"][0]["name"] = pool.parts[0]["devices"][0]["name"]
        self.every.append(pool)
        return pool

    def _add_cards(self, pool: Pool) -> None:
        """Partitions that share the counters of a card."""
        draws, sets, devices = self._draws, [], []
        for card in range(draws.one((1, 1, 2))):
            name = f"card-{card}"
            counters = {f"slice-{at}": {"value": "1"} for at in range(_CARD)}
            counters["memory"] = {"value": "38Gi"}
            sets.append({"name": name, "counters": counters})
            for size in draws.one(_SIZES):
                devices += [self._part(name, size, at) for at in range(0, _CARD, size)]
        if draws.chance(0.04):  # a counter that no slice has: the pool contradicts itself
            devices[0]["consumesCounters"][0]["counters"]["unknown"] = {"value": "1"}
        pool.parts = [{"sharedCounters": sets}, {"devices": devices}]
        self.every.append(pool)

    def _part(self, card: str, size: int, start: int) -> Json:
        found = self._device(f"{card}-{size}-{start}", is_plain=True)
        counters = {f"slice-{at}": {"value": "1"} for at in range(start, start + size)}
        counters["memory"] = {"value": f"{10240 * size}Mi"}
        found["consumesCounters"] = [{"counterSet": card, "counters": counters}]
        found["attributes"]["size"] = {"int": size}
        if self._draws.chance(0.08):
            found["allowMultipleAllocations"] = True
        return found

    def _add_shared(self) -> None:
        """Devices that several nodes can use."""
        draws = self._draws
        if draws.chance(0.7):
            self._add(NIC, "everywhere", {"allNodes": True}, (1, 2))
        if draws.chance(0.7):
            wanted = {"key": "zone", "operator": "In", "values": [draws.one(("z1", "z2"))]}
            terms = [{"matchExpressions": [wanted]}]
            self._add(NIC, "zone", {"nodeSelector": {"nodeSelectorTerms": terms}}, (1, 2))
        if draws.chance(0.5):
            pool = Pool(NIC, "each", {"perDeviceNodeSelection": True})
            devices = [{**self._device("each"), "nodeName": node} for node in self._nodes]
            devices.append({**self._device("each"), "allNodes": True})
            pool.parts.append({"devices": devices})
            self.every.append(pool)

    # --- devices -----------------------------------------------------------------------------

    def _device(self, name: str, *, is_plain: bool = False) -> Json:
        """A device of a new name; a plain one has no capacities."""
        draws = self._draws
        self._named += 1
        attributes: Json = {"model": {"string": draws.one("ab")}}
        if draws.chance(0.8):
            attributes["numa"] = {"int": draws.number(0, 1)}
        if draws.chance(0.6):
            attributes[f"{RACK}/root"] = {"string": draws.one(("r0", "r1", "r2"))}
        if draws.chance(0.5):
            attributes[f"{RACK}/mixed"] = draws.one(
                ({"bool": True}, {"int": 1}, {"version": "1.0.0"}, {"string": "1.0.0"})
            )
        found: Json = {"name": f"{name}-{self._named}", "attributes": attributes}
        found.update(self._taints(0.12))
        if not is_plain and draws.chance(0.35):
            found.update(self._capacity())
        return found

    def _taints(self, probability: float) -> Json:
        draws = self._draws
        if not draws.chance(probability):
            return {}
        effect = draws.one(("NoSchedule", "NoSchedule", "NoExecute", "None"))
        taint = {"key": draws.one(("broken", "slow")), "effect": effect}
        if draws.chance(0.5):
            taint["value"] = "yes"
        return {"taints": [taint]}

    def _capacity(self) -> Json:
        """Amounts; of a device with shares some have a policy."""
        draws = self._draws
        is_shared = draws.chance(0.75)
        capacity: Json = {"memory": {"value": draws.one(("4Gi", "8Gi"))}}
        if draws.chance(0.5):
            capacity["cores"] = {"value": "4"}
        if not is_shared:
            return {"capacity": capacity}
        for name, policies in _POLICIES.items():
            if name in capacity and draws.chance(0.7):
                capacity[name] = {**capacity[name], "requestPolicy": draws.one(policies)}
        return {"capacity": capacity, "allowMultipleAllocations": True}


_POLICIES: Final[dict[str, tuple[Json, ...]]] = {
    "memory": (
        {"default": "1Gi", "validValues": ["1Gi", "2Gi", "4Gi"]},
        {"default": "2Gi", "validRange": {"min": "1Gi", "max": "4Gi", "step": "512Mi"}},
        {"default": "1Gi", "validRange": {"min": "1Gi"}},
    ),
    "cores": (
        {"default": "500m", "validRange": {"min": "250m", "step": "250m"}},
        {"default": "1", "validRange": {"min": "1", "max": "4", "step": "1"}},
    ),
}
