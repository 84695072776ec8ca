"""The limits of all input from pods, nodes, namespaces and the network.

Every number, list, depth and text from outside has a limit, which is checked before the value is
used: digits before ``int``, a count before a range or a list, a length before JSON is decoded.
``docs/limits.md`` has them with their reasons (``tools/limits``); a test compares them.

A value beyond its limit is rejected with one line that names it: a pod is pending with the reason
``UNREADABLE``, a node's GPUs are not used (``NODE_UNREADABLE``), an annotation with a record is
ignored.
"""

from __future__ import annotations

from typing import Final

# --- pods --------------------------------------------------------------------------------
QUANTITY_LENGTH_MAX: Final = 10_000
POD_DEVICES_MAX: Final = 1_024
MAP_LENGTH_MAX: Final = 262_144
MAP_INDEX_MAX: Final = 2**31 - 1
MAP_DEVICE_MAX: Final = 999_999_999
MAP_LINE_DEVICES_MAX: Final = 256
LADDER_LENGTH_MAX: Final = 4_096
LADDER_TIERS_MAX: Final = 8
MEMORY_LENGTH_MAX: Final = 16_384
RECORD_LENGTH_MAX: Final = 65_536
TIER_NODES_LENGTH_MAX: Final = 16_384
ATTEMPT_MAX: Final = 999_999
TICKET_LENGTH_MAX: Final = 63
DEVICES_LENGTH_MAX: Final = 16_384
DEVICE_ID_LENGTH_MAX: Final = 512
INJECTED_BYTES_MAX: Final = 1_048_576
LABELS_OF_A_POD_MAX: Final = 32
LABELS_MAX: Final = 128
DATA_NAMES_MAX: Final = 16
DECISION_STEPS_MAX: Final = 200_000
RESERVED_PER_NAMESPACE_MAX: Final = 64
RESERVED_MAX: Final = 256
USER_PRIORITY_MAX: Final = 1_000_000_000
GANG_MEMBERS_MAX: Final = 4_096
GANGS_REMEMBERED_MAX: Final = 4_096
# --- ResourceClaims and devices ------------------------------------------------------------
POD_CLAIMS_MAX: Final = 128
CLAIM_ITEMS_MAX: Final = 128
POD_CLAIM_DEVICES_MAX: Final = 128
CLAIM_CONSUMERS_MAX: Final = 1_024
SLICE_DEVICES_MAX: Final = 512
SLICE_COUNTER_SETS_MAX: Final = 64
NODE_DEVICES_MAX: Final = 4_096
POOL_DEVICES_MAX: Final = 16_384
DEVICE_ITEMS_MAX: Final = 128
DEVICE_CONFIG_LENGTH_MAX: Final = 65_536
# --- nodes -------------------------------------------------------------------------------
NODE_GPUS_MAX: Final = 256
NODE_IMAGES_MAX: Final = 256
GPU_IDS_LENGTH_MAX: Final = 65_536
MIG_GPUS_MAX: Final = 64
GPU_MEMORY_MIB_MAX: Final = 999_999_999
REPLICAS_MAX: Final = 999_999
MIG_CONFIG_LENGTH_MAX: Final = 65_536
MIG_CONFIG_ENTRIES_MAX: Final = 64
MIG_CONFIG_INSTANCES_MAX: Final = 32
# --- the network -------------------------------------------------------------------------
WATCH_LINE_BYTES_MAX: Final = 16 * 1024 * 1024
RETRY_AFTER_S_MAX: Final = 60
DECISIONS_MAX: Final = 1_000
DECISIONS_OF_A_POD_MAX: Final = 20
DECISIONS_OF_A_NAMESPACE_MAX: Final = 500
DECISIONS_QUERY_LENGTH_MAX: Final = 2_048
SNAPSHOT_WAIT_S_MAX: Final = 3_600
QUESTIONS_WAITING_MAX: Final = 8
DASHBOARD_LISTENERS_MAX: Final = 64
# --- teams -------------------------------------------------------------------------------
TEAMS_MAX: Final = 1_000
TEAM_AMOUNT_MAX: Final = 10_000_000
# --- selectors of devices ----------------------------------------------------------------
SELECTOR_LENGTH_MAX: Final = 10_240
SELECTORS_MAX: Final = 1_024
SELECTOR_RESULTS_MAX: Final = 64
SELECTOR_FACTS_MAX: Final = 4_096
# --- files of gpuctl ---------------------------------------------------------------------
REPLICAS_OF_A_FILE_MAX: Final = 100_000
DEPTH_OF_A_FILE_MAX: Final = 100
DIGITS_OF_A_FILE_MAX: Final = 1_000
