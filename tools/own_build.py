# SPDX-License-Identifier: BSD-3-Clause
"""Finds the build folder of this environment's `make install`."""

from __future__ import annotations

import sys
from pathlib import Path


def own_builds(root: Path, file: str) -> list[Path]:
    """Returns the folders in root/build that this Python's installs came from and have ``file``."""
    tag = f"cp{sys.version_info[0]}{sys.version_info[1]}"
    return [p for p in root.glob(f"build/{tag}-{tag}-*") if (p / file).exists()]
