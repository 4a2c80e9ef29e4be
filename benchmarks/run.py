# SPDX-License-Identifier: BSD-3-Clause
"""Drives the workers: the two sides take turns on the same cores, sample by sample.

pyperf finishes one program before it starts the next, so a drifting clock, or another program on
the machine, would affect only one side. Here both sides are processes that live for the whole run;
while one measures, the other sleeps on a pipe. Each round takes one sample of each side, in
alternating order, and the figure of a side is its smallest sample, because other programs and
interrupts only add time. The JSON file has all samples.
"""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .case import Case

ROOT = Path(__file__).resolve().parent.parent


class Worker:
    """Runs a process that has imported one of the modules.

    Args:
        module: "torch" or "cograd".
        python: the interpreter that has it.
        threads: for the module's own set_num_threads.
    """

    def __init__(self, module: str, python: str, threads: int) -> None:
        self.module, self.python, self.threads = module, python, threads
        self.process, self.version = self._start()

    def _start(self) -> tuple[subprocess.Popen[str], str]:
        command = [self.python, "-m", "benchmarks.worker", self.module, str(self.threads)]
        env = dict(os.environ, OMP_NUM_THREADS=str(self.threads), PYTHONHASHSEED="0")
        process = subprocess.Popen(
            command, cwd=ROOT, env=env, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        assert process.stdout is not None
        line = process.stdout.readline()
        if not line:
            raise RuntimeError(f"{self.python} cannot import {self.module}")
        return process, json.loads(line)["version"]

    def ask(self, case: Case, seconds: float, loops: int | None) -> dict[str, Any]:
        """Sends one request and waits for its answer."""
        if case.own_process:
            return self._ask_fresh(case)
        return self._exchange(self.process, case, seconds, loops)

    def _ask_fresh(self, case: Case) -> dict[str, Any]:
        process, _ = self._start()
        try:
            return self._exchange(process, case, 0.0, None)
        finally:
            process.communicate()

    @staticmethod
    def _exchange(
        process: subprocess.Popen[str], case: Case, seconds: float, loops: int | None
    ) -> dict[str, Any]:
        assert process.stdin is not None
        assert process.stdout is not None
        request = {"case": case.key, "seconds": seconds, "loops": loops}
        process.stdin.write(json.dumps(request) + "\n")
        process.stdin.flush()
        line = process.stdout.readline()
        if not line:
            return {"error": f"the process ended with status {process.wait()}"}
        reply: dict[str, Any] = json.loads(line)
        return reply

    def close(self) -> None:
        """Ends the process."""
        self.process.communicate()


@dataclass
class Row:
    """Holds one figure of both sides.

    Attributes:
        samples: for each module its samples, in the order taken; seconds, or bytes.
        errors: for each module the error text, if there was an error.
    """

    group: str
    name: str
    is_bytes: bool
    target: float | None
    samples: dict[str, list[float]] = field(default_factory=dict)
    errors: dict[str, str] = field(default_factory=dict)

    def best(self, module: str) -> float | None:
        """Returns a side's figure, or None when it has none."""
        samples = self.samples.get(module)
        return min(samples) if samples else None

    def ratio(self, reference: str, subject: str) -> float | None:
        """Returns reference over subject; above 1, the subject is better."""
        a, b = self.best(reference), self.best(subject)
        return a / b if a is not None and b else None


def measure(case: Case, workers: list[Worker], seconds: float, rounds: int) -> list[Row]:
    """Takes `rounds` samples of every worker and returns one row for each metric."""
    rows: dict[str, Row] = {}
    errors: dict[str, str] = {}
    loops: dict[str, int] = {}
    asked = [w for w in workers if w.module == "cograd" or not case.only_cograd]
    for turn in range(rounds):
        for worker in asked if turn % 2 == 0 else reversed(asked):
            if worker.module in errors:
                continue
            reply = worker.ask(case, seconds, loops.get(worker.module))
            if "error" in reply:
                errors[worker.module] = reply["error"]
                continue
            if "loops" in reply:
                loops[worker.module] = reply["loops"]
            for metric, value in reply["metrics"].items():
                if metric not in rows:
                    is_bytes = metric.endswith("bytes")
                    what = metric.removesuffix("bytes").strip()
                    label = case.name if what in ("time", "") else f"{case.name}: {what}"
                    target = case.targets.get(metric)
                    rows[metric] = Row(case.group, label, is_bytes, target)
                rows[metric].samples.setdefault(worker.module, []).append(value)
    result = list(rows.values()) or [Row(case.group, case.name, False, None)]
    for row in result:
        row.errors = errors
    return result
