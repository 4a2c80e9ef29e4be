# SPDX-License-Identifier: BSD-3-Clause
"""SciPy's sparse matrices, with shared memory where both formats have the same arrays."""

from __future__ import annotations

from typing import Any

import cograd
from cograd import Tensor

from ._construct import (
    sparse_bsr_tensor,
    sparse_coo_tensor,
    sparse_csc_tensor,
    sparse_csr_tensor,
)
from ._convert import to_layout
from ._tensor import handles, refuse

__all__ = ["from_scipy"]


def _shared(array: Any) -> Tensor:
    """Returns a tensor over the array's memory, or a copy of an array that must not be written."""
    array = array if array.flags.writeable and array.dtype.isnative else array.copy()
    return cograd.from_numpy(array)


def from_scipy(matrix: Any, *, requires_grad: bool = False) -> Tensor:
    """Returns a SciPy sparse matrix or array as a tensor.

    CSR, CSC and BSR share all three arrays with the matrix, so writes to one are seen by the other;
    a COO matrix shares its values. Other formats are converted to CSR.

    Raises:
        TypeError: the argument is not SciPy's.
    """
    kind = getattr(matrix, "format", None)
    if kind is None or not hasattr(matrix, "tocsr"):
        raise TypeError(
            f"from_scipy(): expected a sparse matrix of SciPy, got {type(matrix).__name__}"
        )
    if kind == "coo":
        coords = getattr(matrix, "coords", None) or (matrix.row, matrix.col)
        at = cograd.stack([_shared(c).to(cograd.int64) for c in coords])
        return sparse_coo_tensor(
            at, _shared(matrix.data), matrix.shape, requires_grad=requires_grad
        )
    makers = {"csr": sparse_csr_tensor, "csc": sparse_csc_tensor, "bsr": sparse_bsr_tensor}
    if kind not in makers:
        matrix, kind = matrix.tocsr(), "csr"
    create: Any = makers[kind]
    parts = (_shared(matrix.indptr), _shared(matrix.indices), _shared(matrix.data))
    made: Tensor = create(*parts, matrix.shape, requires_grad=requires_grad)
    return made


@handles("to_scipy")
def _to_scipy(self: Any) -> Any:
    """Returns SciPy's array of the same format and memory (COO: its values and coordinates).

    Raises:
        ImportError: SciPy is not installed.
        RuntimeError: the tensor requires grad: detach() it first.
    """
    try:
        from scipy import sparse  # type: ignore[import-untyped, unused-ignore]
    except ImportError as error:
        raise ImportError("to_scipy(): install SciPy: pip install scipy") from error
    blocked = self.layout == cograd.sparse_bsr and self.dim() == 2
    if not blocked and (len(self._pattern.shape) != 2 or self._v.dim() != 1):
        refuse("to_scipy", f" of {self.dim()} dims ({self._v.dim() - 1} dense)")
    values = self._v.numpy()
    pattern = self._pattern
    if pattern.is_coo:
        out = sparse.coo_array(self.shape, dtype=values.dtype)
        row, col = (part.numpy() for part in pattern.parts[0])
        out.data = values
        out.coords = (row, col)
        out.has_canonical_format = pattern.coalesced
        return out
    csr = pattern.layout == cograd.sparse_csr
    if blocked:
        out = sparse.bsr_array(self.shape, blocksize=pattern.block, dtype=values.dtype)
    else:
        out = (sparse.csr_array if csr else sparse.csc_array)(self.shape, dtype=values.dtype)
    # The constructor would copy int64 indices to int32.
    out.indptr, out.indices = (part.numpy() for part in pattern.parts)
    out.data = values
    return out


def spdiags(diagonals: Tensor, offsets: Tensor, shape: Any, layout: Any = None) -> Tensor:
    """Returns a sparse matrix with the rows of ``diagonals`` on diagonals.

    Args:
        diagonals: (n, k), or (k) for one; element j of a row is in column j.
        offsets: (n), different; above the main diagonal they are positive.
        layout: default ``sparse_coo``.
    """
    bands = diagonals[None] if diagonals.dim() == 1 else diagonals
    places = offsets.reshape(-1).to(cograd.int64)
    if bands.dim() != 2 or places.shape[0] != bands.shape[0]:
        raise RuntimeError(
            f"spdiags(): Number of diagonals ({bands.shape[0]}) does not match the number of "
            f"offsets ({places.shape[0]})"
        )
    if len(set(places.tolist())) != places.shape[0]:
        raise RuntimeError("spdiags(): Offset tensor contains duplicate values")
    rows, cols = shape
    col = cograd.arange(bands.shape[1], device=bands.device).expand(bands.shape)
    row = col - places[:, None]
    inside = (row >= 0) & (row < rows) & (col < cols)
    at = cograd.stack((row[inside], col[inside]))
    result = sparse_coo_tensor(at, bands[inside], (rows, cols))
    return result if layout is None else to_layout(result, layout)
