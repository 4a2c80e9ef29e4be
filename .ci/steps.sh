# SPDX-License-Identifier: BSD-3-Clause
# .ci/run and .ci/nightly share this: named steps with their seconds, and the other Pythons.
name='' begun=0 times='' closing=${closing:-}

step_ends() {
  [ -z "$name" ] && return
  printf '=== %s: %ss\n' "$name" $((SECONDS - begun))
  times+=$(printf '%6ss  %s' $((SECONDS - begun)) "$name")$'\n'
  name=''
}

step() {
  step_ends
  name=$1 begun=$SECONDS
  printf '\n=== %s\n' "$name"
}

summary() {
  status=$?
  [ "$status" -eq 0 ] || name="$name (FAILED)"
  step_ends
  rm -f "${log:-}"
  printf '\n%s%6ss  in all\n%s\n' "$times" "$SECONDS" "$closing"
}
trap summary EXIT

# Prints a usable interpreter of version $1; fails if there is none.
python_of() {
  local found
  found=$(ls -d "$HOME"/.pyenv/versions/"$1".*/bin/python 2>/dev/null | tail -1 || true)
  [ -n "$found" ] || found=$(command -v "python$1" || true)
  [ -n "$found" ] && sh tools/preflight.sh "$found" "${CXX:-g++}" >/dev/null 2>&1 || return 1
  printf '%s\n' "$found"
}

# Prints the versions other than that of .venv that have an interpreter here, oldest first.
other_pythons() {
  local main version
  main=$(.venv/bin/python -c 'import sys; print("%d.%d" % sys.version_info[:2])')
  for version in 3.10 3.11 3.12 3.13 3.14 3.15; do
    [ "$version" = "$main" ] && continue
    if python_of "$version" >/dev/null; then printf "%s\n" "$version"; fi
  done
}

# Runs the smoke tests on Python $1. libcograd.so does not depend on Python: the one that is already
# built is linked, and only csrc/python is compiled. Every Python loads the op in build/prebuilt.
smoke_on() {
  step "python $1"
  COGRAD_PREBUILT_OP=$PWD/build/prebuilt/t_prebuilt.so make PYTHON="$(python_of "$1")" \
    VENV=".venv-$1" PREBUILT="$(ls -t build/cp3*/cograd/lib/libcograd.so | head -1)" smoke \
    PYTEST_ARGS="$PYTEST_ARGS" </dev/null
}

# Compiles one op that all Pythons load (tests/test_abi.py).
prebuild_op() {
  mkdir -p build/prebuilt
  .venv/bin/python -c 'import sys; from cograd.utils import cpp_extension
cpp_extension.load("t_prebuilt", "tests/extensions/prebuilt.cpp", build_directory=sys.argv[1],
                   is_python_module=False)' "$PWD/build/prebuilt" </dev/null
}
