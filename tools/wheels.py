# SPDX-License-Identifier: BSD-3-Clause
"""Builds and tests a wheel for each CPython: wheels.py [--out dist] [--sdist] [PYTHON ...].

The first wheel is that of the interpreter this runs with. libcograd.so does not link to Python, so
the other wheels contain the same file. Without arguments, the interpreters are those found by name
on PATH and in pyenv's directory. Each wheel is installed with only its dependencies, and then
tools/wheel_smoke.py and `cograd doctor` run. --sdist also builds the source archive, builds a wheel
from it alone in an empty directory, and reports if its bytes are those of the tree's wheel.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import requirements
import wheel as one

ROOT = one.ROOT
WORK = ROOT / "build" / "wheels"
MINORS = range(10, 16)
PROBE = """
import os, sys, sysconfig
header = os.path.join(sysconfig.get_paths()["include"], "Python.h")
usual = sys.implementation.name == "cpython" and not sysconfig.get_config_var("Py_GIL_DISABLED")
print(*sys.version_info[:2], int(usual and os.path.exists(header)))
"""


def call(*command: object, **options: object) -> str:
    """Runs a command outside the source tree; returns its output, or exits with it on failure."""
    words = [str(c) for c in command]
    given = {"cwd": WORK, **options}
    piped = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    done = subprocess.run(words, check=False, **piped, **given)  # type: ignore[call-overload]
    if done.returncode:
        raise subprocess.CalledProcessError(done.returncode, words, done.stdout)
    return str(done.stdout)


def minor(python: str) -> int:
    """Returns the Y of CPython 3.Y if it can build a wheel, else 0."""
    try:
        done = subprocess.run([python, "-c", PROBE], capture_output=True, text=True, timeout=60)
        major, found, usable = map(int, done.stdout.split())
    except (OSError, ValueError, subprocess.SubprocessError):
        return 0
    return found if major == 3 and usable else 0


def interpreters(given: list[str]) -> dict[int, str]:
    """Returns the given or else found interpreters by minor version, without this one's."""
    names = list(given)
    if not given:
        pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv", "versions")
        for y in MINORS:
            names += [str(p) for p in sorted(pyenv.glob(f"3.{y}.*/bin/python"))]
            names += filter(None, [shutil.which(f"python3.{y}")])
    found: dict[int, str] = {}
    for name in names:
        y = minor(name)
        if y in MINORS and y != sys.version_info[1]:
            found.setdefault(y, name)
        elif given and not y:
            raise SystemExit(f"wheels.py: {name} is no CPython 3 with headers and the usual lock")
    return found


def fresh(python: str, name: str) -> Path:
    """Creates a virtual environment with only pip; returns its interpreter."""
    call(python, "-m", "venv", "--clear", WORK / name)
    return WORK / name / "bin" / "python"


def with_requirements(python: str, y: int) -> Path:
    """Returns the environment of `make smoke VENV=.venv-3.Y` with the build requirements."""
    folder = ROOT / f".venv-3.{y}"
    inside = folder / "bin" / "python"
    if not inside.exists():
        call(python, "-m", "venv", folder)
    text = (ROOT / "pyproject.toml").read_text()
    needs = requirements.arrays("project.optional-dependencies", text)["build"]
    call(inside, "-m", "pip", "install", "-q", *needs)
    return inside


def member(wheel: Path, name: str) -> bytes:
    """Returns a file of a wheel."""
    with zipfile.ZipFile(wheel) as archive:
        return archive.read(name)


def built(python: Path, source: Path, out: Path, *options: str) -> Path:
    """Builds a wheel by pip from a tree or an archive, and repairs it."""
    warnings = "ON" if os.environ.get("WERROR") else "OFF"
    werror = f"--config-settings=cmake.define.COGRAD_WERROR={warnings}"
    with tempfile.TemporaryDirectory() as folder:
        pip = [python, "-m", "pip", "wheel", "-q", "--no-deps", werror, *options]
        call(*pip, "-w", folder, source, cwd=folder)
        (raw,) = Path(folder).glob("cograd-*.whl")
        return one.repaired(raw, out)


def linked(python: str, y: int, core: Path, out: Path) -> Path:
    """Builds the wheel of another interpreter with an existing libcograd.so."""
    prebuilt = f"--config-settings=cmake.define.COGRAD_PREBUILT={core}"
    wheel = built(with_requirements(python, y), ROOT, out, "--no-build-isolation", prebuilt)
    if member(wheel, "cograd/lib/libcograd.so") != core.read_bytes():
        raise SystemExit(f"{wheel} has another libcograd.so than {core}")
    return wheel


def tried(python: Path, wheel: Path) -> str:
    """Installs and tests a wheel; returns one line about it."""
    call(python, "-m", "pip", "install", "-q", "--force-reinstall", wheel)
    told = call(python, "-W", "error", ROOT / "tools" / "wheel_smoke.py")
    call(python, "-m", "cograd", "doctor")
    return told.strip().splitlines()[-1]


def source_archive(first: Path) -> str:
    """Builds the archive and a wheel from it; returns how it compares with the tree's."""
    call(sys.executable, "-m", "build", "--sdist", "--no-isolation", "-o", first.parent, ROOT)
    archive = max(first.parent.glob("cograd-*.tar.gz"), key=lambda p: p.stat().st_mtime)
    python = fresh(sys.executable, "sdist")
    again = built(python, archive, WORK / "from_sdist")
    line = tried(python, again)
    if again.read_bytes() == first.read_bytes():
        return f"{archive.name}: its wheel is the tree's, byte for byte; {line}"
    with zipfile.ZipFile(first) as a, zipfile.ZipFile(again) as b:
        names = sorted({*a.namelist(), *b.namelist()})
        kept = {*a.namelist()} & {*b.namelist()}
        other = [n for n in names if n not in kept or a.read(n) != b.read(n)]
    raise SystemExit(f"{again} is not {first}: they differ in {', '.join(other[:8])}")


def main() -> None:
    """Builds and tests all, prints a line for each, and exits with 1 if one failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=ROOT / "dist")
    parser.add_argument("--sdist", action="store_true")
    parser.add_argument("python", nargs="*")
    args = parser.parse_args()
    out = args.out.resolve()
    WORK.mkdir(parents=True, exist_ok=True)
    os.environ.pop("PYTHONPATH", None)

    first = one.build(out)
    core = WORK / "libcograd.so"
    core.write_bytes(member(first, "cograd/lib/libcograd.so"))
    every = {**interpreters(args.python), sys.version_info[1]: sys.executable}
    failed = []
    for y, python in sorted(every.items()):
        try:
            wheel = first if python == sys.executable else linked(python, y, core, out)
            line = tried(fresh(python, f"try-3.{y}"), wheel)
            print(f"{wheel.name} {wheel.stat().st_size / 1e6:.2f} MB: {line}", flush=True)
        except subprocess.CalledProcessError as error:
            failed.append(f"3.{y}")
            print(f"{python}: FAILED: {error}\n{error.output}", flush=True)
    if args.sdist:
        print(source_archive(first))
    sys.exit(f"wheels.py: no good wheel for {', '.join(failed)}" if failed else 0)


if __name__ == "__main__":
    main()
