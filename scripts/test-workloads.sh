#!/usr/bin/env bash
# Applies or deletes the test workloads of the simulated MIG cluster: test-workloads.sh apply|delete
set -euo pipefail
# shellcheck source=cluster/steps.sh
source "$(dirname "${BASH_SOURCE[0]}")/../cluster/steps.sh"

need kubectl
case "${1:-}" in
  apply)
    run kubectl apply -f "$ROOT/manifests/test-pods/"
    run kubectl get pods --output wide
    ;;
  delete) run kubectl delete --ignore-not-found -f "$ROOT/manifests/test-pods/" ;;
  *) fail "say apply or delete" ;;
esac
