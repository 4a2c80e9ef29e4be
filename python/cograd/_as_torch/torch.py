# SPDX-License-Identifier: BSD-3-Clause
"""Stands in PYTHONPATH for torch in processes of a program that runs on cograd.

The first ``import torch`` runs this file, which puts cograd itself in the place of this module.
"""

import sys

del sys.modules[__name__]

from cograd import install_as_torch  # noqa: E402

install_as_torch()
