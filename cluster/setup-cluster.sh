#!/usr/bin/env bash
# The local cluster for maps: one control plane, four workers called node1 to node4.
# DRY_RUN=1 prints the commands. An existing cluster of that name is recreated.
set -euo pipefail
# shellcheck source=cluster/steps.sh
source "$(dirname "${BASH_SOURCE[0]}")/steps.sh"

CLUSTER=${CLUSTER:-gpu-scheduler-cluster}

need docker kind kubectl
say "cluster $CLUSTER"
recreate_cluster "$CLUSTER" "$ROOT/cluster/kind-config.yaml"

say "names of the workers"
for number in 1 2 3 4; do
  worker=$CLUSTER-worker$([ "$number" -eq 1 ] || echo "$number")
  run kubectl label node "$worker" "gpu-node-name=node$number" --overwrite
done

say "check"
if [ -z "$DRY_RUN" ]; then
  nodes=$(kubectl get nodes --no-headers | wc -l)
  enabled=$(kubectl get nodes -l environment=gpu-enabled --no-headers | wc -l)
  [ "$nodes" -eq 5 ] || fail "expected 5 nodes, found $nodes"
  [ "$enabled" -eq 5 ] || fail "expected 5 nodes with environment=gpu-enabled, found $enabled"
fi
run kubectl get nodes -L gpu-node-name,environment
echo "Next: scripts/deploy-local.sh"
