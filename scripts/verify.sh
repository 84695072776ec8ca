#!/usr/bin/env bash
# Checks the simulated MIG cluster; the exit status is the result.
set -euo pipefail
# shellcheck source=cluster/steps.sh
source "$(dirname "${BASH_SOURCE[0]}")/../cluster/steps.sh"

need kubectl
bad=0

# expect WHAT WANTED COMMAND...: one line, and whether the command prints what is wanted.
expect() {
  local what=$1 wanted=$2 found
  shift 2
  found=$(ask "$@")
  [ -z "$DRY_RUN" ] || return 0
  if [ "$found" = "$wanted" ]; then
    printf 'ok    %s: %s\n' "$what" "$found"
  else
    printf 'WRONG %s: %s, expected %s\n' "$what" "${found:-nothing}" "$wanted"
    bad=1
  fi
}

# The condition by its type and value: a node that is not ready has the same list of conditions.
ready='{range .items[*]}{.status.conditions[?(@.type=="Ready")].status}{" "}{end}'
expect "nodes ready" "True True True " kubectl get nodes -o jsonpath="$ready"
for line in "small 1g 10 28" "medium 2g 20 12" "medium 1g 10 4"; do
  read -r pool slices memory count <<<"$line"
  expect "$slices.${memory}gb on $pool" "$count" kubectl get nodes -l "node-pool=$pool" \
    -o jsonpath="{.items[0].status.capacity.nvidia\\.com/mig-$slices\\.${memory}gb}"
done
expect "webhook available" "True" kubectl --namespace gpu-webhook get deployment gpu-webhook \
  -o jsonpath='{.status.conditions[?(@.type=="Available")].status}'
bundle='{.webhooks[0].clientConfig.caBundle}'
expect "webhook's CA in base64 begins with" "LS0tLS1CRUdJTi" bash -c \
  "kubectl get mutatingwebhookconfiguration gpu-allocation-webhook -o jsonpath='$bundle' | head -c 14"
exit "$bad"
