#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Run it after tools/cross_aarch64.sh. It builds the Python module for 64-bit Arm, and runs the
# package under qemu-user in Debian's CPython for Arm: tools/wheel_smoke.py, `cograd doctor` and
# test files. The interpreter of .venv must have the version of Debian's python3, whose headers are
# used. ROOT: an unpacked Debian for Arm. Usage: tools/cross_aarch64_python.sh [test file ...]
set -euo pipefail
cd "$(dirname "$0")/.."
OUT=${OUT:-$PWD/.cache/aarch64}
QEMU=$(command -v "${QEMU:-qemu-aarch64}")
python=$PWD/.venv/bin/python
PATH=$PWD/.venv/bin:$PATH
version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
tag=cpython-${version/./}-aarch64-linux-gnu

# Unpacks Debian's interpreter and its libraries; a script in its place runs it in the emulator.
root=${ROOT:-$OUT/root}
if [ ! -e "$root/usr/bin/python$version.real" ]; then
  tools/cross_aarch64_packages.sh "$OUT" "$root" libc6 libgcc-s1 libstdc++6 zlib1g libexpat1 libssl3
  \
    libffi8 libsqlite3-0 libbz2-1.0 liblzma5 libncursesw6 libtinfo6 libreadline8 libuuid1 libcrypt1
    \ "python$version" "python$version-minimal" "libpython$version-minimal"
    "libpython$version-stdlib" \ "libpython$version-dev"
  cp "$root/usr/include/aarch64-linux-gnu/python$version/pyconfig.h"
  "$root/usr/include/python$version/" mv "$root/usr/bin/python$version"
  "$root/usr/bin/python$version.real" printf '#!/bin/sh\nexec %s -L %s -0 "$0" %s "$@"\n' "$QEMU"
  "$root" "$root/usr/bin/python$version.real" \
    >"$root/usr/bin/python$version"
  chmod +x "$root/usr/bin/python$version"
fi

blas=$OUT/openblas/scipy_openblas32
cmake -G Ninja -S . -B "$OUT/python" -DCMAKE_TOOLCHAIN_FILE=cmake/toolchains/aarch64-linux-gnu.cmake
\
  -DCMAKE_BUILD_TYPE=Check -DCMAKE_CXX_FLAGS_CHECK="-O1 -DNDEBUG" \
  -DCOGRAD_PREBUILT="$OUT/build/cograd/lib/libcograd.so"
  -DOpenBLAS32_LIBRARY="$blas/lib/libscipy_openblas.so" \ -DOpenBLAS32_INCLUDE_DIR="$blas/include"
  -DOpenBLAS32_VERSION=cross -DPython_EXECUTABLE="$python" \
  -DPython_INCLUDE_DIR="$root/usr/include/python$version" -DPYTHON_MODULE_EXTENSION=".$tag.so" \
  -Dpybind11_DIR="$("$python" -m pybind11 --cmakedir)" >"$OUT/configure_python.log"
cmake --build "$OUT/python" -j "${JOBS:-$(nproc)}"

venv=$OUT/venv
site=$venv/lib/python$version/site-packages
if [ ! -e "$site/numpy" ]; then
  "$root/usr/bin/python$version" -m venv --without-pip "$venv"
  platforms=(--platform=manylinux{_2_28,_2_27,2014,_2_17}_aarch64)
  "$python" -m pip install -q --only-binary=:all: --python-version "$version" --target "$site" \
    "${platforms[@]}" numpy safetensors scipy-openblas32 pytest pytest-timeout hypothesis
fi
rm -rf "$site/cograd"
cp -r python/cograd "$site/"
cmake --install "$OUT/python" --component wheel --prefix "$site" >/dev/null

"$venv/bin/python" tools/wheel_smoke.py
"$venv/bin/python" -m cograd doctor
if [ $# -gt 0 ]; then
  "$venv/bin/python" -m pytest -q -p no:cacheprovider --timeout 600 -m "not slow" "$@"
fi
