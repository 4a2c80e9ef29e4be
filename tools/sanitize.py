# SPDX-License-Identifier: BSD-3-Clause
"""Builds the sanitizer variants and runs part of the suite and the fuzzers under each.

At each level of kernels: python tools/sanitize.py [asan] [tsan] [--minutes M] [--tests FILE ...]
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
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
OPTIONS = {
    "asan": {
        "ASAN_OPTIONS": "detect_leaks=0:allocator_may_return_null=1:max_allocation_size_mb=2048"
        ":handle_segv=1:detect_stack_use_after_return=0",
        "UBSAN_OPTIONS": "print_stacktrace=1:halt_on_error=1",
    },
    "tsan": {
        "TSAN_OPTIONS": "halt_on_error=1:second_deadlock_stack=1:history_size=5"
        f":suppressions={ROOT / 'tests' / 'fuzz' / 'tsan.supp'}",
    },
}
LIBRARIES = {"asan": "libasan.so", "tsan": "libtsan.so"}


def library(name: str) -> str:
    """The path of a library of the compiler's."""
    command = [os.environ.get("CXX", "g++"), f"-print-file-name={name}"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def build(variant: str) -> None:
    """Into build/VARIANT, by the preset of that name."""
    path = {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    for command in (["cmake", "--preset", variant], ["cmake", "--build", "--preset", variant]):
        subprocess.run(command, cwd=ROOT, env=os.environ | path, check=True)


def levels() -> list[dict[str, str]]:
    """The variables that choose each level this processor has, its best first."""
    from levels import LEVELS, cpu_flags

    flags = cpu_flags()
    return [{}, *({"COGRAD_ISA": k} for k, needed in LEVELS.items() if needed <= flags)]


def run(variant: str, level: dict[str, str], arguments: list[str]) -> int:
    """Python's exit status with the variant's package."""
    name = " ".join([variant, *level.values(), *arguments])
    print(f"--- {name}", flush=True)
    # The C++ library as well: the sanitizer looks for __cxa_throw when it starts.
    preload = f"{library(LIBRARIES[variant])} {library('libstdc++.so.6')}"
    env = os.environ | OPTIONS[variant] | level | {"PYTHON": sys.executable}
    env["COGRAD_PRELOAD"] = preload
    command = [str(ROOT / "tools" / "run_build.sh"), f"build/{variant}", *arguments]
    status = subprocess.run(command, cwd=ROOT, env=env, check=False).returncode
    if status != 0:
        print(f"failed: {name}", flush=True)
    return status


def main() -> int:
    """1 if a run failed; the others are made all the same."""
    parser = argparse.ArgumentParser(description="Builds and runs under sanitizers.")
    parser.add_argument("variants", nargs="*", help="asan, tsan")
    parser.add_argument("--minutes", type=float, default=10, help="of fuzzing at each level")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--tests", nargs="*", help="files of tests instead of a part of the suite")
    given = parser.parse_args()
    failed = 0
    for variant in given.variants or list(OPTIONS):
        build(variant)
        names = TESTS if variant == "asan" else THREADED
        files = given.tests if given.tests is not None else [f"tests/{n}.py" for n in names]
        for level in levels():
            if files:
                pytest = ["-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "--timeout", "1200"]
                failed += run(variant, level, [*pytest, *files]) != 0
            hunters = ["ops", "files", "functions", "lifetimes"]
            if given.minutes:
                fuzz = ["tests/fuzz", *hunters, "--minutes", str(given.minutes)]
                failed += run(variant, level, [*fuzz, "--seed", str(given.seed)]) != 0
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
