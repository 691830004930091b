#!/usr/bin/env bash
# Real RDMA without any hardware: two virtual machines on this machine, Soft-RoCE on their NICs,
# perftest between them, and a capture of its packets. The first run builds the image of the machines
# from Debian packages, which takes some minutes; later runs start at once.
set -euo pipefail
cd "$(dirname "$0")/.."
fabric=${1:-examples/soft-roce-pair.hcl}
bold='' plain=''
if [ -t 1 ]; then bold=$(printf '\033[1m') plain=$(printf '\033[0m'); fi
step() { printf '\n%s$ fabricform %s%s\n' "$bold" "$*" "$plain"; bin/fabricform "$@"; }

.ci/deps vm
CGO_ENABLED=0 go build -trimpath -o bin/fabricform ./cmd/fabricform
trap 'bin/fabricform lab down "$fabric" >/dev/null 2>&1 || true' EXIT

step lab image
step lab up -backend vm "$fabric"
step apply -lab -auto-approve -no-verify "$fabric"
step plan -lab -detailed-exitcode "$fabric"
step show -lab -host node1 "$fabric"
step verify -lab -only link,ping,verbs -link rail0 "$fabric"
step capture -lab -rows 12 "$fabric" rail0
step render nccl -lab -host node1 "$fabric"
step lab down "$fabric"
