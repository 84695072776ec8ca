"""Evaluates the selectors of classes and requests on devices."""

from __future__ import annotations

from scheduler.model.dra.cel.engine import SelectorError, compile_selector
from scheduler.model.dra.device import Device
from scheduler.plugins.dynamic_resources.allocation.requests import SelectorFailure


def matches(text: str, device: Device) -> bool | SelectorFailure:
    """Whether a CEL expression selects a device, or why that is unknown."""
    try:
        return compile_selector(text).matches(device)
    except SelectorError as error:
        return SelectorFailure(f"{text}: {error}")
