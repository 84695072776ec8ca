"""Generates files from their sources.

    cluster/*.yaml        ──> charts/gpu-scheduler/files/cluster/   (roles, policies, API kinds)
    charts/*/values.yaml  ──> its values.schema.json, and the table in its README.md
    webhook metrics etc.  ──> charts/gpu-scheduler/files/dashboards/
    the preset gpu-webhook   ──> webhook/deploy/                       (needs helm)

``make charts`` writes all files; tests/charts fails if a file is out of date.
"""
