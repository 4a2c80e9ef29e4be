# SPDX-License-Identifier: BSD-3-Clause
"""Replaces torch in PYTHONPATH for child processes of a program that runs on cograd.

The first ``import torch`` runs this file, which replaces this module by cograd itself.
"""

import sys

del sys.modules[__name__]

from cograd import install_as_torch  # noqa: E402

install_as_torch()
