# SPDX-License-Identifier: BSD-3-Clause
# .ci/run and .ci/nightly share this: named steps, what has passed before, and the other Pythons.
#
#   step NAME                        begins a step; the commands that follow belong to it
#   step NAME COMMAND                runs COMMAND, a function with arguments, as a step
#   step NAME COMMAND INPUT...       skips it if it has passed on this machine with the same INPUTs
#
# INPUTs are git's pathspecs; an exclusion (':!PATTERN') ends at the word `and`. The record of a
# pass is a file in $COGRAD_CI_CACHE, named by a hash of the step's text, of the files that match
# (tracked or not ignored), and of `circumstances`. It counts for 30 days, in any checkout.
# COGRAD_CI_CACHE= (empty) turns this off. A pass is recorded only if no input changed while the
# step ran.
#
# ONLY and SKIP are patterns for names, separated by spaces: ONLY='lint python-*' SKIP=docs.
name='' begun=0 times='' matched='' known=''
closing=${closing:-}
ci_cache=${COGRAD_CI_CACHE-${XDG_CACHE_HOME:-${HOME:-/tmp}/.cache}/cograd-ci}
ci_cache_days=30
# As in the Makefile, for builds that do not use it.
export CCACHE_BASEDIR="${CCACHE_BASEDIR:-$PWD}" CCACHE_NOHASHDIR=true CCACHE_ABSSTDERR=true
export PYTHONDONTWRITEBYTECODE=

step_ends() {
  [ -z "$name" ] && return
  printf '=== %s: %ss\n' "$name" $((SECONDS - begun))
  times+=$(printf '%6ss  %s' $((SECONDS - begun)) "$name")$'\n'
  name=''
}

step_omitted() {  # name, reason
  times+=$(printf '%6s   %s: %s' - "$1" "$2")$'\n'
}

step() {
  local next=$1 command=${2:-} key='' date
  step_ends
  if [ -n "$command" ]; then
    shift 2
    chosen "$next" || { step_omitted "$next" "left out by ONLY or SKIP"; return 0; }
    if [ -n "$ci_cache" ] && [ $# -gt 0 ]; then
      match_files "$next" "$@" || return
      [ -n "$known" ] || known=$(circumstances) || return
      key=$(step_key "$command" "$@")
      if date=$(passed_on "$key"); then
        printf '\n=== %s: unchanged\n' "$next"
        step_omitted "$next" "unchanged since it passed on $date"
        return 0
      fi
    fi
  fi
  name=$next begun=$SECONDS
  printf '\n=== %s\n' "$name"
  [ -n "$command" ] || return 0
  $command
  step_ends
  if [ -n "$key" ] && [ "$key" = "$(step_key "$command" "$@")" ]; then record "$key" "$next"; fi
}

# True if the name $1 matches one of the patterns of $2.
matches() {
  local pattern patterns
  read -ra patterns <<<"$2"
  for pattern in "${patterns[@]}"; do
    # shellcheck disable=SC2053  # a pattern, not a text
    if [[ $1 == $pattern ]]; then return 0; fi
  done
  return 1
}

# True if ONLY and SKIP let the step $1 run.
chosen() {
  if [ -n "${ONLY:-}" ]; then
    matches "$1" "$ONLY" || return 1
    matched=yes
  fi
  ! matches "$1" "${SKIP:-}"
}

git_files() { git ls-files -z --cached --others --exclude-standard -- "$@"; }

# Fails if an INPUT of step $1 matches no file: a misspelt one would let changes pass unseen.
match_files() {
  local next=$1 input
  shift
  for input in "$@"; do
    case $input in ':!'* | and) continue ;; esac
    if ! IFS= read -r -d '' _ < <(git_files "$input"); then
      printf 'step %s: no file matches its input %s; correct it in .ci/run\n' "$next" "$input" >&2
      return 1
    fi
  done
}

# Prints a hash of a step's command, its function, $also, the circumstances and its files.
step_key() {
  local command=$1 hash
  shift
  read -r hash _ < <({
    printf '%s\n' "$command" "${also:-}" "$known" "$(<.ci/steps.sh)"
    declare -f "${command%% *}"
    contents_of "$@"
  } | sha256sum)
  printf '%s\n' "$hash"
}

list_inputs() {
  local group=()
  while [ $# -gt 0 ]; do
    if [ "$1" = and ]; then
      git_files "${group[@]}"
      group=()
    else
      group+=("$1")
    fi
    shift
  done
  git_files "${group[@]}"
}

contents_of() {
  local file files=()
  while IFS= read -r -d '' file; do
    [ -f "$file" ] || continue
    files+=("$file")
    if [ -x "$file" ]; then printf 'executable %s\n' "$file"; fi
  done < <(list_inputs "$@" | LC_ALL=C sort -zu)
  printf '%s\0' "${files[@]}" | xargs -0 sha256sum
}

# Prints what a step depends on beside files: the machine, Python, the compiler, the packages of
# .venv, and the variables that commands read.
circumstances() {
  uname -sm
  getconf GNU_LIBC_VERSION 2>/dev/null || true
  grep -m 2 -E '^(model name|flags)' /proc/cpuinfo 2>/dev/null || true
  "${CXX:-g++}" --version || true
  .venv/bin/python -VV && .venv/bin/python -m pip freeze --exclude cograd || return
  printf 'PYTEST_ARGS=%s\n' "${PYTEST_ARGS:-}"
  env | grep -vE '^COGRAD_(CI|SUBJECTS)_' | LC_ALL=C sort | grep -E \
    '^(CC|CXX|(C|CXX|CPP|LD)FLAGS|WERROR|SMOKE|[A-Z]*_ARGS|FUZZ_[A-Z]*|PYTEST_[A-Z]*)=|^(COGRAD|CMAKE|SKBUILD|OPENBLAS|OMP|MKL|MPI|PYTHON[A-Z])[A-Z_]*=' || true
}

# Prints the date on which the step with the hash $1 passed; fails if it has not.
passed_on() {
  local when=''
  [ -n "$1" ] && [ -f "$ci_cache/$1" ] && read -r when _ <"$ci_cache/$1" || return 1
  [[ $when =~ ^[0-9]+$ ]] && [ $((EPOCHSECONDS - when)) -lt $((ci_cache_days * 86400)) ] || return 1
  printf '%(%Y-%m-%d)T\n' "$when"
}

record() {  # hash, name
  local made
  if mkdir -p "$ci_cache" && made=$(mktemp "$ci_cache/new.XXXXXX") &&
    printf '%s %s\n' "$EPOCHSECONDS" "$2" >"$made" && mv "$made" "$ci_cache/$1"; then
    find "$ci_cache" -maxdepth 1 -type f -mtime "+$ci_cache_days" -delete || true
  else
    printf 'cannot write to %s: the pass of %s is not recorded\n' "$ci_cache" "$2"
  fi
}

if [ -n "$ci_cache" ] && ! git rev-parse --is-inside-work-tree >/dev/null 2>&1; then
  printf 'no git repository: every step runs\n'
  ci_cache=''
fi

summary() {
  status=$?
  if [ "$status" -eq 0 ] && [ -n "${ONLY:-}" ] && [ -z "$matched" ]; then
    closing="no step is called $ONLY"
    status=2
  fi
  [ "$status" -eq 0 ] || [ -z "$name" ] || name="$name (FAILED)"
  step_ends
  rm -f "${log:-}"
  printf '\n%s%6ss  in all\n' "$times" "$SECONDS"
  if [ -n "${minutes:-}" ] && [ $((SECONDS * 100)) -gt $((minutes * 60 * 120)) ]; then
    printf 'This took %s minutes; %s promises %s.\n' $(((SECONDS + 30) / 60)) "$0" "$minutes"
  fi
  printf '%s\n' "$closing"
  exit "$status"
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

# Builds and installs into .venv; takes no time if that has been done.
make_install() { make PYTHON="$PYTHON" install </dev/null; }

# Prints the libcograd.so of the build that .venv's install came from: build/TAG, of its wheel.
own_libcograd() {
  .venv/bin/python -c '
import importlib.metadata as metadata, re
wheel = metadata.distribution("cograd").read_text("WHEEL")
print("build/" + re.search(r"^Tag: (.*)$", wheel, re.M)[1] + "/cograd/lib/libcograd.so")'
}

# Runs the smoke tests on Python $1. libcograd.so does not depend on Python: the one that is already
# built is linked, and only csrc/python is compiled, without optimisation, as this tests whether it
# works and not how fast. Every Python loads the op in build/prebuilt.
smoke_tests() {
  COGRAD_PREBUILT_OP=$PWD/build/prebuilt/t_prebuilt.so make PYTHON="$(python_of "$1")" \
    VENV=".venv-$1" PREBUILT="$(own_libcograd)" OPTIMISATION=-O0 smoke PYTEST_ARGS="$PYTEST_ARGS" </dev/null
}

smoke_on() { step "python-$1" "smoke_tests $1"; }

# Compiles one op that all Pythons load (tests/extension/test_abi.py).
prebuild_op() {
  mkdir -p build/prebuilt
  .venv/bin/python -c 'import sys; from cograd.utils import cpp_extension
cpp_extension.load("t_prebuilt", "tests/extensions/prebuilt.cpp", build_directory=sys.argv[1],
                   is_python_module=False)' "$PWD/build/prebuilt" </dev/null
}
