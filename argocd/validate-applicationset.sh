#!/usr/bin/env bash
# Looks through the GitOps files before they are applied: the charts that they name exist and pass
# helm lint, the API server accepts the objects (ArgoCD's API kinds must be there), and at least one
# cluster Secret has the label by which clusters are found. DRY_RUN=1 prints the commands.
set -euo pipefail
# shellcheck source=cluster/steps.sh
source "$(dirname "${BASH_SOURCE[0]}")/../cluster/steps.sh"

need kubectl helm
say "charts"
paths=$(sed -n 's/^ *path: *\(charts\/[a-z-]*\)$/\1/p' "$ROOT"/argocd/*-applicationset.yaml | sort -u)
[ -n "$paths" ] || fail "no path of a chart in argocd/*-applicationset.yaml"
for path in $paths; do
  [ -f "$ROOT/$path/Chart.yaml" ] || fail "$path: there is no chart"
  run helm lint --strict "$ROOT/$path"
done

say "objects"
for file in "$ROOT"/argocd/*.yaml; do
  run kubectl apply --server-side --dry-run=server -f "$file"
done

say "clusters"
secrets=$(ask kubectl --namespace argocd get secrets --output name \
  --selector argocd.argoproj.io/secret-type=cluster,environment=gpu-enabled)
[ -n "$DRY_RUN" ] || [ -n "$secrets" ] ||
  fail "no cluster Secret has environment=gpu-enabled; kubectl apply -f argocd/local-cluster-secret.yaml"
echo "All good."
