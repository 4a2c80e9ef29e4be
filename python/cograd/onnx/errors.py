# SPDX-License-Identifier: BSD-3-Clause
"""The errors of exports."""

from __future__ import annotations

__all__ = [
    "OnnxExporterError",
    "OnnxExporterWarning",
    "SymbolicValueError",
    "UnsupportedOperatorError",
]


class OnnxExporterWarning(UserWarning):
    """An export may be incorrect."""


class OnnxExporterError(RuntimeError):
    """A model cannot be exported."""


class UnsupportedOperatorError(OnnxExporterError):
    """An op has no ONNX counterpart here."""


class SymbolicValueError(OnnxExporterError):
    """An argument of an op has a value that ONNX cannot express."""
