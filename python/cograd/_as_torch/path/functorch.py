# SPDX-License-Identifier: BSD-3-Clause
"""Replaces functorch, which comes with torch, as torch.py replaces torch."""

import sys
from importlib import import_module

del sys.modules[__name__]

from cograd import install_as_torch  # noqa: E402

install_as_torch()

import_module("functorch")
