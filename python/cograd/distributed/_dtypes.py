# SPDX-License-Identifier: BSD-3-Clause
"""Maps dtypes and reductions to MPI's datatypes and operations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import cograd
from cograd._dtypes import dtype_name
from cograd.distributed._names import ReduceOp, supports_complex

if TYPE_CHECKING:
    from cograd import Tensor

__all__ = ["check_op", "datatype", "is_half", "operation"]

_MPI_NAMES = {
    "bool": "C_BOOL",
    "uint8": "UINT8_T",
    "int8": "INT8_T",
    "uint16": "UINT16_T",
    "int16": "INT16_T",
    "uint32": "UINT32_T",
    "int32": "INT32_T",
    "uint64": "UINT64_T",
    "int64": "INT64_T",
    "float16": "UINT16_T",  # sent as bits; reductions use float32
    "bfloat16": "UINT16_T",
    "float32": "FLOAT",
    "float64": "DOUBLE",
    "complex64": "C_FLOAT_COMPLEX",
    "complex128": "C_DOUBLE_COMPLEX",
}
_OPERATIONS = {
    ReduceOp.SUM: "SUM",
    ReduceOp.AVG: "SUM",
    ReduceOp.PRODUCT: "PROD",
    ReduceOp.MIN: "MIN",
    ReduceOp.MAX: "MAX",
    ReduceOp.BAND: "BAND",
    ReduceOp.BOR: "BOR",
    ReduceOp.BXOR: "BXOR",
}
_OF_BOOL = {
    ReduceOp.SUM: "LOR",
    ReduceOp.MAX: "LOR",
    ReduceOp.BOR: "LOR",
    ReduceOp.PRODUCT: "LAND",
    ReduceOp.MIN: "LAND",
    ReduceOp.BAND: "LAND",
    ReduceOp.BXOR: "LXOR",
}
_HALF = (cograd.float16, cograd.bfloat16)
_datatypes: dict[cograd.dtype, Any] = {}
_operations: dict[tuple[cograd.dtype, ReduceOp], Any] = {}


def datatype(mpi: Any, dtype: cograd.dtype) -> Any:
    """Returns the MPI datatype that transfers elements of ``dtype``."""
    found = _datatypes.get(dtype)
    if found is None:
        name = _MPI_NAMES.get(dtype_name(dtype))
        if name is None:
            raise TypeError(f"cograd.distributed: {dtype} cannot be sent")
        found = _datatypes[dtype] = getattr(mpi, name)
    return found


def is_half(dtype: cograd.dtype) -> bool:
    """Returns whether reductions of ``dtype`` are computed in float32 and rounded once."""
    return dtype in _HALF


def operation(mpi: Any, name: str, dtype: cograd.dtype, op: ReduceOp) -> Any:
    """Checks a reduction and returns its MPI operation; ``name`` is the caller, for messages."""
    found = _operations.get((dtype, op))
    if found is None:
        check_op(name, dtype, op)
        table = _OF_BOOL if dtype is cograd.bool else _OPERATIONS
        found = _operations[dtype, op] = getattr(mpi, table[op])
    return found


def check_op(name: str, dtype: cograd.dtype, op: ReduceOp) -> None:
    """Raises if ``op`` cannot reduce a tensor of ``dtype``."""
    if not isinstance(op, ReduceOp):
        raise TypeError(f"{name}: op must be a ReduceOp, got {type(op).__name__}")
    if op is ReduceOp.PREMUL_SUM:
        raise RuntimeError(f"{name}: PREMUL_SUM is not offered; multiply before and use SUM")
    if dtype.is_complex and not supports_complex(op):
        raise ValueError(f"{name} does not support {op} on complex tensors")
    real = dtype.is_floating_point or dtype.is_complex
    if real and op in (ReduceOp.BAND, ReduceOp.BOR, ReduceOp.BXOR):
        raise RuntimeError(f"{name}: cannot use {op} with non-integral dtype {dtype}")
    if not real and op is ReduceOp.AVG:
        raise RuntimeError(f"{name}: {op} needs a floating or complex dtype, got {dtype}")


def average_(tensor: Tensor, size: int) -> None:
    """Divides the sum in ``tensor`` by the number of ranks."""
    with cograd.no_grad():
        tensor.detach().div_(size)
