# SPDX-License-Identifier: BSD-3-Clause
"""Runs hunters (docs/hardening.md): python tests/fuzz [HUNTER ...] [--minutes M] [--seed S]."""

import argparse
import os
import re
import sys
import tempfile
import time
from functools import partial

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[0] = os.path.dirname(HERE)
# Freed memory is overwritten. Threads share one arena: an arena for each would use up the limit.
MALLOC = {"MALLOC_PERTURB_": "165", "MALLOC_ARENA_MAX": "1"}
# The hunters and their shares of the time.
SHARES = {
    "ops": 60,
    "files": 4,
    "functions": 10,
    "lifetimes": 6,
    "processes": 10,
    "builds": 2,
    "allocations": 8,
    "interpreter": 8,
}
BY_NAME = {"interpreter"}  # runs only if it is named


def say(text):
    print(text, flush=True)


def hunt_ops(given, seconds):
    from fuzz.hunt import hunt
    from fuzz.shrink import shrink
    from fuzz.targets import all_targets

    targets = [t for t in all_targets() if re.search(given.only, t[0])]
    say(f"ops: {len(targets)} targets, seed {given.seed}")
    ran, good, findings = hunt(targets, given.seed, seconds, given.calls, given.jobs, say)
    say(f"ops: {ran} calls, {good} of them with a result, {len(findings)} findings")
    for finding in findings[:20] if not given.no_shrink else ():
        small = shrink(finding.case, finding.kind)
        alone = "" if small else " (not by itself: see --before)"
        say(f"seed {finding.seed} {finding.kind}{alone}: {(small or finding.case).text()}")
    return len(findings)


def hunt_module(name, given, seconds):
    """Runs a hunter whose module has a function case(seed)."""
    from importlib import import_module

    from fuzz.hunt import run_many

    module, faults = import_module(f"fuzz.{name}"), []
    batch = {"processes": 1, "builds": 1}.get(name, 250)

    def found(kind, at, text, before):
        faults.append(at)
        say(f"{name} seed {at} (before: {before}): {kind}: {text.strip()[-3000:]}")
        return 1

    end = None if given.calls is None else given.seed + given.calls
    patience = 400 if name == "processes" else 1200 if name == "builds" else None
    ran = run_many(
        module.case, given.seed, end, jobs=given.jobs, batch=batch, seconds=seconds, found=found,
        patience=patience,
    )  # fmt: skip
    say(f"{name}: {ran} cases from seed {given.seed}, {len(faults)} findings")
    return len(faults)


def hunt_allocations(name, given, seconds):
    """Runs a hunter of allocations in a separate process, which preloads the failing allocator."""
    import subprocess

    from fuzz import allocations

    with tempfile.TemporaryDirectory() as folder:
        preload = allocations.build(folder)
        environment = {**os.environ, "LD_PRELOAD": preload, "PYTHONPATH": sys.path[0]}
        command = [sys.executable, "-m", "fuzz.allocations", str(seconds), str(given.seed), name]
        return subprocess.run(command, env=environment, check=False).returncode


def one_case(given):
    from fuzz.cases import generate
    from fuzz.hunt import in_order, outcome_of
    from fuzz.shrink import shrink
    from fuzz.targets import all_targets

    targets = [t for t in all_targets() if re.search(given.only, t[0])]
    case = generate(targets, given.case)
    say(case.text())
    run = partial(in_order, targets, given.case - given.before, given.case + 1)
    kind, text = ("", run() or "") if given.here else outcome_of(run, 3600)
    say(f"{kind or 'nothing is wrong with it'} {text[-3000:]}")
    if kind and not given.before:
        small = shrink(case, kind)
        say(f"shrunk: {small.text()} {small}" if small else "it does not happen every time")
    return int(bool(kind))


def main():
    parser = argparse.ArgumentParser(description="Looks for crashes, hangs and leaks.")
    parser.add_argument("hunters", nargs="*", metavar="HUNTER", help=" ".join(SHARES))
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=int(time.time()) * 1_000_000)
    parser.add_argument("--calls", type=int, help="end after so many calls of each hunter")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--only", default="", help="ops: targets whose path matches this pattern")
    parser.add_argument("--case", type=int, help="ops: run the case of this seed alone, shrink it")
    parser.add_argument("--before", type=int, default=0, help="cases to run before --case")
    parser.add_argument("--here", action="store_true", help="run --case in this process, for gdb")
    parser.add_argument("--no-shrink", action="store_true")
    given = parser.parse_args()
    if given.case is not None:
        return one_case(given)
    hunters = given.hunters or [h for h in SHARES if h not in BY_NAME]
    if unknown := set(hunters) - set(SHARES):
        parser.error(f"no hunter {', '.join(unknown)}; there are {', '.join(SHARES)}")
    say(f"seed {given.seed}, {given.minutes} min, {given.jobs} children")
    began, faults = time.monotonic(), 0
    for name in hunters:
        seconds = given.minutes * 60 * SHARES[name] / sum(SHARES[h] for h in hunters)
        hunter = {
            "ops": hunt_ops,
            "allocations": partial(hunt_allocations, name),
            "interpreter": partial(hunt_allocations, name),
        }.get(name)
        start = time.monotonic()
        faults += (hunter or partial(hunt_module, name))(given, seconds)
        say(f"{name}: {time.monotonic() - start:.0f} s")
    say(f"{faults} findings in {time.monotonic() - began:.0f} s")
    return int(faults > 0)


if __name__ == "__main__":
    if not MALLOC.items() <= os.environ.items():
        os.execve(sys.executable, [sys.executable, HERE, *sys.argv[1:]], {**os.environ, **MALLOC})
    sys.exit(main())
