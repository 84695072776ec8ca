#!/usr/bin/env bash
# Cuts the simulated cards: seven 1g.10gb on each card of the small pool, three 2g.20gb and one
# 1g.10gb on each of the medium one. A further pool is a further line at the end. DRY_RUN=1 prints.
set -euo pipefail
# shellcheck source=cluster/steps.sh
source "$(dirname "${BASH_SOURCE[0]}")/../cluster/steps.sh"

# configure POOL "COUNT PROFILE"...: the same for each card of each node of the pool.
configure() {
  local pool=$1 layout
  shift
  layout="version: v1
mig-configs:
  selected:
  - devices: all
    mig-enabled: true
    mig-devices:"
  while [ "$#" -gt 0 ]; do
    layout+="
      \"${1#* }\": ${1% *}"
    shift
  done
  say "MIG of pool $pool"
  run kubectl annotate nodes --selector "node-pool=$pool" --overwrite "run.ai/mig.config=$layout"
}

need kubectl
configure small "7 1g.10gb"
configure medium "3 2g.20gb" "1 1g.10gb"
