"""Seed 004's configuration of the device plugin."""

from __future__ import annotations

from typing import Final

SEED_SHARING: Final = """
version: v1
sharing:
  timeSlicing:
    renameByDefault: false
    failRequestsGreaterThanOne: false
    resources:
    - name: nvidia.com/gpu
      replicas: 4  # Each physical GPU appears as 4 logical GPUs
"""
