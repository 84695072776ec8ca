#!/usr/bin/env bash
# Kept for those whose notes name it: the webhook is Python now, and there is no module to prepare.
set -euo pipefail
echo "Nothing to do: the webhook has no Go module. Next: webhook/scripts/build-and-deploy.sh"
