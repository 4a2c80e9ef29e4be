# SPDX-License-Identifier: BSD-3-Clause
"""``python -m cograd config [--json]``: prints what ``cograd.show_config()`` prints."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence

import cograd

__all__ = ["main"]


def main(arguments: Sequence[str]) -> int:
    """Prints the configuration and returns 0."""
    parser = argparse.ArgumentParser(prog="python -m cograd config", description=__doc__)
    parser.add_argument("--json", action="store_true", help="as one JSON object")
    if parser.parse_args(arguments).json:
        print(json.dumps(cograd.show_config(mode="dicts"), indent=2))
    else:
        cograd.show_config()
    return 0
