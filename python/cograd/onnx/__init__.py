# SPDX-License-Identifier: BSD-3-Clause
"""Export of models to ONNX: torch's ``torch.onnx``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cograd._base import absent as _absent
from cograd.onnx import errors
from cograd.onnx._export import OperatorExportTypes, TrainingMode, export, is_in_onnx_export
from cograd.onnx._program import ONNXProgram
from cograd.onnx.errors import OnnxExporterError

__all__ = [
    "ONNXProgram",
    "OnnxExporterError",
    "OperatorExportTypes",
    "TrainingMode",
    "errors",
    "export",
    "is_in_onnx_export",
]

if not TYPE_CHECKING:  # type checkers would accept every name
    __getattr__ = _absent.reporter(__name__)
    del TYPE_CHECKING, annotations
