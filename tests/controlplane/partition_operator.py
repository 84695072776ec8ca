"""The smallest operator for ``migpartitions``; it is stateless, see docs/mig-dynamic.md.

A thread looks at all objects over and over. It believes the spec, destroys what is in its way,
refuses what a test tells it to, and advertises what there is on the node.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from typing import Any, Final

from tools.controlplane import ApiError, Client

Json = dict[str, Any]

CUTS: Final = "/apis/gpu-scheduler.io/v1alpha1/namespaces/gpu-scheduler-system/migpartitions"
SIZES: Final = {"1g.10gb": 1, "1g.20gb": 2, "2g.20gb": 2, "3g.40gb": 4, "4g.40gb": 4, "7g.80gb": 8}
ROUND_S: Final = 0.05


@contextmanager
def suppress_gone() -> Iterator[None]:
    """The object, or its node, may go while it is answered."""
    try:
        yield
    except ApiError as error:
        if error.status != HTTPStatus.NOT_FOUND:
            raise


class CutOperator:
    """Answers while the block lasts. ``refuses`` are GPUs that it cannot cut; ``is_mute``: it
    does nothing at all."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, name="cut operator")
        self._numbers = 0
        self.refuses: set[int] = set()
        self.is_mute = False
        self.failure: BaseException | None = None

    def __enter__(self) -> CutOperator:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join()
        assert self.failure is None, self.failure

    def _run(self) -> None:
        try:
            while not self._end.wait(ROUND_S):
                for one in [] if self.is_mute else self._client.get(CUTS)["items"]:
                    with suppress_gone():
                        self._answer(one)
        except BaseException as error:  # told to the test, which is in another thread
            self.failure = error
            raise

    def _answer(self, one: Json) -> None:
        wanted = one["spec"].get("instances", [])
        known = one.get("status", {}).get("instances", [])
        answers = [self._cut(order, known) for order in wanted]
        kept = [
            there
            for there in known
            if there["state"] == "Ready" and not any(_overlap(there, order) for order in wanted)
        ]
        if (status := [*answers, *kept]) == known:
            return
        name = one["metadata"]["name"]
        self._client.patch(f"{CUTS}/{name}/status", {"status": {"instances": status}})
        self._advertise(name, status)

    def _cut(self, order: Json, known: list[Json]) -> Json:
        place = {key: order[key] for key in ("gpu", "profile", "start")}
        there = next((one for one in known if place.items() <= one.items()), None)
        if there is not None and there["state"] == "Ready":
            return there
        answer = place | {"deadline": order["deadline"]} if "deadline" in order else place
        if order["gpu"] in self.refuses:
            return answer | {"state": "Failed", "message": "the driver says no"}
        self._numbers += 1
        return answer | {"state": "Ready", "uuid": f"MIG-{self._numbers}"}

    def _advertise(self, name: str, status: list[Json]) -> None:
        counts = Counter(one["profile"] for one in status if one["state"] == "Ready")
        amounts = {f"nvidia.com/mig-{profile}": str(counts[profile]) for profile in SIZES}
        body = {"status": {"capacity": amounts, "allocatable": amounts}}
        self._client.patch(f"/api/v1/nodes/{name}/status", body)


def _overlap(there: Json, order: Json) -> bool:
    if there["gpu"] != order["gpu"]:
        return False
    first, last = there["start"], there["start"] + SIZES[there["profile"]]
    return bool(first < order["start"] + SIZES[order["profile"]] and order["start"] < last)
