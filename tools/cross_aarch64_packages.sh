#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Unpacks Debian's packages for 64-bit Arm: cross_aarch64_packages.sh WORK ROOT package ...
# WORK, an absolute path, stores the lists of packages.
set -euo pipefail
work=$1 root=$2
shift 2
mkdir -p "$work/lists/partial" "$root"
debs=$(mktemp -d "$work/debs.XXXXXX")
trap 'rm -r "$debs"' EXIT
arm=(-oAPT::Architecture=arm64 -oAPT::Architectures=arm64 -oDir::State::Lists="$work/lists")
apt-get -qq "${arm[@]}" update
(cd "$debs" && apt-get -qq "${arm[@]}" download "$@")
for package in "$debs"/*.deb; do dpkg -x "$package" "$root"; done
