# SPDX-License-Identifier: BSD-3-Clause
"""python tests/fuzz [--minutes M] [--seed S] [--calls N] [--only PATTERN] [--case SEED]"""

import argparse
import os
import re
import sys
import time
from functools import partial

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[0] = os.path.dirname(HERE)
# Freed memory is overwritten; threads share one arena, so that the limit of memory is not theirs.
MALLOC = {"MALLOC_PERTURB_": "165", "MALLOC_ARENA_MAX": "1"}


def main():
    from fuzz.cases import generate
    from fuzz.hunt import hunt, in_order, outcome_of
    from fuzz.shrink import shrink
    from fuzz.targets import all_targets

    parser = argparse.ArgumentParser(description="Calls every op with anything at all.")
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=int(time.time()) * 1_000_000)
    parser.add_argument("--calls", type=int)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--only", default="", help="targets whose path matches this pattern")
    parser.add_argument("--case", type=int, help="run the case of this seed alone and shrink it")
    parser.add_argument("--before", type=int, default=0, help="cases to run before --case")
    parser.add_argument("--here", action="store_true", help="run --case in this process, for gdb")
    parser.add_argument("--no-shrink", action="store_true")
    given = parser.parse_args()
    targets = [t for t in all_targets() if re.search(given.only, t[0])]
    if given.case is not None:
        case = generate(targets, given.case)
        print(case.text(), flush=True)
        run = partial(in_order, targets, given.case - given.before, given.case + 1)
        kind, text = ("", run() or "") if given.here else outcome_of(run, 3600)
        print(kind or "nothing is wrong with it", text[-3000:])
        if kind and not given.before:
            small = shrink(case, kind)
            print("shrunk:", small.text(), small)
        return int(bool(kind))
    print(
        f"{len(targets)} targets, seed {given.seed}, {given.minutes} min, {given.jobs} children",
        flush=True,
    )
    began = time.monotonic()
    ran, good, findings = hunt(
        targets, given.seed, given.minutes * 60, given.calls, given.jobs,
        report=lambda text: print(text, flush=True),
    )  # fmt: skip
    took = time.monotonic() - began
    print(f"{ran} calls in {took:.0f} s, {good} of them with a result; {len(findings)} findings")
    if not given.no_shrink:
        for finding in findings[:20]:
            small = shrink(finding.case, finding.kind)
            alone = "" if small else " (not by itself: see --before)"
            print(
                f"seed {finding.seed} {finding.kind}{alone}: {(small or finding.case).text()}",
                flush=True,
            )
    return int(bool(findings))


if __name__ == "__main__":
    if not MALLOC.items() <= os.environ.items():
        os.execve(sys.executable, [sys.executable, HERE, *sys.argv[1:]], {**os.environ, **MALLOC})
    sys.exit(main())
