#!/usr/bin/env bash
# Does nothing: the webhook is a Python program without a Go module. Kept for existing scripts.
set -euo pipefail
echo "Nothing to do: the webhook has no Go module. Next: webhook/scripts/build-and-deploy.sh"
