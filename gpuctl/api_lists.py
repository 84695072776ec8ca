"""Lists objects of the API server with the rights of the user, without a watch."""

from __future__ import annotations

from typing import Any

import msgspec

from gpuctl import targets
from gpuctl.input_error import NotReached
from scheduler.model.json_bounds import UNREADABLE
from scheduler.watch import paged_list
from scheduler.watch.client import Client, Unreachable
from scheduler.watch.reflector import WatchSource


async def items_of(client: Client, source: WatchSource[Any]) -> list[msgspec.Raw]:
    """The objects of a kind; ApiError without the right to list them."""
    params = {"fieldSelector": source.selector} if source.selector else {}
    items: list[msgspec.Raw] = []
    try:
        async for page in paged_list.pages(client, source.path, params, targets.PAGE):
            items += page.items or ()
            if len(items) > targets.PODS_MAX:
                raise NotReached(f"more than {targets.PODS_MAX:,} {source.kind}")
    except (paged_list.Unreadable, *UNREADABLE) as error:
        raise NotReached(f"the API server: {error}") from error
    except Unreachable as error:
        raise NotReached(str(error)) from error
    return items
