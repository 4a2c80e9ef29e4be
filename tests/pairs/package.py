# SPDX-License-Identifier: BSD-3-Clause
"""The package under test: cograd, or torch if PAIRS_PACKAGE=torch is set."""

import importlib
import os

NAME = os.environ.get("PAIRS_PACKAGE", "cograd")
T = importlib.import_module(NAME)
if NAME != "cograd":
    importlib.import_module(f"{NAME}.func")
