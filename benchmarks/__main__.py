# SPDX-License-Identifier: BSD-3-Clause
"""Compares cograd with torch and prints one table: python -m benchmarks [pattern ...].

It writes the table, all samples (results.json), a Markdown page and a bar chart to
benchmarks/results/. `--smoke` runs all cases once, briefly, only with cograd, and fails if one
raises. `python -m benchmarks scaling_threads` prints another table: how cases scale with threads.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from fnmatch import fnmatch
from pathlib import Path

from cograd._base.progress import Progress

from . import report
from .case import CASES, GROUPS
from .cases import load
from .run import Row, Worker, measure

RESULTS = Path(__file__).resolve().parent / "results"


def arguments() -> argparse.Namespace:
    """Reads the command line."""
    parser = argparse.ArgumentParser(prog="benchmarks", description=__doc__)
    parser.add_argument("patterns", nargs="*", help="group, or group/name with wildcards")
    parser.add_argument("--smoke", action="store_true", help="one short sample, only cograd")
    parser.add_argument("--list", action="store_true", help="print the benchmarks' names")
    parser.add_argument("--rounds", type=int, default=9, help="samples of each side")
    parser.add_argument("--seconds", type=float, default=0.02, help="length of one sample")
    parser.add_argument(
        "--threads", type=int, default=0, help="default: the available cores, at most 2"
    )
    parser.add_argument("--reference", default="torch")
    parser.add_argument("--subject", default="cograd")
    parser.add_argument("--reference-python", default=sys.executable)
    parser.add_argument("--subject-python", default=sys.executable)
    parser.add_argument("--save", type=Path, help="also write chart and page to this directory")
    parser.add_argument("--check", action="store_true", help="exit with 1 if a target is missed")
    return parser.parse_args()


def chosen(patterns: list[str]) -> list[str]:
    """Returns the keys that match; a group name alone means the whole group."""
    keys = list(CASES)
    if not patterns:
        return keys
    wanted = [p if "/" in p else f"{p}/*" for p in patterns]
    result = [k for k in keys if any(fnmatch(k, p) for p in wanted)]
    if not result:
        sys.exit(f"no benchmark matches {patterns}; groups: {', '.join(GROUPS)}")
    return result


def run_all(keys: list[str], workers: list[Worker], args: argparse.Namespace) -> list[Row]:
    """Measures all cases and shows progress on a terminal."""
    rows: list[Row] = []
    with Progress("benchmarks", len(keys)) as progress:
        for i, key in enumerate(keys):
            case = CASES[key]
            progress.update(i, key)
            if args.smoke:
                if key.endswith("1e7 nodes"):
                    continue
                rows += measure(case, workers, 0.0, 1)
            else:
                rounds = min(case.rounds or args.rounds, args.rounds)
                rows += measure(case, workers, args.seconds, rounds)
    return rows


def main() -> int:
    """Runs, reports, and returns the exit status."""
    if sys.argv[1:2] == ["scaling_threads"]:
        from .scaling_threads.__main__ import main as scaling

        return scaling(sys.argv[2:])
    args = arguments()
    load()
    keys = chosen(args.patterns)
    if args.list:
        print("\n".join(keys))
        return 0
    cores = sorted(os.sched_getaffinity(0))[: args.threads or 2]
    os.sched_setaffinity(0, cores)  # both sides inherit it
    threads = len(cores)
    start = time.perf_counter()
    subject = Worker(args.subject, args.subject_python, threads)
    workers = [subject]
    if not args.smoke:
        workers.insert(0, Worker(args.reference, args.reference_python, threads))
    try:
        rows = run_all(keys, workers, args)
    finally:
        for worker in workers:
            worker.close()
    versions = {w.module: w.version for w in workers}
    sides = report.Sides(args.reference, args.subject, versions)
    print(report.table(rows, sides))
    print(f"\n{len(rows)} figures in {time.perf_counter() - start:.0f} s, {threads} threads")
    broken = [r for r in rows if args.subject in r.errors]
    if args.smoke:
        print(f"smoke run: {len(broken)} of {len(rows)} benchmarks failed")
        return bool(broken)
    for folder in [RESULTS, *([args.save] if args.save else [])]:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "benchmarks.md").write_text(report.markdown(rows, sides))
        report.write_json(folder / "benchmarks.json", rows, sides, threads)
        report.chart(folder / "benchmarks.png", rows, sides)
    print(f"written: {RESULTS}/benchmarks.{{json,md,png}}")
    missed = any(g["misses"] for g in report.summary(rows, sides))
    return bool(args.check and (missed or broken))


if __name__ == "__main__":
    sys.exit(main())
