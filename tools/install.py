# SPDX-License-Identifier: BSD-3-Clause
"""Builds the project and installs it here: install.py [--config-settings=KEY=VALUE ...] [PIP ...].

pip would hide the build's output, so the build backend is called as pip calls it, without
isolation, and build_progress.py shows how far it is; pip then installs the wheel. The other
arguments are pip's; with -v the whole output of the build appears.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import build_progress

ROOT = Path(__file__).resolve().parent.parent
OPTION = "--config-settings="
HOOK = """
import json, sys
from scikit_build_core.build import build_wheel
build_wheel(sys.argv[1], json.loads(sys.argv[2]))
"""


def main(arguments: list[str]) -> int:
    """Builds a wheel in the kept build directory and installs it."""
    settings = [a[len(OPTION) :].partition("=") for a in arguments if a.startswith(OPTION)]
    pip_arguments = [a for a in arguments if not a.startswith(OPTION)]
    chosen = json.dumps({key: value for key, _, value in settings})
    os.chdir(ROOT)
    with tempfile.TemporaryDirectory() as folder:
        hook = [sys.executable, "-c", HOOK, folder, chosen]
        status = build_progress.follow(hook, bool({"-v", "--verbose"} & {*pip_arguments}))
        if status:
            return status
        (wheel,) = Path(folder).glob("*.whl")
        pip = [sys.executable, "-m", "pip", "install", *pip_arguments]
        pip += ["--no-deps", "--force-reinstall", str(wheel)]
        return subprocess.run(pip, check=False).returncode


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(130)
