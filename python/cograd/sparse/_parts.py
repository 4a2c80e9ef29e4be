# SPDX-License-Identifier: BSD-3-Clause
"""The parts of sparse tensors: indices, values and their numbers."""

from __future__ import annotations

from typing import Any

import cograd
from cograd import Tensor

from ._blocks import BlockPattern
from ._convert import coalesce
from ._pattern import Pattern
from ._tensor import SparseTensor, handles


def _as_coo(s: Any, name: str) -> SparseTensor:
    if not isinstance(s, SparseTensor) or not s._pattern.is_coo:
        kind = (
            s._pattern.layout.rpartition("_")[2].capitalize() if isinstance(s, SparseTensor) else ""
        )
        got = f"Sparse{kind}" if kind else "Strided"
        what = "tensor" if name == "values" else "coordinate tensor"
        raise RuntimeError(f"{name} expected sparse {what} layout but got {got}")
    return s


@handles("coalesce")
def _coalesce(self: Any) -> Tensor:
    """Returns the tensor with its positions in order, each once; values at one position added."""
    return coalesce(_as_coo(self, "coalesce"))


@handles("is_coalesced")
def _is_coalesced(self: Any) -> bool:
    """Returns whether positions are known to be in order and to occur once."""
    pattern = _as_coo(self, "is_coalesced")._pattern
    return pattern.claimed or pattern.coalesced


@handles("indices")
def _indices(self: Any) -> Tensor:
    """Returns the coordinates, of shape (sparse dims, nnz), of a coalesced tensor."""
    pattern = _as_coo(self, "indices")._pattern
    if not (pattern.claimed or pattern.coalesced):
        raise RuntimeError(
            "Cannot get indices on an uncoalesced tensor, please call .coalesce() first"
        )
    return pattern.parts[0].detach()


def _own(values: Tensor) -> Tensor:
    """Returns the values; a tensor of its own, which may be resized, if they have no history."""
    return values if values._is_concerned or values.requires_grad else values.detach()


@handles("values")
def _values(self: Any) -> Tensor:
    """Returns the values of a coalesced tensor, with their history."""
    if isinstance(self, SparseTensor) and not self._pattern.is_coo:
        return _own(self._v)
    pattern = _as_coo(self, "values")._pattern
    if not (pattern.claimed or pattern.coalesced):
        raise RuntimeError(
            "Cannot get values on an uncoalesced tensor, please call .coalesce() first"
        )
    return _own(self._v)


@handles("_indices")
def _raw_indices(self: Any) -> Tensor:
    """Returns the coordinates as they are stored."""
    return _as_coo(self, "_indices")._pattern.parts[0].detach()


@handles("_values")
def _raw_values(self: Any) -> Tensor:
    """Returns the values as they are stored, without their history, as in torch."""
    return _as_coo(self, "_values")._v.detach()


@handles("numpy", "__array__")
def _numpy(self: Any, *args: Any, **kwargs: Any) -> Any:
    raise TypeError(
        f"can't convert {self._pattern.layout} layout tensor to numpy. Use Tensor.to_dense() "
        "first, or to_scipy()."
    )


@handles("_nnz")
def _nnz(self: Any) -> int:
    return int(self._pattern.nnz)


@handles("_coalesced_")
def _set_coalesced(self: Any, coalesced: bool) -> Any:
    pattern = _as_coo(self, "_coalesced_")._pattern
    self._pattern = Pattern(pattern.layout, pattern.shape, pattern.parts)
    self._pattern.claimed = bool(coalesced)
    return self


@handles("sparse_dim")
def _sparse_dim(self: Any) -> int:
    """Returns the number of sparse dims."""
    return 2 if isinstance(self._pattern, BlockPattern) else len(self._pattern.shape)


@handles("dense_dim")
def _dense_dim(self: Any) -> int:
    """Returns the number of dense dims."""
    return int(self._pattern.dense_dims(self._v))


def _part(name: str, layouts: tuple[Any, ...], which: int, kind: str) -> None:
    def method(self: Any) -> Tensor:
        """Returns one of the two arrays of compressed indices."""
        if self._pattern.layout not in layouts:
            short = str(self._pattern.layout).rpartition("_")[2].capitalize()
            got = "Sparse" if self._pattern.is_coo else f"Sparse{short}"
            raise RuntimeError(
                f"{name} expected sparse {kind} compressed tensor layout but got {got}"
            )
        part: Tensor = self._pattern.parts[which]
        return part.detach()

    handles(name)(method)


_ROWS = (cograd.sparse_csr, cograd.sparse_bsr)
_COLUMNS = (cograd.sparse_csc, cograd.sparse_bsc)
_part("crow_indices", _ROWS, 0, "row")
_part("col_indices", _ROWS, 1, "row")
_part("ccol_indices", _COLUMNS, 0, "column")
_part("row_indices", _COLUMNS, 1, "column")
