# SPDX-License-Identifier: BSD-3-Clause
"""Methods of dense tensors that make sparse ones; those of sparse tensors raise torch's errors."""

from __future__ import annotations

from typing import Any, NoReturn

import cograd
from cograd._base.sparse import registered
from cograd._C import Tensor

# A method is the function of the same name that cograd.sparse has for both kinds of tensors.
_CONVERT = {
    "sparse_mask": "Returns the elements at the positions of a sparse ``mask``, with its layout.",
    "to_dense": "Returns the tensor itself, or a copy in another dtype.",
    "to_sparse": "Returns the elements that are not 0 as a tensor of a sparse layout.",
    "to_sparse_coo": "Returns the elements that are not 0, with their coordinates.",
    "to_sparse_csc": "Returns the elements of a matrix that are not 0, in compressed columns.",
    "to_sparse_csr": "Returns the elements of a matrix that are not 0, in compressed rows.",
}
_ROWS, _COLUMNS = "sparse row compressed tensor", "sparse column compressed tensor"
_COO = "sparse coordinate tensor"
_EXPECTED = {
    "ccol_indices": _COLUMNS,
    "coalesce": _COO,
    "col_indices": _ROWS,
    "crow_indices": _ROWS,
    "indices": _COO,
    "is_coalesced": _COO,
    "row_indices": _COLUMNS,
    "values": "sparse tensor",
}


def _converting(name: str, doc: str) -> Any:
    def method(self: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        if not registered:
            cograd.sparse.SparseTensor  # noqa: B018, imports it
        result: Tensor = registered["handlers"][name](self, *args, **kwargs)
        return result

    method.__name__, method.__doc__ = name, doc
    return method


def _refusing(name: str, expected: str) -> Any:
    def method(self: Tensor, *args: Any, **kwargs: Any) -> NoReturn:
        raise RuntimeError(f"{name} expected {expected} layout but got Strided")

    method.__name__ = name
    method.__doc__ = f"Raises RuntimeError: only a {expected} has them."
    return method


def _sparse_dim(self: Tensor) -> int:
    """Returns 0: no dim of a dense tensor is sparse."""
    return 0


def _dense_dim(self: Tensor) -> int:
    """Returns the number of dims."""
    return self.dim()


METHODS: dict[str, Any] = {
    "dense_dim": _dense_dim,
    "sparse_dim": _sparse_dim,
    **{name: _converting(name, doc) for name, doc in _CONVERT.items()},
    **{name: _refusing(name, expected) for name, expected in _EXPECTED.items()},
}
