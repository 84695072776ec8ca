"""The present costs: from the leader, else from the API server, else from one namespace."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path
from typing import Final

import msgspec

from gpuctl import targets
from gpuctl.capacity import FORBIDDEN, NOT_FOUND, Asks, Found, first_allowed, list_state, of_leader
from gpuctl.cluster_access import Access
from gpuctl.input_error import InputError
from scheduler.model import well_known
from scheduler.model.cost.prices import FILE, NO_PRICES, PriceTable, PriceTableError, parse_prices
from scheduler.model.cost.share import ZERO, slice_share
from scheduler.model.mig.gpu_models import board_name, gpu_model_of
from scheduler.model.mig.profile import is_profile
from scheduler.model.pods.original_request import original_gpu_requests
from scheduler.model.pods.pod import Pod
from scheduler.model.timestamps import micro_time
from scheduler.report.decisions.api_types import API_VERSION, Cost, GpuShare
from scheduler.report.decisions.cost import CostReport, share
from scheduler.state.capacity.cost import HeldCost, running_s
from scheduler.state.capacity.gpu_pools import HeldShare
from scheduler.state.capacity.summary import UNKNOWN_MODEL
from scheduler.state.parts import finish
from scheduler.watch.client import ApiError, Client

#: Without the leader the table is read from the ConfigMap of the installation, or from a file.
_BY_HAND: Final = "pass --prices FILE"


class _ConfigMap(msgspec.Struct, frozen=True):
    data: dict[str, str] = {}


class _Table:
    """A price table that was read once."""

    def __init__(self, table: PriceTable = NO_PRICES, problem: str = "") -> None:
        self.table = table
        self.problem = problem

    def read(self) -> PriceTable:
        """The table."""
        return self.table


def read_price_file(path: str) -> PriceTable:
    """The table of a file; InputError names the file, the place and the problem."""
    try:
        return parse_prices(Path(path).read_bytes())
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}") from error
    except PriceTableError as error:
        raise InputError(f"{path}: {error}") from error


async def read_cost(
    access: Access,
    server: str | None,
    namespace: str | None,
    *,
    prices: PriceTable | None,
    with_nodes: bool,
    with_pods: bool,
    label: str,
    forward: bool,
) -> Found[Cost]:
    """The costs. With a table of prices the leader is not asked, because it has its own."""
    params = {"nodes": "1"} if with_nodes else {}
    params |= {"pods": "1", "label": label} if with_pods else {}

    async def by_leader(url: str) -> Cost:
        return await of_leader(url, "/cost", params, Cost)

    async def by_api(client: Client) -> tuple[Cost, list[str]]:
        state, missing = await list_state(access, client)
        table = _Table(prices) if prices is not None else await _of_config_map(client, access)
        report = CostReport(state, table, lambda: True, lambda: datetime.now(UTC))
        parts = report.take(with_nodes=with_nodes, with_pods=with_pods, label=label)
        return finish(parts), missing

    async def by_namespace(client: Client, own: str) -> tuple[Cost, list[str]]:
        table = _Table(prices) if prices is not None else await _of_config_map(client, access)
        pods = await targets.read_pods(client, own)
        return cost_of_pods(pods, table.table, table.problem, label), []

    asks = Asks(by_leader, by_api, by_namespace)
    leader = None if prices is not None else server
    is_forwarding = forward and prices is None
    return await first_allowed(access, leader, namespace, asks, forward=is_forwarding)


async def _of_config_map(client: Client, access: Access) -> _Table:
    """The table of the installation; a problem if it is invalid, or may not be read."""
    where = f"configmap {access.lease_name}-config in namespace {access.lease_namespace}"
    path = f"/api/v1/namespaces/{access.lease_namespace}/configmaps/{access.lease_name}-config"
    try:
        found = msgspec.json.decode(await client.request("GET", path), type=_ConfigMap)
        return _Table(parse_prices(found.data.get(FILE, "")))
    except ApiError as error:
        if error.status not in (FORBIDDEN, NOT_FOUND):
            raise
        verb = "may not be read" if error.status == FORBIDDEN else "does not exist"
        return _Table(problem=f"{where} {verb}; {_BY_HAND}")
    except (PriceTableError, msgspec.MsgspecError) as error:
        return _Table(problem=f"{where}, key {FILE}: {error}")


# --- from the pods of one namespace ----------------------------------------------------------


def cost_of_pods(
    pods: Iterable[Pod], prices: PriceTable, problem: str = "", label: str = ""
) -> Cost:
    """What these pods hold, without their nodes: the model is that of their node selectors."""
    now_s = int(time.time())
    lines: list[GpuShare] = []
    for pod in pods:
        if pod.node_name and not pod.is_terminal and (held := _held(pod)) is not None:
            model = _model(pod)
            key = (model, prices.of(model, pod.node_selector))
            cell = HeldCost()
            cell.add(held, running_s(pod, now_s))
            value = pod.labels.get(label, "")
            names = {"namespace": pod.namespace, "pod": pod.name, "node": pod.node_name}
            lines.append(share(key, cell, **names, label=value))
    return Cost(
        api_version=API_VERSION,
        leads=True,
        time=micro_time(datetime.now(UTC)),
        currency=prices.currency,
        problem=problem,
        pods=tuple(lines),
    )


def _model(pod: Pod) -> str:
    return board_name(pod.node_selector.get(well_known.GPU_PRODUCT, "")) or UNKNOWN_MODEL


def _held(pod: Pod) -> HeldShare | None:
    model = _model(pod)
    found = _share(model, pod.gpu_requests)
    if not found:
        return None
    asked = original_gpu_requests(pod)
    before = found if asked is None else _share(model, asked)
    return HeldShare(pod.namespace, pod, found, pod.is_degraded, max(before - found, ZERO))


def _share(model: str, requests: Mapping[str, int]) -> Fraction:
    total = ZERO
    for resource, count in requests.items():
        name = well_known.mig_profile(resource)
        if is_profile(name):
            total += slice_share(gpu_model_of(model, 0, (name,)), name) * count
        else:
            total += count
    return total
