"""All plugins, in the order of every extension point.

The filters are in kube-scheduler's order (``pkg/scheduler/apis/config/v1/default_plugins.go``), the
device filters last. The first filter that rejects a node gives its reasons.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec

from scheduler.framework import reason_codes
from scheduler.framework.pipeline import Pipeline
from scheduler.framework.plugin import Plugin
from scheduler.framework.settings import Settings
from scheduler.model.reasons.reason_code import ReasonCode
from scheduler.plugins import (
    data_locality,
    gpu_memory,
    granted_tier,
    image_locality,
    inter_pod_affinity,
    mig_state,
    node_affinity,
    node_avoidance,
    node_declared_features,
    node_ports,
    node_readable,
    node_resources_fit,
    node_unschedulable,
    pod_supported,
    pod_topology_spread,
    taint_toleration,
    webhook_mutation,
)
from scheduler.plugins.dynamic_mig import plugin as dynamic_mig
from scheduler.plugins.dynamic_resources import plugin as dynamic_resources
from scheduler.plugins.gpu import devices as gpu_devices
from scheduler.plugins.gpu import gpu_map
from scheduler.plugins.groups import plugin as groups
from scheduler.plugins.preemption import plugin as preemption
from scheduler.plugins.teams import plugin as teams
from scheduler.plugins.topology import plugin as topology
from scheduler.plugins.volumes import (
    node_volume_limits,
    volume_binding,
    volume_restrictions,
    volume_zone,
)

PLUGINS: Final[tuple[Plugin, ...]] = (
    pod_supported.PLUGIN,
    webhook_mutation.PLUGIN,
    groups.PLUGIN,
    node_unschedulable.PLUGIN,
    taint_toleration.PLUGIN,
    node_readable.PLUGIN,
    gpu_memory.PLUGIN,
    node_affinity.PLUGIN,
    node_ports.PLUGIN,
    mig_state.PLUGIN,
    dynamic_mig.PLUGIN,
    node_resources_fit.PLUGIN,
    volume_restrictions.PLUGIN,
    node_volume_limits.PLUGIN,
    volume_binding.PLUGIN,
    volume_zone.PLUGIN,
    dynamic_resources.PLUGIN,
    pod_topology_spread.PLUGIN,
    inter_pod_affinity.PLUGIN,
    topology.PLUGIN,
    node_declared_features.PLUGIN,
    gpu_devices.PLUGIN,
    gpu_map.PLUGIN,
    granted_tier.PLUGIN,
    node_avoidance.PLUGIN,
    data_locality.PLUGIN,
    image_locality.PLUGIN,
    teams.PLUGIN,
    preemption.PLUGIN,
)


def reason_codes_of(plugins: Iterable[Plugin]) -> dict[str, ReasonCode]:
    """Every reason code of the plugins and of the pipeline, by its name."""
    every = (*(code for plugin in plugins for code in plugin.codes), *reason_codes.CODES)
    return {code.name: code for code in every}


#: Every reason code, by its name.
REASON_CODES: Final = reason_codes_of(PLUGINS)


def default_pipeline(settings: Settings | None = None) -> Pipeline:
    """The registered plugins with these settings."""
    settings = settings or Settings()
    plugins = PLUGINS
    if settings.compare_numbers:
        comparing = taint_toleration.COMPARING
        plugins = tuple(comparing if one.name == comparing.name else one for one in PLUGINS)
    return Pipeline(plugins=plugins, **msgspec.structs.asdict(settings))
