#!/usr/bin/env bash
# Builds, loads and installs everything into the cluster of cluster/setup-cluster.sh, and shows
# the logs of the check service. DRY_RUN=1 prints the commands.
set -euo pipefail
# shellcheck source=cluster/steps.sh
source "$(dirname "${BASH_SOURCE[0]}")/../cluster/steps.sh"

CLUSTER=${CLUSTER:-gpu-scheduler-cluster}

need docker kind kubectl helm
"$ROOT/scripts/build-images.sh" "$CLUSTER"

say "scheduler and webhook"
run helm upgrade --install gpu-scheduler "$ROOT/charts/gpu-scheduler" \
  --namespace gpu-scheduler-system --create-namespace \
  --values "$ROOT/charts/gpu-scheduler/ci/kind-values.yaml"
run kubectl --namespace gpu-scheduler-system rollout status deployment/gpu-scheduler --timeout=300s

say "check service"
run helm upgrade --install gpu-test "$ROOT/charts/gpu-scheduler-check" \
  --namespace gpu-scheduler-tests --create-namespace --set image.pullPolicy=Never \
  --values "$ROOT/charts/gpu-scheduler-check/ci/map-values.yaml"
run kubectl --namespace gpu-scheduler-tests rollout status \
  statefulset/gpu-test-gpu-scheduler-check --timeout=300s
run kubectl --namespace gpu-scheduler-tests get pods --output wide
run kubectl --namespace gpu-scheduler-tests logs --prefix --tail=1 \
  --selector app.kubernetes.io/name=gpu-scheduler-check
