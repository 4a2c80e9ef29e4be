# SPDX-License-Identifier: BSD-3-Clause
"""Measures the import and the installed size of the package."""

# mypy: ignore-errors
from __future__ import annotations

import importlib.metadata
import re
import subprocess
import sys

from .case import bench, group

group("package", "Package")


def run_python(code: str) -> float:
    """Runs code in a fresh interpreter and returns the number it prints."""
    command = [sys.executable, "-c", code]
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


@bench("package", name="import", own_process=True, rounds=5)
def import_time(torch):
    code = f"import {torch.__name__}; print(time.perf_counter() - t)"
    return {"time": run_python("import time; t = time.perf_counter(); " + code)}


@bench("package", name="import, NumPy loaded before", own_process=True, rounds=5)
def import_after_numpy(torch):
    code = f"import {torch.__name__}; print(time.perf_counter() - t)"
    return {"time": run_python("import time, numpy; t = time.perf_counter(); " + code)}


def requirements(name: str, found: set[str]) -> set[str]:
    """Adds a distribution and all its requirements except NumPy to `found`."""
    if name in found or name == "numpy":
        return found
    try:
        requires = importlib.metadata.requires(name) or []
    except importlib.metadata.PackageNotFoundError:
        return found
    found.add(name)
    for line in requires:
        if "extra ==" not in line:
            requirements(re.match(r"[\w.-]+", line)[0].lower(), found)
    return found


@bench("package", name="installed size, with all but NumPy", own_process=True, rounds=1)
def size(torch):
    total = 0
    for part in requirements(torch.__name__, set()):
        for file in importlib.metadata.files(part) or []:
            path = file.locate()
            total += path.stat().st_size if path.exists() else 0
    return {"bytes": total}
