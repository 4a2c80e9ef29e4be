# SPDX-License-Identifier: BSD-3-Clause
"""torch's old names of COO tensors by dtype: sparse.FloatTensor(indices, values, size)."""

from __future__ import annotations

from typing import Any

import cograd
from cograd import Tensor

from ._construct import sparse_coo_tensor
from ._tensor import SparseTensor

_DTYPES = {
    "FloatTensor": cograd.float32,
    "DoubleTensor": cograd.float64,
    "HalfTensor": cograd.float16,
    "BFloat16Tensor": cograd.bfloat16,
    "LongTensor": cograd.int64,
    "IntTensor": cograd.int32,
    "ShortTensor": cograd.int16,
    "CharTensor": cograd.int8,
    "ByteTensor": cograd.uint8,
}
__all__ = list(_DTYPES)


class _Kind(type):
    """The class of these names: instances are all COO tensors of the dtype."""

    dtype: Any

    def __instancecheck__(cls, instance: Any) -> bool:
        kind = isinstance(instance, SparseTensor) and instance.is_sparse
        return kind and instance.dtype == cls.dtype

    def __call__(cls, *args: Any) -> Tensor:
        if all(isinstance(arg, int) for arg in args):  # sizes, or nothing
            return sparse_coo_tensor(args or (0,), dtype=cls.dtype)
        if len(args) > 1 and isinstance(args[1], Tensor) and args[1].dtype != cls.dtype:
            raise TypeError(
                f"sparse.{cls.__name__}(): expected values of {cls.dtype}, got {args[1].dtype}"
            )
        return sparse_coo_tensor(*args, dtype=cls.dtype)


globals().update(
    {
        name: _Kind(name, (), {"dtype": dtype, "__doc__": f"COO tensors of {dtype}."})
        for name, dtype in _DTYPES.items()
    }
)
