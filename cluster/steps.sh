# shellcheck shell=bash
# Sourced by the scripts that set up local clusters: how a step is run, shown, and refused.
#
# With DRY_RUN=1 every command that would change something is printed and none is run, so what a
# script does can be read, and tested, on a machine without a container engine.

# shellcheck disable=SC2034 # the scripts that source this use it
ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
DRY_RUN=${DRY_RUN:-}
# The tag of our images, which is the appVersion of the charts.
[[ $(<"$ROOT/pyproject.toml") =~ version\ =\ \"([^\"]+)\" ]]
# shellcheck disable=SC2034 # likewise
VERSION=${BASH_REMATCH[1]}

say() { printf '=== %s\n' "$*"; }

fail() {
  printf '%s: %s\n' "$(basename "$0")" "$*" >&2
  exit 1
}

# need PROGRAM...: all that is missing at once, not one after the other.
need() {
  local program missing=()
  if [ -n "$DRY_RUN" ]; then
    echo "# needs: $*"
    return
  fi
  for program in "$@"; do
    command -v "$program" >/dev/null || missing+=("$program")
  done
  [ "${#missing[@]}" -eq 0 ] || fail "install these first: ${missing[*]}"
  case " $* " in
    *" docker "*) docker info >/dev/null 2>&1 || fail "docker does not answer; is it running?" ;;
  esac
}

# run COMMAND...: show it, and run it unless this is a dry run.
run() {
  printf '+'
  printf ' %q' "$@"
  printf '\n'
  [ -n "$DRY_RUN" ] || "$@"
}

# ask COMMAND...: what a command prints; in a dry run nothing, and the command is shown.
ask() {
  if [ -n "$DRY_RUN" ]; then
    { printf '+'; printf ' %q' "$@"; printf '\n'; } >&2
    return
  fi
  "$@"
}

# recreate_cluster NAME CONFIG: a fresh KinD cluster whose nodes are ready.
recreate_cluster() {
  local name=$1 config=$2
  if [ -z "$DRY_RUN" ] && kind get clusters 2>/dev/null | grep -qx "$name"; then
    run kind delete cluster --name "$name"
  fi
  run kind create cluster --name "$name" --config "$config"
  run kubectl config use-context "kind-$name"
  run kubectl wait --for=condition=Ready nodes --all --timeout=300s
}
