# SPDX-License-Identifier: BSD-3-Clause
"""Runs one side of the comparison: a process that imports one module and times statements.

`python -m benchmarks.worker MODULE THREADS` reads one JSON request per line and answers each with
one line. Requests: {"case": key, "seconds": budget of one sample, "loops": fixed count or null};
the answer is {"loops": n, "time": seconds per operation} or {"error": text}.
"""

from __future__ import annotations

import gc
import importlib
import json
import re
import sys
import time
from collections.abc import Callable
from itertools import repeat
from types import ModuleType
from typing import Any

from .case import CASES, Case
from .cases import load

Timer = Callable[[int], float]


def timer(case: Case, module: ModuleType) -> Timer:
    """Compiles a case into `timer(loops) -> seconds`; names become locals of the loop."""
    result = case.function(module, **case.options)
    statement, names = result[0], result[1]
    prepare = result[2] if len(result) > 2 else ""
    used = [n for n in names if re.search(rf"\b{re.escape(n)}\b", f"{statement}\n{prepare}")]

    def indent(code: str, by: int) -> str:
        return "".join(" " * by + line + "\n" for line in code.splitlines())

    arguments = ", ".join(["_n", "_clock", "_repeat", *(f"{n}={n}" for n in used)])
    code = f"def _sample({arguments}):\n"
    if prepare:
        code += " _total = 0.0\n for _ in _repeat(None, _n):\n" + indent(prepare, 2)
        code += "  _t = _clock()\n" + indent(statement, 2) + "  _total += _clock() - _t\n"
        code += " return _total\n"
    else:
        code += " _t = _clock()\n for _ in _repeat(None, _n):\n" + indent(statement, 2)
        code += " return _clock() - _t\n"
    # The inner loops of chains also use "_" as their variable; repeat() allows that.
    scope = {name: names[name] for name in used}
    exec(compile(code, f"<benchmark {case.key}>", "exec"), scope)
    sample = scope["_sample"]
    return lambda loops: float(sample(loops, time.perf_counter, repeat))


def calibrate(run: Timer, seconds: float) -> int:
    """Returns the number of loops that takes about `seconds`."""
    loops = 1
    while True:
        elapsed = run(loops)
        if elapsed >= seconds / 4 or loops >= 10_000_000:
            return max(1, round(loops * seconds / max(elapsed, 1e-9)))
        loops = max(loops * 2, round(loops * seconds / 3 / max(elapsed, 1e-9)) if elapsed else 0)


def answer(request: dict[str, Any], module: ModuleType, timers: dict[str, Timer]) -> dict[str, Any]:
    """Executes one request."""
    case = CASES[request["case"]]
    if case.own_process:
        metrics: dict[str, float] = case.function(module, **case.options)
        return {"metrics": metrics}
    if case.key not in timers:
        timers.clear()  # keeps only one case's tensors
        timers[case.key] = timer(case, module)
    run = timers[case.key]
    gc.collect()
    gc.disable()
    try:
        loops = request.get("loops") or calibrate(run, request["seconds"])
        return {"loops": loops, "metrics": {"time": run(loops) / loops / case.per}}
    finally:
        gc.enable()


def main() -> None:
    """Serves requests until standard input ends."""
    name, threads = sys.argv[1], int(sys.argv[2])
    out = sys.stdout
    sys.stdout = sys.stderr  # output of a benchmark must not disturb the protocol
    module = importlib.import_module(name)
    module.set_num_threads(threads)
    load()
    out.write(json.dumps({"version": module.__version__}) + "\n")
    out.flush()
    timers: dict[str, Timer] = {}
    for line in sys.stdin:
        try:
            reply = answer(json.loads(line), module, timers)
        except Exception as e:  # a missing op must not end the run
            text = str(e).splitlines() or [""]
            reply = {"error": f"{type(e).__name__}: {text[0][:160]}"}
        out.write(json.dumps(reply) + "\n")
        out.flush()


if __name__ == "__main__":
    main()
