#!/usr/bin/env bash
# The product with fake GPUs in a KinD cluster that is there already: for the CI of other projects, and
# for the examples. DRY_RUN=1 prints the commands.
#
# Environment:
#   CLUSTER  the KinD cluster's name (kind)
#   POOLS    the GPUs of its workers, in order; the last one is for all further workers (whole whole mig shared)
#   VALUES   what those pools are: values of charts/fake-gpu-operator (examples/cluster/fake-gpu-values.yaml)
#   BUILD    empty: the images gpu-scheduler and gpu-scheduler-check are in the cluster already (yes)
set -euo pipefail
# shellcheck source=cluster/steps.sh
source "$(dirname "${BASH_SOURCE[0]}")/../cluster/steps.sh"

CLUSTER=${CLUSTER:-kind}
POOLS=${POOLS:-whole whole mig shared}
VALUES=${VALUES:-$ROOT/examples/cluster/fake-gpu-values.yaml}
BUILD=${BUILD-yes}

# workers: their names, a line each; of a cluster without any, all nodes.
workers() {
  if [ -n "$DRY_RUN" ]; then
    printf '%s\n' "$CLUSTER-worker" "$CLUSTER-worker2" "$CLUSTER-worker3" "$CLUSTER-worker4"
    return
  fi
  local found
  found=$(kubectl get nodes --selector '!node-role.kubernetes.io/control-plane' --output name)
  [ -n "$found" ] || found=$(kubectl get nodes --output name)
  printf '%s\n' "${found//node\//}"
}

if [ -n "$BUILD" ]; then need docker kind kubectl helm; else need kubectl helm; fi
run kubectl config use-context "kind-$CLUSTER"
[ -z "$BUILD" ] || "$ROOT/scripts/build-images.sh" "$CLUSTER"

say "fake GPU operator"
run helm upgrade --install gpu-operator "$ROOT/charts/fake-gpu-operator" \
  --namespace gpu-operator --create-namespace --values "$VALUES" --wait --timeout=300s

say "simulated GPUs of the nodes"
read -r -a pools <<<"$POOLS"
number=0
labelled=()
while read -r node; do
  number=$((number + 1))
  pool=${pools[number - 1]:-${pools[-1]}}
  run kubectl label node "$node" --overwrite \
    "run.ai/simulated-gpu-node-pool=$pool" "gpu-node-name=node$number"
  labelled+=("node/$node")
done < <(workers)

say "scheduler and webhook"
run helm upgrade --install gpu-scheduler "$ROOT/charts/gpu-scheduler" \
  --namespace gpu-scheduler-system --create-namespace --wait --timeout=300s

say "GPUs"
run kubectl wait "${labelled[@]}" --for=jsonpath='{.metadata.labels.nvidia\.com/gpu\.count}' --timeout=120s
run kubectl get nodes --output "custom-columns=NAME:.metadata.name,\
POOL:.metadata.labels.run\.ai/simulated-gpu-node-pool,GPUS:.metadata.labels.nvidia\.com/gpu\.count"
