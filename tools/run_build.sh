#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Runs Python with the package of a CMake preset: run_build.sh BUILD_DIR python-arguments...
# It links the sources' .py files and the build's binaries into one directory.
set -eu
build=$1
shift
root=$(cd "$(dirname "$0")/.." && pwd)
stage="$root/$build/stage/cograd"
rm -rf "$stage"
mkdir -p "$stage/_base"
for item in "$root"/python/cograd/* "$root/$build"/cograd/*; do
  [ "$(basename "$item")" = _base ] || ln -s "$item" "$stage/"
done
# Two folders make one: the build writes build_info.py.
for item in "$root"/python/cograd/_base/* "$root/$build"/cograd/_base/*; do
  ln -s "$item" "$stage/_base/"
done
# Here, too: the build writes torch's header names (cmake/torch_headers.cmake).
mkdir -p "$stage/include"
cp -rs "$root/csrc/include/cograd" "$root/$build/include/cograd" "$stage/include/"
export PYTHONPATH="$root/$build/stage${PYTHONPATH:+:$PYTHONPATH}"
# Preloads a sanitizer's runtime only for Python, not for this shell.
exec env ${COGRAD_PRELOAD:+LD_PRELOAD="$COGRAD_PRELOAD"} "${PYTHON:-python3}" "$@"
