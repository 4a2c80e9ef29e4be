# SPDX-License-Identifier: BSD-3-Clause
"""Exceptions of cograd.autograd."""

from __future__ import annotations


class GradcheckError(RuntimeError):
    """Raised by ``gradcheck`` and ``gradgradcheck`` when gradients are wrong; a RuntimeError.

    The message names the input and output of a wrong Jacobian, and shows both values.
    """


GradcheckError.__module__ = "cograd.autograd"
