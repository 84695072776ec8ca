#!/usr/bin/env bash
# Builds both images, and loads them into a KinD cluster if one is named.
#
#   scripts/build-images.sh [CLUSTER]
#
# Environment: TAG (latest), CONTAINER_TOOL (docker), DRY_RUN.
set -euo pipefail
# shellcheck source=cluster/steps.sh
source "$(dirname "${BASH_SOURCE[0]}")/../cluster/steps.sh"

CLUSTER=${1:-}
TAG=${TAG:-latest}
CONTAINER_TOOL=${CONTAINER_TOOL:-docker}

if [ -n "$CLUSTER" ]; then need "$CONTAINER_TOOL" kind; else need "$CONTAINER_TOOL"; fi
for image in gpu-scheduler gpu-scheduler-check; do
  say "image $image:$TAG"
  run "$CONTAINER_TOOL" build --tag "$image:$TAG" --target "$image" "$ROOT"
  [ -z "$CLUSTER" ] || run kind load docker-image "$image:$TAG" --name "$CLUSTER"
done
