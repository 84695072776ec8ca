#!/usr/bin/env bash
# Runs commands in a clone of this repository on an empty Debian, as a user who has just got the
# machine: nothing there but make, Python, git, certificates, and Go only if asked for.
#
#   tools/fresh_machine.sh [--with-go | --without-go] [--suite NAME] [--keep] [COMMAND...]
#
#   --with-go      this machine's Go is there (default: none, so that it comes from PyPI)
#   --suite NAME   the Debian release to make (default bookworm)
#   --keep         leave the root file system behind, for a look
#   COMMAND...     shell lines to run in the clone (default: "make demo" "make test")
#
# What is cloned is the commit that is checked out; changes that are not committed are not there.
# Needs root, debootstrap and the network; a full run takes half an hour and 10 GB below
# ${TMPDIR:-/var/tmp}. It never writes outside of that folder, and unmounts what it has mounted
# however it ends. Processes that a command leaves behind end with it.
set -euo pipefail

usage() { sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//;p}' "$0"; }
die() {
  echo "fresh_machine: $*" >&2
  exit 1
}

with_go=no
suite=bookworm
keep=no
while (($#)); do
  case $1 in
    --with-go) with_go=yes ;;
    --without-go) with_go=no ;;
    --suite)
      suite=${2:?"--suite needs a name"}
      shift
      ;;
    --keep) keep=yes ;;
    -h | --help)
      usage
      exit 0
      ;;
    --)
      shift
      break
      ;;
    -*) die "$1: unknown option; see --help" ;;
    *) break ;;
  esac
  shift
done
if (($# == 0)); then
  set -- "make demo" "make test"
fi

((EUID == 0)) || die "only root can make a root file system; run it with sudo"
for program in debootstrap chroot unshare git; do
  command -v "$program" >/dev/null || die "$program is missing; on Debian: apt-get install $program"
done
goroot=
if [[ $with_go == yes ]]; then
  command -v go >/dev/null || die "--with-go: this machine has no go in its PATH"
  goroot=$(go env GOROOT)
fi

repository=$(git -C "$(dirname "$0")" rev-parse --show-toplevel)
root=$(mktemp -d "${TMPDIR:-/var/tmp}/fresh-machine.XXXXXX")
chmod 755 "$root" # the user inside must be able to enter it
mounts=()

mount_at() { # mount_at TARGET ARGUMENT...: mount, and remember for the end
  local target=$1
  shift
  mkdir -p "$target"
  mount "$@" "$target"
  mounts=("$target" "${mounts[@]}")
}

# shellcheck disable=SC2317,SC2329 # called by the trap
clean_up() {
  local target
  for target in "${mounts[@]}"; do
    umount "$target" || umount --lazy "$target"
  done
  if [[ $keep == yes ]]; then
    echo "fresh_machine: left behind: $root" >&2
  else
    # Should anything still be mounted below, its content stays: another file system is not entered.
    rm -rf --one-file-system "$root"
  fi
}
trap clean_up EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

say() { echo "fresh_machine: $*" >&2; }

say "bootstrapping Debian $suite in $root"
debootstrap --variant=minbase --include=make,python3,python3-venv,git,ca-certificates \
  "$suite" "$root" >"$root.log" 2>&1 || {
  tail -n 5 "$root.log" >&2
  die "debootstrap failed; log: $root.log"
}
rm -f "$root.log"

# The network of this machine: its names, and the authorities that its proxy may be signed by.
for file in /etc/resolv.conf /etc/hosts; do
  [[ -e $file ]] && cp -L "$file" "$root$file"
done
bundle=/etc/ssl/certs/ca-certificates.crt
[[ -e $bundle ]] && cp -L "$bundle" "$root$bundle"
if [[ -e /etc/pip.conf ]]; then
  cp -L /etc/pip.conf "$root/etc/pip.conf"
fi

mount_at "$root/dev" --bind /dev
mount_at "$root/dev/shm" -t tmpfs tmpfs
mount_at "$root/sys" --bind -o ro /sys
path=/usr/local/bin:/usr/bin:/bin
if [[ -n $goroot ]]; then
  mount_at "$root/usr/local/go" --bind -o ro "$goroot"
  path=/usr/local/go/bin:$path
fi

# As after the first command of an administrator: the tests take Prometheus out of its package.
chroot "$root" apt-get update --quiet >/dev/null

home=/home/user
chroot "$root" useradd --create-home --home-dir "$home" --shell /bin/bash user
git clone --quiet --no-hardlinks "$repository" "$root$home/gpu-scheduler"
chroot "$root" chown -R user:user "$home"

# A user's shell: no variable of ours but those that say how to reach the network.
environment=("HOME=$home" "USER=user" "PATH=$path" "LANG=C.UTF-8" "TERM=${TERM:-dumb}")
environment+=("PIP_CERT=$bundle")
for name in http_proxy https_proxy no_proxy HTTP_PROXY HTTPS_PROXY NO_PROXY GOPROXY GOSUMDB \
  GONOSUMDB GOPRIVATE PIP_INDEX_URL PIP_EXTRA_INDEX_URL PIP_TRUSTED_HOST PIP_DEFAULT_TIMEOUT \
  PIP_RETRIES; do
  [[ -v $name ]] && environment+=("$name=${!name}")
done

# A process namespace of its own: whatever a command leaves running ends with the command.
run() {
  # shellcheck disable=SC2016 # expanded by the inner shell
  unshare --pid --fork --kill-child --mount-proc="$root/proc" chroot --userspec=user:user "$root" \
    /usr/bin/env -i "${environment[@]}" /bin/bash -c 'cd ~/gpu-scheduler && eval "$1"' fresh "$1"
}

for line in "$@"; do
  started=$SECONDS
  say "\$ $line"
  run "$line" || die "\`$line\` failed with status $? after $((SECONDS - started)) s"
  say "\`$line\` passed after $((SECONDS - started)) s"
done
say "disk used: $(du -shx "$root" | cut -f 1)"
