# SPDX-License-Identifier: BSD-3-Clause
"""Replaces functorch, which comes with torch, as torch.py replaces torch."""

import sys

del sys.modules[__name__]

from cograd import install_as_torch  # noqa: E402

install_as_torch()

import functorch  # noqa: E402, F401
