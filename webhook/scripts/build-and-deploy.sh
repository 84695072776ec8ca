#!/usr/bin/env bash
# The webhook of the simulated MIG cluster, from image to registration. The registration comes last,
# once the server answers: pods never wait for a missing webhook. DRY_RUN=1 prints.
set -euo pipefail
# shellcheck source=cluster/steps.sh
source "$(dirname "${BASH_SOURCE[0]}")/../../cluster/steps.sh"

CLUSTER=${CLUSTER:-gpu-sim-cluster}

need docker kind kubectl openssl
say "image"
run docker build --tag "gpu-webhook:$VERSION" --target gpu-scheduler "$ROOT"
run kind load docker-image "gpu-webhook:$VERSION" --name "$CLUSTER"
say "certificates"
"$ROOT/webhook/scripts/generate-certs.sh"
say "components"
for name in 00-namespace 01-rbac 02-service 03-deployment; do
  run kubectl apply -f "$ROOT/webhook/deploy/$name.yaml"
done
run kubectl --namespace gpu-webhook wait --for=condition=Available deployment/gpu-webhook \
  --timeout=120s
say "registration"
run kubectl apply -f "$ROOT/webhook/deploy/04-webhook-config-patched.yaml"
