# SPDX-License-Identifier: BSD-3-Clause
"""Builds the sanitizer variants and runs part of the suite and the fuzzers under each.

With the baseline's kernels and, for addresses, the processor's best or every level's it has:
python tools/sanitize.py [asan] [tsan] [--all-levels] [--minutes M] [--tests FILE ...]
The kernels' C++ tests alone, in minutes: python tools/sanitize.py kernels
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

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))

# What touches memory in the most ways; the whole suite takes hours.
TESTS = """test_op_fuzz test_hostile_sequences test_hostile_sizes test_out_resize
test_interop_lifetime test_indexing test_inplace_geometry test_strides test_autograd_backward
test_autograd_hooks test_function_basic test_function_errors test_saved_hooks test_inplace_views
test_vmap_values test_func test_threads test_parallel_backward test_reentrant""".split()
THREADED = """test_threads test_parallel_backward test_reentrant test_autograd_modes
test_data_workers""".split()
FUZZ = ROOT / "tests" / "fuzz"
OPTIONS = {
    # Leaks are looked for while Python lives (tests/fuzz/leaks.py), not at exit.
    "asan": {
        "ASAN_OPTIONS": "allocator_may_return_null=1:max_allocation_size_mb=2048:handle_segv=2"
        ":detect_leaks=1:leak_check_at_exit=0",
        "UBSAN_OPTIONS": "print_stacktrace=1:halt_on_error=1",
        "LSAN_OPTIONS": f"print_suppressions=0:suppressions={FUZZ / 'lsan.supp'}",
        # Small objects in one mapping are neither poisoned nor searched for pointers.
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
    """The path of a library of the compiler's."""
    command = [os.environ.get("CXX", "g++"), f"-print-file-name={name}"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def build(variant: str, levels: list[str]) -> None:
    """Into build/VARIANT, by the preset of that name."""
    path = {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    configure = ["cmake", "--preset", variant, f"-DCOGRAD_ISA_LEVELS={';'.join(levels)}"]
    for command in (configure, ["cmake", "--build", "--preset", variant]):
        subprocess.run(command, cwd=ROOT, env=os.environ | path, check=True)


def run_kernels(levels: list[str]) -> int:
    """The kernels' C++ tests with the address sanitizer: without ops and Python, so minutes."""
    path = {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    configure = ["cmake", "--preset", "asan", f"-DCOGRAD_ISA_LEVELS={';'.join(levels)}"]
    subprocess.run(
        [*configure, "-B", "build/asan-kernels"], cwd=ROOT, env=os.environ | path, check=True
    )
    sources = [
        *(ROOT / "csrc" / "kernels").glob("*.cpp"),
        *(ROOT / "csrc" / "tensor").glob("*.cpp"),
    ]
    sources.append(ROOT / "csrc" / "ops" / "elementwise" / "tables.cpp")
    names = [
        f"CMakeFiles/cograd_core.dir/{s.relative_to(ROOT)}.o"
        for s in sources
        if "\nnamespace cograd::kernels::COGRAD_ISA" not in s.read_text(encoding="utf-8")
    ]
    command = ["cmake", "--build", "build/asan-kernels", "--target", *names]
    command += [f"cograd_{level}" for level in levels]
    subprocess.run(command, cwd=ROOT, env=os.environ | path, check=True)
    failed = 0
    env = os.environ | {
        # Programs fork with threads running, which the search for leaks cannot stop.
        "ASAN_OPTIONS": "detect_leaks=0",
        "UBSAN_OPTIONS": OPTIONS["asan"]["UBSAN_OPTIONS"],
        "COGRAD_TEST_BUILD": "build/asan-kernels",
    }
    with tempfile.TemporaryDirectory() as programs:
        for level in levels:
            command = [sys.executable, "-m", "pytest", "-q", "-n", "2", "-p", "no:cacheprovider"]
            variables = {"COGRAD_ISA": level, "COGRAD_TEST_PROGRAMS": programs}
            command.append("tests/test_cpp.py")
            failed += subprocess.run(command, cwd=ROOT, env=env | variables, check=False).returncode
    return int(failed > 0)


def levels_here(every: bool) -> list[str]:
    """The baseline and the best level of this processor, or all that it has."""
    from levels import cpu_flags

    flags = cpu_flags()
    has = ["base", *(n for n, f in (("v3", "avx2"), ("v4", "avx512f")) if f in flags)]
    return has if every else sorted({has[0], has[-1]})


def run(variant: str, level: str, arguments: list[str]) -> int:
    """Python's exit status with the variant's package; reports are in build/VARIANT/reports."""
    name = " ".join([variant, level, *arguments])
    print(f"--- {name}", flush=True)
    # The C++ library as well: the sanitizer looks for __cxa_throw when it starts.
    preload = f"{library(LIBRARIES[variant])} {library('libstdc++.so.6')}"
    env = os.environ | OPTIONS[variant] | {"PYTHON": sys.executable, "COGRAD_ISA": level}
    env["COGRAD_PRELOAD"] = preload
    env["PYTHONPATH"] = str(ROOT / "tests")
    command = [str(ROOT / "tools" / "run_build.sh"), f"build/{variant}", *arguments]
    began = time.monotonic()
    status = subprocess.run(command, cwd=ROOT, env=env, check=False).returncode
    print(
        f"{'failed' if status else 'passed'} in {time.monotonic() - began:.0f} s: {name}",
        flush=True,
    )
    return status


def run_tests(variant: str, level: str, files: list[str]) -> int:
    """Whether a test failed or a sanitizer reported; a report ends its worker, not the run."""
    reports = ROOT / "build" / variant / "reports"
    shutil.rmtree(reports, ignore_errors=True)
    reports.mkdir(parents=True)
    plugins = ["-p", "no:cacheprovider", "-p", "fuzz.leaks"]
    pytest = ["-m", "pytest", "-q", "-n", "2", *plugins, "--timeout", "1200"]
    pytest += ["-k", "not no_growth"]  # freed memory stays in quarantine
    key = {"asan": "ASAN_OPTIONS", "tsan": "TSAN_OPTIONS"}[variant]
    saved = OPTIONS[variant][key]
    OPTIONS[variant][key] = f"{saved}:log_path={reports / 'report'}"
    try:
        failed = run(variant, level, [*pytest, *files]) != 0
    finally:
        OPTIONS[variant][key] = saved
    for report in sorted(reports.iterdir()):
        lines = report.read_text(errors="replace").splitlines()
        # Refused sizes are noted as well.
        lines = [line for line in lines if "Sanitizer failed to allocate" not in line]
        if any(lines):
            print("\n".join(lines)[:6000], flush=True)
            failed = True
    return int(failed)


def main() -> int:
    """1 if a run failed; the others are made all the same."""
    parser = argparse.ArgumentParser(description="Builds and runs under sanitizers.")
    parser.add_argument("variants", nargs="*", help="asan, tsan; or kernels")
    parser.add_argument("--minutes", type=float, default=10, help="of fuzzing at each level")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--tests", nargs="*", help="files of tests instead of a part of the suite")
    parser.add_argument("--all-levels", action="store_true", help="not baseline and best alone")
    given = parser.parse_args()
    failed, levels = 0, levels_here(given.all_levels)
    if given.variants == ["kernels"]:
        return run_kernels(levels)
    for variant in given.variants or list(OPTIONS):
        kernels = levels if variant == "asan" else levels[:1]  # races are no matter of kernels
        build(variant, kernels)
        names = TESTS if variant == "asan" else THREADED
        files = given.tests if given.tests is not None else [f"tests/{n}.py" for n in names]
        for level in kernels:
            if files:
                failed += run_tests(variant, level, files)
            if given.minutes:
                fuzz = ["tests/fuzz", *HUNTERS[variant], "--minutes", str(given.minutes)]
                failed += run(variant, level, [*fuzz, "--seed", str(given.seed)]) != 0
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
