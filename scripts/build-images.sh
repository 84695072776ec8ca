#!/usr/bin/env bash
# Builds both images, and loads them into a KinD cluster if one is named.
#
#   scripts/build-images.sh [CLUSTER]
#
# Environment: TAG (the version), CONTAINER_TOOL (docker), DRY_RUN,
#   REGISTRY                 in front of the image names; empty: none
#   PUSH=1                   push the images to it
# and of the base images:
#   PYTHON_IMAGE, GO_IMAGE   instead of those that the Dockerfile names
#   PINNED=1                 only by digest, as a release is built: one that carries none is fetched, and
#                            the digest that the engine then knows of it is used and printed
set -euo pipefail
# shellcheck source=cluster/steps.sh
source "$(dirname "${BASH_SOURCE[0]}")/../cluster/steps.sh"

CLUSTER=${1:-}
TAG=${TAG:-$VERSION}
REGISTRY=${REGISTRY:-}
CONTAINER_TOOL=${CONTAINER_TOOL:-docker}

# The base image of an argument of the Dockerfile, by its digest where that is wanted.
base() {
  local image=${2:-$(sed -n "s/^ARG $1=//p" "$ROOT/Dockerfile")}
  if [ -n "${PINNED:-}" ] && [[ $image != *@sha256:* ]]; then
    run "$CONTAINER_TOOL" pull --quiet "$image" >&2
    if [ -n "$DRY_RUN" ]; then
      echo "$image@DIGEST"
      return
    fi
    image=$("$CONTAINER_TOOL" image inspect --format '{{index .RepoDigests 0}}' "$image")
  fi
  if [ -n "${PINNED:-}" ] && ! [[ $image =~ @sha256:[0-9a-f]{64}$ ]]; then
    fail "$image carries no digest; name it as NAME@sha256:... ($1_IMAGE)"
  fi
  echo "$image"
}

if [ -n "$CLUSTER" ]; then need "$CONTAINER_TOOL" kind; else need "$CONTAINER_TOOL"; fi
python=$(base PYTHON "${PYTHON_IMAGE:-}")
go=$(base GO "${GO_IMAGE:-}")
[ -z "${PINNED:-}" ] || say "base images $python, $go"
[ -z "${PUSH:-}" ] || [ -n "$REGISTRY" ] || fail "PUSH=1 needs the registry: REGISTRY=HOST/PATH"
for target in gpu-scheduler gpu-scheduler-check; do
  image=${REGISTRY:+$REGISTRY/}$target:$TAG
  say "image $image"
  run "$CONTAINER_TOOL" build --tag "$image" --target "$target" \
    --build-arg "PYTHON=$python" --build-arg "GO=$go" "$ROOT"
  [ -z "$CLUSTER" ] || run kind load docker-image "$image" --name "$CLUSTER"
  [ -z "${PUSH:-}" ] || run "$CONTAINER_TOOL" push "$image"
done
