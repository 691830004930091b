#!/usr/bin/env bash
# A full cycle in a lab on this machine. It needs no hardware and changes nothing outside the lab.
set -euo pipefail
cd "$(dirname "$0")/.."
fabric=${1:-examples/roce-pair.hcl}
bold='' plain=''
if [ -t 1 ]; then bold=$(printf '\033[1m') plain=$(printf '\033[0m'); fi
step() { printf '\n%s$ fabricform %s%s\n' "$bold" "$*" "$plain"; bin/fabricform "$@"; }

.ci/deps ip=iproute2 sshd=openssh-server update-ca-certificates=ca-certificates # Go downloads modules over TLS
CGO_ENABLED=0 go build -trimpath -o bin/fabricform ./cmd/fabricform
trap 'bin/fabricform lab down "$fabric" >/dev/null 2>&1 || true' EXIT

step validate "$fabric"
step lab up "$fabric"
step plan -lab "$fabric"
step apply -lab -auto-approve "$fabric"
step verify -lab -only link,ping "$fabric"
step plan -lab -detailed-exitcode "$fabric"
step render nccl -lab -host a "$fabric"
step history -lab "$fabric"
step destroy -lab -auto-approve "$fabric"
step lab down "$fabric"
