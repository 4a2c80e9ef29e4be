# SPDX-License-Identifier: BSD-3-Clause
"""Measures how operations and steps scale with the number of threads, beside another library.

python -m benchmarks scaling_threads [PATTERN ...]    also: python -m benchmarks.scaling_threads

Each library runs in a process of its own. They take turns, with 10 ms between two samples, because
the threads of some libraries spin for milliseconds after their work. The table shows for each
number of threads the time, the ratio to the other library, and the part of the machine's peak
(multiplications or copied bytes with as many threads) that was reached.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from . import frame, machine
from .report import Table

ROOT = Path(__file__).resolve().parent.parent.parent
WAIT = 0.01  # seconds between two samples


class Side:
    """Runs a worker for one module."""

    def __init__(self, module: str, python: str) -> None:
        self.module = module
        command = [python, "-m", "benchmarks.scaling_threads.worker", module]
        # Without these the other library may refuse more threads than it expects.
        env = {k: v for k, v in os.environ.items() if not k.endswith("_NUM_THREADS")}
        self.process = subprocess.Popen(
            command, cwd=ROOT, env=env, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        self.version: str = self._read()["version"]

    def _read(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            sys.exit(f"the process of {self.module} ended with status {self.process.wait()}")
        reply: dict[str, Any] = json.loads(line)
        return reply

    def ask(self, **request: Any) -> dict[str, Any]:
        """Sends one request, waits for its answer and then until the threads are at rest."""
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        reply = self._read()
        time.sleep(WAIT)
        return reply

    def close(self) -> None:
        """Ends the process."""
        self.process.communicate()


def arguments(argv: list[str] | None) -> argparse.Namespace:
    """Reads the command line."""
    parser = argparse.ArgumentParser(prog="benchmarks scaling_threads", description=__doc__)
    parser.add_argument("patterns", nargs="*", help="group, or group/name with wildcards")
    parser.add_argument("--threads", type=int, nargs="+", help="default: 1, 2, 4, ... processors")
    parser.add_argument("--rounds", type=int, default=3, help="samples of each side")
    parser.add_argument("--seconds", type=float, default=0.02, help="length of one sample")
    parser.add_argument(
        "--minutes", type=float, default=4.0, help="leave out the cases that have not begun by then"
    )
    parser.add_argument("--reference", default="torch", help="'' measures cograd alone")
    parser.add_argument("--reference-python", default=sys.executable)
    parser.add_argument("--subject-python", default=sys.executable)
    parser.add_argument("--machine", type=Path, help="directory for the compiled machine.c")
    parser.add_argument("--save", type=Path, help="also write the page and the samples there")
    parser.add_argument("--smoke", action="store_true", help="one short sample, only cograd")
    parser.add_argument("--list", action="store_true", help="print the cases' names")
    parser.add_argument("--build", action="store_true", help="only compile machine.c")
    return parser.parse_args(argv)


def chosen(patterns: list[str]) -> list[frame.ScalingCase]:
    """Returns the cases that match; a group name alone means the whole group."""
    wanted = [p if "/" in p else f"{p}/*" for p in patterns] or ["*"]
    cases = [c for k, c in frame.CASES.items() if any(fnmatch(k, p) for p in wanted)]
    return cases or sys.exit(f"no case matches {patterns}")


def counts(args: argparse.Namespace) -> list[int]:
    """Returns the numbers of threads to measure with."""
    if args.smoke:
        return [2]
    if args.threads:
        return sorted(set(args.threads))
    processors = len(os.sched_getaffinity(0))
    powers = [n for n in (1, 2, 4, 8, 16, 32, 64, 128) if n <= processors]
    return sorted({*powers, processors})


def measure_machine(table: Table, args: argparse.Namespace, subject: Side | None) -> None:
    """Measures the peaks if there is no subject yet, else the subject's pool."""
    library = machine.build(args.machine or machine.folder())
    if library is None:
        table.notes.append("There is no C compiler, so peaks and hand-off were not measured.")
        return
    for threads in table.threads:
        if subject is None:
            table.peaks[threads] = machine.rates(str(library), threads)
        elif threads > 1:
            table.hand_off[threads] = subject.ask(machine=str(library), threads=threads)


def measure(table: Table, sides: list[Side], case: frame.ScalingCase, args: Any) -> None:
    """Takes all samples of a case: the sides take turns."""
    seconds, rounds = (0.0, 1) if args.smoke else (args.seconds, args.rounds)
    for threads in table.threads:
        for turn in range(rounds):
            for side in sides if turn % 2 == 0 else reversed(sides):
                reply = side.ask(case=case.key, threads=threads, seconds=seconds)
                table.add(case, side.module, threads, reply)


def main(argv: list[str] | None = None) -> int:
    """Runs, reports, and returns the exit status."""
    args = arguments(argv)
    frame.load()
    cases = chosen(args.patterns)
    if args.list:
        print("\n".join(c.key for c in cases))
        return 0
    if args.build:
        print(machine.build(args.machine or machine.folder()))
        return 0
    start = time.monotonic()
    reference = "" if args.smoke else args.reference
    table = Table(counts(args), "cograd", reference)
    if not args.smoke:
        measure_machine(table, args, None)
    sides = [Side("cograd", args.subject_python)]
    if not args.smoke:
        measure_machine(table, args, sides[0])
    if reference:
        sides.append(Side(reference, args.reference_python))
    for case in cases:
        if time.monotonic() - start > 60 * args.minutes:
            table.left_out.append(case.key)
            continue
        measure(table, sides, case, args)
    for side in sides:
        table.versions[side.module] = side.version
        side.close()
    table.seconds = time.monotonic() - start
    print(table.text())
    if args.save is not None:
        table.write(args.save)
    return int(bool(table.errors("cograd")))


if __name__ == "__main__":
    sys.exit(main())
