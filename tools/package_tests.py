#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Runs the test suites of packages that are written for torch, on torch and on cograd.

    python tools/package_tests.py [--python PYTHON] [NAME ...]

PYTHON is an interpreter that has torch, cograd, pytest, pytest-timeout and the packages, and for
nflows torchtestcase; its pip
fetches the source archive of each package's version, which contains the tests. A line states how
many tests have passed on each, and what failed on cograd only. Each test begins with seed 0: many
of these suites draw random numbers without a seed, and fail for some of them.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import Any

# Name of the package -> arguments for pytest. Left out are tests that need minutes each.
SUITES = {
    "linear_operator": "test/utils test/functions",
    "nflows": "tests",
    "opacus": "opacus/tests/validators opacus/tests/schedulers",
    "zuko": "tests/test_distributions.py tests/test_transforms.py tests/test_nn.py "
    "tests/test_utils.py tests/test_mixtures.py",
}
SECONDS = 1200  # a whole suite


def pytest_runtest_setup(item: Any) -> None:
    """Sets all seeds before each test: this file is also a plugin of pytest."""
    import numpy
    import torch

    random.seed(0)
    numpy.random.seed(0)
    torch.manual_seed(0)


def fetch(python: str, name: str, folder: str) -> Path:
    """Returns the folder of the sources of the installed version of a package."""
    show = [python, "-c", f"import importlib.metadata as m; print(m.version({name!r}))"]
    version = subprocess.run(show, check=True, capture_output=True, text=True).stdout.strip()
    get = [python, "-m", "pip", "download", "-q", "--no-deps", "--no-build-isolation"]
    get += ["--no-binary", ":all:", "-d", folder, f"{name}=={version}"]
    subprocess.run(get, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    (archive,) = Path(folder).glob("*.tar.gz")
    with tarfile.open(archive) as file:
        file.extractall(folder, filter="data")
    (sources,) = (p for p in Path(folder).iterdir() if p.is_dir())
    return sources


def tested(command: list[str], arguments: str, sources: Path) -> dict[str, str]:
    """Returns the outcome of each test: PASSED, FAILED, ERROR, SKIPPED, XFAIL or XPASS."""
    here = str(Path(__file__).parent)
    environment = {**os.environ, "PYTHONPATH": here, "OMP_NUM_THREADS": "1"}
    options = "-p package_tests -p no:cacheprovider -v -rN --tb=no --timeout 120 --color=no"
    run = [*command, "-m", "pytest", *options.split(), *arguments.split()]
    try:
        done = subprocess.run(
            run, cwd=sources, env=environment, capture_output=True, text=True, timeout=SECONDS
        )
        said = done.stdout
    except subprocess.TimeoutExpired as error:
        said = (error.stdout or b"").decode()
    outcome = re.compile(r"^(\S+::.+?) (PASSED|FAILED|ERROR|SKIPPED|XFAIL|XPASS)\b", re.M)
    found = dict(outcome.findall(said))
    found |= dict.fromkeys(re.findall(r"^ERROR (\S+\.py)", said, re.M), "ERROR")
    return found


def main() -> int:
    """Prints a line for each package; returns how many tests fail on cograd only."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("names", nargs="*", default=list(SUITES))
    given = parser.parse_args()
    worse = 0
    for name in given.names:
        with tempfile.TemporaryDirectory() as folder:
            sources = fetch(given.python, name, folder)
            theirs = tested([given.python], SUITES[name], sources)
            ours = tested([given.python, "-m", "cograd", "run"], SUITES[name], sources)
        passed = [sum(what == "PASSED" for what in found.values()) for found in (theirs, ours)]
        print(f"{sources.name}: torch {passed[0]}, cograd {passed[1]} of {len(theirs)}", flush=True)
        for test, what in theirs.items():
            if what == "PASSED" and ours.get(test) != "PASSED":
                worse += 1
                print(f"    {ours.get(test, 'absent')} {test}")
    return int(worse > 0)


if __name__ == "__main__":
    sys.exit(main())
