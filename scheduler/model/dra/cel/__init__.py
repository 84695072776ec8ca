"""Selectors of devices, in the Common Expression Language (CEL)."""
