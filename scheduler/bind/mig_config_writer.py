"""Sets the label by which mig-manager cuts a node anew; needs cluster/rbac-relabel.yaml.

The node's version is not a condition: kubelets write to it all the time. What must hold, that
nobody has a GPU of it, is the scheduler's own to keep.
"""

from __future__ import annotations

import msgspec
import structlog

from scheduler.decide.mig.config_change import Relabel
from scheduler.model import well_known
from scheduler.watch.client import MERGE_PATCH, ApiError, Client, Unreachable

log = structlog.get_logger("cuts")


async def set_label(client: Client, relabel: Relabel) -> None:
    """Patch both labels at once; a failure is a line in the log, and the node is used again."""
    labels = {well_known.MIG_WANTED: relabel.config, well_known.MIG_STATE: "pending"}
    body = msgspec.json.encode({"metadata": {"labels": labels}})
    path = f"/api/v1/nodes/{relabel.node_name}"
    try:
        await client.request("PATCH", path, body, content_type=MERGE_PATCH)
    except (ApiError, Unreachable) as error:
        log.warning("a node was not relabelled", node=relabel.node_name, problem=str(error))
