#!/usr/bin/env bash
# Writes the results of the check service's pods to files:
#
#   outputs/kubectl-get-pods-wide.txt   all pods and their nodes
#   outputs/logs-node3-node4.txt        what the check's pods on node3 and node4 said
#
# Environment: OUTPUTS (outputs), NAMESPACE (gpu-scheduler-tests), RETRIES (3), PAUSE in seconds (10), DRY_RUN.
set -euo pipefail
# shellcheck source=cluster/steps.sh
source "$(dirname "${BASH_SOURCE[0]}")/../cluster/steps.sh"

OUTPUTS=${OUTPUTS:-outputs}
NAMESPACE=${NAMESPACE:-gpu-scheduler-tests}
RETRIES=${RETRIES:-3}
PAUSE=${PAUSE:-10}

# said POD: its log; asked again, because a container that has just started has said nothing yet.
said() {
  local try text
  for ((try = 1; try <= RETRIES; try++)); do
    if text=$(kubectl --namespace "$NAMESPACE" logs "$1") && [ -n "$text" ]; then
      printf '%s\n' "$text"
      return
    fi
    [ "$try" -eq "$RETRIES" ] || sleep "$PAUSE"
  done
  echo "(no log)"
}

need kubectl
run mkdir -p "$OUTPUTS"
say "pods"
if [ -n "$DRY_RUN" ]; then
  run kubectl get pod -o wide -A
else
  kubectl get pod -o wide -A >"$OUTPUTS/kubectl-get-pods-wide.txt"
fi

say "logs of node3 and node4"
nodes=" $(ask kubectl get nodes --selector 'gpu-node-name in (node3,node4)' \
  --output 'jsonpath={.items[*].metadata.name}') "
pods=$(ask kubectl --namespace "$NAMESPACE" get pods \
  --selector app.kubernetes.io/name=gpu-scheduler-check \
  --output 'jsonpath={range .items[*]}{.metadata.name} {.spec.nodeName}{"\n"}{end}')
[ -z "$DRY_RUN" ] || exit 0
{
  echo "=== Logs from test pods on nodes 3 and 4 ==="
  while read -r pod node; do
    case "$nodes" in
      *" ${node:-none} "*)
        echo "=== Pod: $pod on Node: $node ==="
        said "$pod"
        ;;
    esac
  done <<<"$pods"
} >"$OUTPUTS/logs-node3-node4.txt"
echo "written: $OUTPUTS/kubectl-get-pods-wide.txt $OUTPUTS/logs-node3-node4.txt"
