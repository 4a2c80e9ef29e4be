#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Builds libcograd.so for 64-bit Arm with Debian's cross compiler and runs the core's C++ tests
# (tests/cpp) and one program each of the C++ and the C interface under qemu-user. On Debian or
# Ubuntu it needs:
#   apt-get install g++-aarch64-linux-gnu qemu-user
# OpenBLAS is the aarch64 wheel of scipy-openblas32; its runtime needs zlib, so Debian's zlib is
# unpacked next to it. Usage: tools/cross_aarch64.sh [test name or "interfaces" ...]
set -euo pipefail
cd "$(dirname "$0")/.."
PYTHON=${PYTHON:-.venv/bin/python}
[ -x "$PYTHON" ] || PYTHON=python3
OUT=${OUT:-.cache/aarch64}
JOBS=${JOBS:-$(nproc)}
OPTIMISATION=${OPTIMISATION:--O1}
QEMU=${QEMU:-qemu-aarch64} # that of Debian 12, 7.2, asserts where a forked child starts threads
names=$*
emulator=("$QEMU" -L /usr/aarch64-linux-gnu)

for tool in aarch64-linux-gnu-g++ "$QEMU"; do
  command -v "$tool" >/dev/null || {
    echo "cross_aarch64.sh: $tool is missing: apt-get install g++-aarch64-linux-gnu qemu-user" >&2
    exit 1
  }
done
# CMake and Ninja may be next to the interpreter.
PATH="$(cd "$(dirname "$PYTHON")" && pwd):$PATH"

blas=$OUT/openblas
if [ ! -e "$blas/scipy_openblas32/lib/libscipy_openblas.so" ]; then
  mkdir -p "$OUT/wheel"
  "$PYTHON" -m pip download -q --no-deps --only-binary=:all: --platform manylinux2014_aarch64 \
    -d "$OUT/wheel" "scipy-openblas32>=0.3.30"
  "$PYTHON" -m zipfile -e "$OUT"/wheel/scipy_openblas32-*.whl "$blas"
fi
lib=$PWD/$blas/scipy_openblas32/lib
zlib=$PWD/$OUT/zlib
[ -e "$zlib/lib/aarch64-linux-gnu/libz.so.1" ] ||
  tools/cross_aarch64_packages.sh "$PWD/$OUT" "$zlib" zlib1g

cmake -G Ninja -S . -B "$OUT/build" \
  -DCMAKE_TOOLCHAIN_FILE=cmake/toolchains/aarch64-linux-gnu.cmake -DCOGRAD_PYTHON=OFF \
  -DCMAKE_BUILD_TYPE=Check -DCMAKE_CXX_FLAGS_CHECK="$OPTIMISATION -DNDEBUG" \
  -DCOGRAD_KERNEL_OPTIMISATION="$OPTIMISATION" -DCOGRAD_WERROR=ON \
  -DOpenBLAS32_LIBRARY="$lib/libscipy_openblas.so" \
  -DOpenBLAS32_INCLUDE_DIR="$PWD/$blas/scipy_openblas32/include" -DOpenBLAS32_VERSION=cross >"$OUT/configure.log"
cmake --build "$OUT/build" -j "$JOBS" ${KEEP_GOING:+-- -k 0}

# The ops register themselves, so the whole archive is linked.
compile=(aarch64-linux-gnu-g++ -std=c++20 -O1 -pthread -Icsrc -Icsrc/include)
objects=("$OUT"/build/CMakeFiles/cograd_*.dir)
rm -f "$OUT/objects.a"
find "${objects[@]}" -name '*.o' | sort | xargs aarch64-linux-gnu-ar qcs "$OUT/objects.a"
paths=$lib:$zlib/lib/aarch64-linux-gnu:$PWD/$OUT/build/cograd/lib
run() { LD_LIBRARY_PATH='' "${emulator[@]}" -E LD_LIBRARY_PATH="$paths" "$@"; }

failed='' TIMEFORMAT='%R s'
wanted() { [ -z "$names" ] || [[ " $names " == *" $1 "* ]]; }
check() {
  printf '=== %s\n' "$1"
  shift
  time run "$@" || failed+=" $(basename "$1")"
}

# The kernels' tests use symbols that libcograd.so hides, so they link its objects.
for source in tests/cpp/*_test.cpp; do
  name=$(basename "$source" .cpp)
  wanted "$name" || continue
  "${compile[@]}" "$source" -Wl,--whole-archive "$OUT/objects.a" -Wl,--no-whole-archive \
    "$lib/libscipy_openblas.so" -Wl,-rpath-link,"$lib:$zlib/lib/aarch64-linux-gnu" -ldl -o "$OUT/$name"
  check "$name" "$OUT/$name"
done

# Tests the interfaces for extensions, C++ and C, forward and backward.
if wanted interfaces; then
  interface=(-L"$OUT/build/cograd/lib" -lcograd -Wl,-rpath-link,"$lib:$zlib/lib/aarch64-linux-gnu")
  "${compile[@]}" examples/extensions/standalone/train.cpp "${interface[@]}" -o "$OUT/cpp_interface"
  check "C++ interface" "$OUT/cpp_interface"
  aarch64-linux-gnu-gcc -std=c11 -O1 -Icsrc/include examples/extensions/c/{program,soft_dtw}.c \
    "${interface[@]}" -lm -o "$OUT/c_interface"
  check "C interface" "$OUT/c_interface"
fi
[ -z "$failed" ] || {
  echo "cross_aarch64.sh: failed:$failed" >&2
  exit 1
}
