"""The cost of the webhook for a pod's creation, through the real API server.

    python -m bench.webhook [--quick] [--pairs 400] [--pods 3000] [--rounds 3]

Scheduler and webhook run as in a cluster. The figures:

- *handler*: the webhook's own time per review, including its query to the scheduler if there is one
  (pods with a map or MIG; whole GPUs need none): when idle (dry runs, one at a time), and while
  3,000 pods are being bound
- *added*: the latency of a creation with the webhook minus that of one in a namespace that opted
  out, created in turn
- *floor*: the same for a webhook that decides nothing
- *creations*: the number per second at full load, from a process of their own: of gated pods
  (through the floor too), and of pods that are bound at the same time
- *per pod*: the number of reviews of one pod
- *echo*: the time of a request and response between two processes on this machine

The last line is JSON; ``--quick`` takes a minute instead of eight, to compare two states of the
code.
"""

from __future__ import annotations

import argparse
import random
import statistics
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from bench.control_plane import without_kubelets
from bench.load import name_of, node, pod
from bench.observer import Observer, dumps, percentile
from bench.rounds import Namespace, finished, load
from bench.webhook import baseline, ipc_baseline
from bench.webhook.handler import Handler
from tools.controlplane import Client, ControlPlane
from tools.product import Product

NODES = 1000
#: Between single creations: the previous pod is placed by then.
PAUSE_S = 0.02
ECHOES = 1000
SCHEDULER = "gpu-scheduler"
KINDS = ("gpu", "mig", "map")
#: Gated pods without and with a query to the scheduler, and pods that are bound.
RATES = {
    "gated": "creations_per_s",
    "gated-mig": "creations_per_s_mig",
    "gpu": "creations_per_s_while_bound",
}
#: To compare two states of the code.
QUICK = {"reviews": 600, "pairs": 150, "pods": 1000, "rounds": 1}


class Creator:
    """Creates pods one at a time, over a persistent connection."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._number = 0

    def create(self, namespace: str, kind: str, *, dry_run: bool = False) -> float:
        """Create a pod; milliseconds."""
        self._number += 1
        body = pod(name_of(self._number), SCHEDULER, kind)
        path = f"/api/v1/namespaces/{namespace}/pods" + ("?dryRun=All" if dry_run else "")
        started = time.perf_counter()
        self._client.create(path, body)
        return 1000 * (time.perf_counter() - started)


def idle(
    plane: ControlPlane, handler: Handler, namespace: str, reviews: int, kinds: Sequence[str]
) -> dict[str, float]:
    """The handler without other load."""
    with plane.client.kept() as client:
        creator = Creator(client)
        for number in range(100):
            creator.create(namespace, kinds[number % len(kinds)], dry_run=True)
        handler.since()
        for number in range(reviews):
            creator.create(namespace, kinds[number % len(kinds)], dry_run=True)
    return handler.since()


def added(plane: ControlPlane, through: str, past: str, pairs: int) -> dict[str, float]:
    """Creations in turn: through the webhook, in a namespace that opted out, through the floor."""
    with baseline.registered(plane), opted_out(plane, baseline.LABEL) as lowest:
        ways = {"with": through, "without": past, "floor": lowest}
        times: dict[str, list[float]] = {}
        with plane.client.kept() as client:
            creator = Creator(client)
            for number in range(pairs):
                kind = KINDS[number % len(KINDS)]
                for way in random.sample(list(ways), len(ways)):
                    spent = creator.create(ways[way], kind)
                    times.setdefault(way, []).append(spent)
                    times.setdefault(f"{way}_{kind}", []).append(spent)
                    time.sleep(PAUSE_S)
    p50 = {way: statistics.median(entry) for way, entry in times.items()}
    return {
        **{f"{way}_p50_ms": p50[way] for way in ways},
        **{f"{way}_p99_ms": percentile(times[way], 0.99) for way in ways},
        **{f"added_{kind}_p50_ms": p50[f"with_{kind}"] - p50[f"without_{kind}"] for kind in KINDS},
        "added_p50_ms": p50["with"] - p50["without"],
        "floor_added_p50_ms": p50["floor"] - p50["without"],
    }


def rate(plane: ControlPlane, namespace: str, pods: int, kind: str) -> float:
    """Creations per second at full load, from first to last as observed by a watch."""
    with Observer(plane.client, namespace) as seen:
        finished(load(plane, "pods", namespace, SCHEDULER, str(pods), "0", kind))
        times = sorted(seen.created.values())
    return (len(times) - 1) / (times[-1] - times[0])


def binding(plane: ControlPlane, product: Product, handler: Handler, pods: int) -> dict[str, float]:
    """The handler while a backlog is being bound."""
    with Namespace(plane) as backlog, opted_out(plane) as past, plane.client.kept() as client:
        creator = Creator(client)
        product.stop("scheduler")
        finished(load(plane, "pods", past, SCHEDULER, str(pods), "0", "gpu"))
        with Observer(plane.client, past) as seen:
            restart = threading.Thread(target=product.start_scheduler)
            restart.start()
            while not seen.bound:
                time.sleep(0.01)
            handler.since()
            while len(seen.bound) < pods:
                creator.create(backlog, "mig", dry_run=True)
            restart.join()
            figures = handler.since()
    return figures


@contextmanager
def opted_out(plane: ControlPlane, labels: Mapping[str, str] | None = None) -> Iterator[str]:
    """A namespace for which the webhook is not called."""
    with Namespace(plane) as name:
        label = {"metadata": {"labels": {"gpu-webhook": "disabled", **(labels or {})}}}
        plane.client.patch(f"/api/v1/namespaces/{name}", label)
        yield name


def one_round(plane: ControlPlane, product: Product, options: argparse.Namespace) -> dict[str, Any]:
    """All measurements, once."""
    handler = Handler(product)
    with Namespace(plane) as through:
        figures: dict[str, Any] = {
            "idle": idle(plane, handler, through, options.reviews, KINDS),
            "idle_mig": idle(plane, handler, through, options.reviews, ["mig"]),
        }
        with opted_out(plane) as past:
            figures["added"] = added(plane, through, past, options.pairs)
    for kind, name in RATES.items():
        with Namespace(plane) as through:
            handler.since()
            figures[name] = rate(plane, through, options.pods, kind)
            seen = handler.since()
            figures[f"handler_{kind}"] = seen | {"per_pod": seen["reviews"] / options.pods}
        with opted_out(plane) as past:
            figures[f"{name}_without"] = rate(plane, past, options.pods, kind)
    with baseline.registered(plane), opted_out(plane, baseline.LABEL) as lowest:
        figures["creations_per_s_floor"] = rate(plane, lowest, options.pods, "gated")
    figures["echo"] = ipc_baseline.measure(ECHOES, PAUSE_S / 4)
    if not options.quick:
        figures["binding"] = binding(plane, product, handler, options.pods)
    return figures


def median(rounds: list[Any]) -> Any:
    """The median of every figure, at any depth."""
    if isinstance(rounds[0], dict):
        return {key: median([entry[key] for entry in rounds]) for key in rounds[0]}
    return round(statistics.median(rounds), 3)


def make_nodes(plane: ControlPlane) -> None:
    """GPU nodes and MIG nodes, half and half."""
    with plane.client.kept() as client:
        for number in range(NODES):
            body = node(number, 8)
            if number % 2:
                amounts = body["status"]["capacity"]
                del amounts["nvidia.com/gpu"]
                amounts |= {"nvidia.com/mig-2g.20gb": "12", "nvidia.com/mig-1g.10gb": "4"}
                body["status"]["allocatable"] = amounts
            client.create("/api/v1/nodes", body)


def main() -> None:
    """Start a control plane without kubelets and the product on it, run, print the JSON."""
    parser = argparse.ArgumentParser(prog="python -m bench.webhook", description=__doc__)
    parser.add_argument("--reviews", type=int, default=1500)
    parser.add_argument("--pairs", type=int, default=400)
    parser.add_argument("--pods", type=int, default=3000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="one short round; about a minute")
    parser.set_defaults(**(QUICK if "--quick" in sys.argv else {}))
    options = parser.parse_args()
    with without_kubelets() as (plane, directory):
        make_nodes(plane)
        # No controller creates it here, and the product creates a probe pod.
        accounts = "/api/v1/namespaces/default/serviceaccounts"
        plane.client.create(accounts, {"metadata": {"name": "default"}})
        with Product(plane, directory / "product") as product:
            rounds = []
            for _ in range(options.rounds):
                rounds.append(median([one_round(plane, product, options)]))
                print(dumps(rounds[-1]), flush=True)
        print(dumps(median(rounds)), flush=True)


if __name__ == "__main__":
    main()
