# SPDX-License-Identifier: BSD-3-Clause
"""The package that is tried: cograd, or by PAIRS_PACKAGE=torch the other, to see what it does."""

import importlib
import os

NAME = os.environ.get("PAIRS_PACKAGE", "cograd")
T = importlib.import_module(NAME)
if NAME != "cograd":
    importlib.import_module(f"{NAME}.func")
