# SPDX-License-Identifier: BSD-3-Clause
"""Builds the sanitizer variants and runs part of the suite and the fuzzers under each.

It builds the kernels for the baseline and, for asan, for the processor's best or all ISA levels:
python tools/sanitize.py [asan] [tsan] [--all-levels] [--quick] [--minutes M] [--tests FILE ...]
Two runs take only minutes: `python tools/sanitize.py kernels` runs the kernels' C++ tests, and
`python tools/sanitize.py engine` the engine and the bindings, with an installed build's ops.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from own_build import own_builds

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))

# The tests that access memory in the most ways; the whole suite takes hours.
TESTS = """test_op_fuzz test_hostile_sequences test_hostile_sizes test_out_resize
test_interop_lifetime test_indexing test_inplace_geometry test_strides test_autograd_backward
test_autograd_hooks test_function_basic test_function_errors test_saved_hooks test_inplace_views
test_vmap_values test_func test_threads test_parallel_backward test_reentrant""".split()
THREADED = """test_threads test_parallel_backward test_reentrant test_autograd_modes
test_data_workers""".split()
ENGINE = """test_interop_lifetime test_autograd_backward test_autograd_hooks test_function_basic
test_function_errors test_saved_hooks test_inplace_views test_indexing""".split()
# Leaves out the checks that take most of the compiler's time.
QUICK = """address,shift,integer-divide-by-zero,signed-integer-overflow,bounds,bool,enum,
pointer-overflow,nonnull-attribute""".replace("\n", "")
FUZZ = ROOT / "tests" / "fuzz"
OPTIONS = {
    # tests/fuzz/leaks.py searches for leaks before Python exits, not at exit. The search crashes if
    # a thread-local block of a library begins 16 bytes into a page, as it takes what lies before
    # the block for glibc 2.19's header; with redzones of 256 bytes, no block can begin there.
    "asan": {
        "ASAN_OPTIONS": "allocator_may_return_null=1:max_allocation_size_mb=2048:handle_segv=2"
        ":detect_leaks=1:leak_check_at_exit=0:redzone=256",
        "UBSAN_OPTIONS": "print_stacktrace=1:halt_on_error=1",
        "LSAN_OPTIONS": f"print_suppressions=0:suppressions={FUZZ / 'lsan.supp'}",
        # Small objects that share a mapping are neither poisoned nor searched for pointers.
        "PYTHONMALLOC": "malloc",
    },
    "tsan": {
        "TSAN_OPTIONS": "halt_on_error=1:die_after_fork=0:handle_segv=0:history_size=5"
        ":second_deadlock_stack=1"
        f":suppressions={FUZZ / 'tsan.supp'}",
    },
}
LIBRARIES = {"asan": "libasan.so", "tsan": "libtsan.so"}
HUNTERS = {"asan": ["ops", "files", "functions", "lifetimes"], "tsan": ["functions"]}


def library(name: str) -> str:
    """Returns the path of one of the compiler's libraries."""
    command = [os.environ.get("CXX", "g++"), f"-print-file-name={name}"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def cmake(*arguments: str) -> None:
    """Runs CMake, which may be next to the interpreter."""
    path = {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    subprocess.run(["cmake", *arguments], cwd=ROOT, env=os.environ | path, check=True)


def build(variant: str, levels: list[str], quick: bool) -> None:
    """Builds build/VARIANT by the preset of that name; `quick` leaves out the slow checks."""
    checks = [f"-DCOGRAD_SANITIZE={QUICK}"] if quick and variant == "asan" else []
    cmake("--preset", variant, f"-DCOGRAD_ISA_LEVELS={';'.join(levels)}", *checks)
    cmake("--build", "--preset", variant)


def files_of(names: list[str]) -> list[str]:
    """Returns the paths of test files, whichever directory of tests/ they are in."""
    tests = ROOT / "tests"
    return [str(next(tests.glob(f"*/{n}.py")).relative_to(ROOT)) for n in names]


def run_engine(minutes: float, seed: int) -> int:
    """Builds tensors, autograd and bindings with the sanitizers and uses the rest as installed."""
    installed = own_builds(ROOT, "build.ninja")
    if len(installed) != 1:
        print(f"sanitize.py: engine needs the build of `make install`, found {installed}")
        return 1
    options = [f"-DCOGRAD_OBJECTS={installed[0]}", f"-DCOGRAD_SANITIZE={QUICK}"]
    cmake("--preset", "asan", "-B", "build/asan-engine", *options)
    cmake("--build", "build/asan-engine")
    level = levels_here(False)[-1]
    failed = run_tests("asan", level, files_of(ENGINE), "build/asan-engine")
    fuzz = ["tests/fuzz", "ops", "functions", "lifetimes", "--minutes", str(minutes)]
    return int(failed or run("asan", level, [*fuzz, "--seed", str(seed)], "build/asan-engine") != 0)


def run_kernels(levels: list[str]) -> int:
    """Runs the kernels' C++ tests under the address sanitizer, without ops and Python."""
    cmake("--preset", "asan", f"-DCOGRAD_ISA_LEVELS={';'.join(levels)}", "-B", "build/asan-kernels")
    names = [
        f"CMakeFiles/cograd_{layer}.dir/{s.relative_to(ROOT)}.o"
        for layer in ("kernels", "tensor")
        for s in (ROOT / "csrc" / layer).rglob("*.cpp")
        if "\nnamespace cograd::kernels::COGRAD_ISA" not in s.read_text(encoding="utf-8")
    ]
    targets = [*names, *(f"cograd_{level}" for level in levels)]
    cmake("--build", "build/asan-kernels", "--target", *targets)
    failed = 0
    env = os.environ | {
        # Programs fork while threads run, which the search for leaks cannot stop.
        "ASAN_OPTIONS": "detect_leaks=0",
        "UBSAN_OPTIONS": OPTIONS["asan"]["UBSAN_OPTIONS"],
        "COGRAD_TEST_BUILD": "build/asan-kernels",
    }
    with tempfile.TemporaryDirectory() as programs:
        for level in levels:
            command = [sys.executable, "-m", "pytest", "-q", "-n", "2", "-p", "no:cacheprovider"]
            variables = {"COGRAD_ISA": level, "COGRAD_TEST_PROGRAMS": programs}
            command.append("tests/extension/test_cpp.py")
            failed += subprocess.run(command, cwd=ROOT, env=env | variables, check=False).returncode
    return int(failed > 0)


def levels_here(every: bool) -> list[str]:
    """Returns the baseline and the best ISA level of this processor, or all its levels."""
    from levels import cpu_flags

    flags = cpu_flags()
    has = ["base", *(n for n, f in (("v3", "avx2"), ("v4", "avx512f")) if f in flags)]
    return has if every else sorted({has[0], has[-1]})


def run(variant: str, level: str, arguments: list[str], folder: str = "") -> int:
    """Runs Python with the package in `folder` (build/VARIANT); returns its exit status."""
    name = " ".join([variant, level, *arguments])
    print(f"--- {name}", flush=True)
    # Also preload the C++ library: the sanitizer looks for __cxa_throw when it starts.
    preload = f"{library(LIBRARIES[variant])} {library('libstdc++.so.6')}"
    env = os.environ | OPTIONS[variant] | {"PYTHON": sys.executable, "COGRAD_ISA": level}
    env["COGRAD_PRELOAD"] = preload
    env["PYTHONPATH"] = str(ROOT / "tests")
    command = [str(ROOT / "tools" / "run_build.sh"), folder or f"build/{variant}", *arguments]
    began = time.monotonic()
    status = subprocess.run(command, cwd=ROOT, env=env, check=False).returncode
    print(
        f"{'failed' if status else 'passed'} in {time.monotonic() - began:.0f} s: {name}",
        flush=True,
    )
    return status


def run_tests(variant: str, level: str, files: list[str], folder: str = "") -> int:
    """Returns True if a test failed or a sanitizer reported; a report ends only its worker."""
    reports = ROOT / (folder or f"build/{variant}") / "reports"
    shutil.rmtree(reports, ignore_errors=True)
    reports.mkdir(parents=True)
    plugins = ["-p", "no:cacheprovider", "-p", "fuzz.leaks"]
    pytest = ["-m", "pytest", "-q", "-n", "2", *plugins, "--timeout", "1200"]
    pytest += ["-k", "not no_growth"]  # freed memory stays in quarantine
    key = {"asan": "ASAN_OPTIONS", "tsan": "TSAN_OPTIONS"}[variant]
    saved = OPTIONS[variant][key]
    OPTIONS[variant][key] = f"{saved}:log_path={reports / 'report'}"
    try:
        failed = run(variant, level, [*pytest, *files], folder) != 0
    finally:
        OPTIONS[variant][key] = saved
    for report in sorted(reports.iterdir()):
        lines = report.read_text(errors="replace").splitlines()
        # Refused sizes are logged, too.
        lines = [line for line in lines if "Sanitizer failed to allocate" not in line]
        if any(lines):
            print("\n".join(lines)[:6000], flush=True)
            failed = True
    return int(failed)


def main() -> int:
    """Makes all runs and returns 1 if one failed."""
    parser = argparse.ArgumentParser(description="Builds and runs under sanitizers.")
    parser.add_argument("variants", nargs="*", help="asan and tsan, or kernels, or engine")
    parser.add_argument("--minutes", type=float, default=10, help="of fuzzing per level")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--tests", nargs="*", help="test files to run instead of the default ones")
    parser.add_argument("--all-levels", action="store_true", help="not only baseline and best")
    parser.add_argument("--quick", action="store_true", help="omit asan checks that compile slowly")
    given = parser.parse_args()
    failed, levels = 0, levels_here(given.all_levels)
    if given.variants == ["kernels"]:
        return run_kernels(levels)
    if given.variants == ["engine"]:
        return run_engine(given.minutes, given.seed)
    for variant in given.variants or list(OPTIONS):
        kernels = levels if variant == "asan" else levels[:1]  # ISA levels do not matter for races
        build(variant, kernels, given.quick)
        names = TESTS if variant == "asan" else THREADED
        files = given.tests if given.tests is not None else files_of(names)
        for level in kernels:
            if files:
                failed += run_tests(variant, level, files)
            if given.minutes:
                fuzz = ["tests/fuzz", *HUNTERS[variant], "--minutes", str(given.minutes)]
                failed += run(variant, level, [*fuzz, "--seed", str(given.seed)]) != 0
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
