# SPDX-License-Identifier: BSD-3-Clause
"""Builds the wheel and gives it its manylinux tag: wheel.py [--out dist].

OpenBLAS stays outside the wheel: it is the dependency scipy-openblas32, found at run time by a
relative path. auditwheel decides the tag from the versions of the system's symbols.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import scipy_openblas32

ROOT = Path(__file__).resolve().parent.parent


def main() -> None:
    """Builds into build/wheel, repairs into the output folder, prints what came out."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=ROOT / "dist")
    args = parser.parse_args()
    raw = ROOT / "build" / "wheel"
    for old in raw.glob("cograd-*.whl"):
        old.unlink()
    pip = [sys.executable, "-m", "pip", "wheel", "-q", "--no-build-isolation", "--no-deps"]
    subprocess.run([*pip, "-w", str(raw), str(ROOT)], check=True)
    (wheel,) = raw.glob("cograd-*.whl")

    env = dict(os.environ, LD_LIBRARY_PATH=scipy_openblas32.get_lib_dir())
    env["PATH"] = f"{sysconfig.get_path('scripts')}{os.pathsep}{env['PATH']}"
    auditwheel = [sys.executable, "-m", "auditwheel"]
    repair = [*auditwheel, "repair", "--exclude", "libscipy_openblas.so", "-w", str(args.out)]
    before = set(args.out.glob("cograd-*.whl"))
    subprocess.run([*repair, str(wheel)], check=True, env=env, capture_output=True)
    newest = max(args.out.glob("cograd-*.whl"), key=lambda p: p.stat().st_mtime)
    for old in before - {newest}:
        if old.name.split("-")[2] == newest.name.split("-")[2]:
            old.unlink()
    print(f"{newest} ({newest.stat().st_size / 1e6:.2f} MB)")


if __name__ == "__main__":
    main()
