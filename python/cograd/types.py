# SPDX-License-Identifier: BSD-3-Clause
"""Type aliases for annotations, as in torch.types."""

import builtins
import os
from collections.abc import Sequence
from typing import IO, Any, TypeAlias

import cograd
from cograd._C import Size, Tensor
from cograd._C import UntypedStorage as Storage

__all__ = ["Device", "FileLike", "Number", "Storage"]

_int: TypeAlias = builtins.int
_float: TypeAlias = builtins.float
_bool: TypeAlias = builtins.bool
_complex: TypeAlias = builtins.complex
_dtype: TypeAlias = cograd.dtype
_device: TypeAlias = cograd.device
_size: TypeAlias = Size | list[builtins.int] | tuple[builtins.int, ...]
_symsize: TypeAlias = Size | Sequence[builtins.int]
_TensorOrTensors: TypeAlias = Tensor | Sequence[Tensor]
_TensorOrTensorsOrGradEdge: TypeAlias = Any

Number: TypeAlias = builtins.int | builtins.float | builtins.bool
Device: TypeAlias = cograd.device | str | builtins.int | None
FileLike: TypeAlias = str | os.PathLike[str] | IO[bytes]
BoolLikeType: TypeAlias = builtins.bool
FloatLikeType: TypeAlias = builtins.float
IntLikeType: TypeAlias = builtins.int
