# SPDX-License-Identifier: BSD-3-Clause
"""Runs one side: a process that imports one module and times cases with a number of threads.

`python -m benchmarks.scaling_threads.worker MODULE` reads one JSON request per line and answers
each with one line. The answer to {"case", "threads", "seconds"} is {"time"}, the answer to
{"machine", "threads"} has the costs of the library's thread pool, and the answer to a request that
fails is {"error"}.
"""

from __future__ import annotations

import gc
import importlib
import json
import sys
from types import ModuleType
from typing import Any

from ..worker import Timer, calibrate, timer
from . import frame, machine


class Worker:
    """Holds the tensors of one case, and the number of its runs in a sample."""

    def __init__(self, module: ModuleType) -> None:
        self.module = module
        self.key = ""
        self.run: Timer = lambda loops: 0.0
        self.loops: dict[int, int] = {}

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        """Executes one request."""
        threads = request["threads"]
        if "machine" in request:
            return machine.hand_off(request["machine"], self.module, threads)
        self.module.set_num_threads(threads)
        if request["case"] != self.key:
            self.run = lambda loops: 0.0  # frees the last case's tensors
            gc.collect()
            self.module.manual_seed(0)
            self.run = timer(frame.CASES[request["case"]], self.module)
            self.key, self.loops = request["case"], {}
        if threads not in self.loops:
            self.run(1)
            self.loops[threads] = calibrate(self.run, request["seconds"])
        loops = self.loops[threads]
        return {"time": self.run(loops) / loops}


def main() -> None:
    """Serves requests until standard input ends."""
    out = sys.stdout
    sys.stdout = sys.stderr  # output of a case must not disturb the protocol
    module = importlib.import_module(sys.argv[1])
    frame.load()
    worker = Worker(module)
    out.write(json.dumps({"version": module.__version__}) + "\n")
    out.flush()
    gc.disable()
    for line in sys.stdin:
        try:
            reply = worker.answer(json.loads(line))
        except Exception as e:  # a missing op must not end the run
            reply = {"error": f"{type(e).__name__}: {(str(e).splitlines() or [''])[0][:160]}"}
        out.write(json.dumps(reply) + "\n")
        out.flush()


if __name__ == "__main__":
    main()
