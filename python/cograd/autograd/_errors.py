# SPDX-License-Identifier: BSD-3-Clause
"""Exceptions of this package."""

from __future__ import annotations


class GradcheckError(RuntimeError):
    """Raised by ``gradcheck`` and ``gradgradcheck`` when gradients are wrong; a RuntimeError.

    The message says what is wrong: of a Jacobian by which input and output, and both values.
    """


GradcheckError.__module__ = "cograd.autograd"
