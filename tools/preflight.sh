#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Reports missing system packages before a build starts: preflight.sh PYTHON [CXX].
python=$1
cxx=${2:-g++}
status=0

say() {
  echo "cograd: $1" >&2
  status=1
}

if ! command -v "$python" >/dev/null 2>&1; then
  say "no '$python' on the path; install Python 3.10 to 3.15 (Debian: apt-get install python3)"
else
  "$python" - <<'PY' || status=1
import os, sys, sysconfig
bad = []
if not (3, 10) <= sys.version_info[:2] <= (3, 15):
    bad.append("Python %d.%d found, 3.10 to 3.15 needed; choose one with: make PYTHON=python3.12 ..."
               % sys.version_info[:2])
if not os.path.exists(os.path.join(sysconfig.get_paths()["include"], "Python.h")):
    bad.append("Python.h not found; install Python's headers (Debian: apt-get install python3-dev)")
try:
    import ensurepip, venv
except ImportError:
    bad.append("no venv module; install it (Debian: apt-get install python3-venv)")
for line in bad:
    print("cograd:", line, file=sys.stderr)
sys.exit(bool(bad))
PY
fi

probe=$(mktemp -d) || exit 1
trap 'rm -rf "$probe"' EXIT
printf '#include <bit>\n#include <concepts>\nint main() { return std::bit_width(0u); }\n' >"$probe/p.cpp"
if ! command -v "$cxx" >/dev/null 2>&1; then
  say "no C++ compiler '$cxx'; install one (Debian: apt-get install g++) or set CXX"
elif ! "$cxx" -std=c++20 -o "$probe/p" "$probe/p.cpp" 2>"$probe/err"; then
  cat "$probe/err" >&2
  say "'$cxx' cannot compile C++20; g++ 11 or clang++ 14 and newer can"
fi
exit $status
