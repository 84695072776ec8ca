#!/usr/bin/env bash
# The simulated MIG cluster: KinD, the fake GPU operator, labels, MIG layouts. DRY_RUN=1 prints the
# commands. An existing cluster of that name is recreated.
set -euo pipefail
# shellcheck source=cluster/steps.sh
source "$(dirname "${BASH_SOURCE[0]}")/../cluster/steps.sh"

CLUSTER=${CLUSTER:-gpu-sim-cluster}

need docker kind kubectl helm
say "cluster $CLUSTER"
recreate_cluster "$CLUSTER" "$ROOT/config/kind-gpu-cluster.yaml"

say "fake GPU operator"
run docker build --tag "gpu-scheduler:$VERSION" --target gpu-scheduler "$ROOT"
run kind load docker-image "gpu-scheduler:$VERSION" --name "$CLUSTER"
run helm upgrade --install gpu-operator "$ROOT/charts/fake-gpu-operator" \
  --namespace gpu-operator --create-namespace --values "$ROOT/config/fake-gpu-values.yaml" --wait

say "labels of the simulated nodes"
for pool in small medium; do
  run kubectl label nodes --selector "node-pool=$pool" --overwrite \
    "run.ai/simulated-gpu-node-pool=$pool" \
    node-role.kubernetes.io/runai-dynamic-mig=true \
    node-role.kubernetes.io/runai-mig-enabled=true \
    nvidia.com/gpu.product=NVIDIA-H200
done
run kubectl wait --for=condition=Ready pods --all --namespace gpu-operator --timeout=300s

"$ROOT/scripts/configure-mig-profiles.sh"

say "summary"
run kubectl get nodes --output "custom-columns=NAME:.metadata.name,\
MIG-1g.10gb:.status.capacity.nvidia\.com/mig-1g\.10gb,\
MIG-2g.20gb:.status.capacity.nvidia\.com/mig-2g\.20gb"
echo "Next: make deploy-webhook"
