# SPDX-License-Identifier: BSD-3-Clause
"""``pytest -p cograd.pytest_as_torch``: tests that import torch run on cograd."""

from cograd import install_as_torch

__all__: list[str] = []

install_as_torch()
