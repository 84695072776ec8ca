#!/usr/bin/env bash
# New certificates for webhook/deploy/: the Secret in the cluster, and the registration with the CA in
# it as 04-webhook-config-patched.yaml. To rotate: run this, apply that file; a running webhook takes
# the new pair over by itself within a minute or two (kubectl rollout restart makes it at once).
set -euo pipefail
# shellcheck source=cluster/steps.sh
source "$(dirname "${BASH_SOURCE[0]}")/../../cluster/steps.sh"

need openssl kubectl
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
bundle=$(NAMESPACE=gpu-webhook SERVICE_NAME=gpu-webhook SECRET_NAME=gpu-webhook-certs \
  CA_NAME="GPU Webhook CA" CERT_DIR="$work" "$ROOT/generate-webhook-certs.sh" 2>/dev/null)
run kubectl apply -f "$ROOT/webhook/deploy/00-namespace.yaml"
run kubectl apply -f "$work/webhook-tls-secret.yaml"
if [ -n "$DRY_RUN" ]; then
  echo "# writes webhook/deploy/04-webhook-config-patched.yaml"
  exit
fi
sed "s|CA_BUNDLE_PLACEHOLDER|$bundle|" "$ROOT/webhook/deploy/04-webhook-config.yaml" \
  >"$ROOT/webhook/deploy/04-webhook-config-patched.yaml"
echo "Written: webhook/deploy/04-webhook-config-patched.yaml"
