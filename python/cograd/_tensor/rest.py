# SPDX-License-Identifier: BSD-3-Clause
"""Composite methods of Tensor, and torch's methods that only raise an explanation."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import cograd
from cograd import _C
from cograd._base.memory_format import registered
from cograd._C import Tensor, tensor


def _adjoint(self: Tensor) -> Tensor:
    """Returns the conjugate transpose of matrices (*, m, n); a view for real ones."""
    if self.dim() < 2:
        raise RuntimeError(
            "tensor.adjoint() is only supported on matrices or batches of matrices. Got "
            f"{self.dim()}-D tensor."
        )
    return self.mH


def _cdouble(self: Tensor, memory_format: Any = None) -> Tensor:
    return self.to(_C.complex128)


def _cfloat(self: Tensor, memory_format: Any = None) -> Tensor:
    return self.to(_C.complex64)


def _chalf(self: Tensor, memory_format: Any = None) -> Tensor:
    raise NotImplementedError("chalf(): cograd has no complex32; use cfloat()")


def _const_data_ptr(self: Tensor) -> int:
    return self.data_ptr()


def _dim_order(self: Tensor, *, ambiguity_check: Any = False) -> tuple[int, ...]:
    """Returns the dims from the outermost in memory to the innermost; ties keep their order."""
    sizes, strides = self.shape, self.stride()
    order = sorted(range(self.dim()), key=lambda d: -strides[d])
    if ambiguity_check is not False:
        steps = [strides[d] for d in order if sizes[d] > 1]
        if len(set(steps)) != len(steps) or any(n == 0 for n in steps):
            raise RuntimeError("The tensor does not have unique dim order, or cannot map to it.")
    return tuple(order)


def _float_power_(self: Tensor, exponent: Any) -> Tensor:
    """Computes ``float_power`` in place, for a float64 or complex128 tensor."""
    if not isinstance(self, Tensor):
        raise TypeError(f"float_power_(): expected a Tensor, got {type(self).__name__}")
    is_complex = self.is_complex() or isinstance(exponent, complex)
    if isinstance(exponent, Tensor):
        is_complex = is_complex or exponent.is_complex()
    wanted = _C.complex128 if is_complex else _C.float64
    if self.dtype is not wanted:
        raise RuntimeError(
            f"the base given to float_power_ has dtype {self.dtype} but the operation's result "
            f"requires dtype {wanted}"
        )
    return self.pow_(exponent.to(wanted) if isinstance(exponent, Tensor) else exponent)


def _is_nonzero(self: Tensor) -> bool:
    """Returns whether the only element is not zero."""
    return cograd.is_nonzero(self)


def _is_same_size(self: Tensor, other: Tensor) -> bool:
    """Returns whether both tensors have the same shape."""
    return bool(self.shape == other.shape)


def _false(self: Tensor) -> bool:
    return False


def _lu(self: Tensor, pivot: bool = True, get_infos: bool = False) -> Any:
    """Calls :func:`cograd.lu`."""
    return cograd.lu(self, pivot, get_infos)


def _map2_(self: Tensor, x: Tensor, y: Tensor, callable: Callable[[Any, Any, Any], Any]) -> Tensor:
    """Replaces each element by ``callable(element, element of x, element of y)``."""
    if cograd.is_grad_enabled() and any(t.requires_grad for t in (self, x, y)):
        raise RuntimeError("Can't call map2_() on Variable that requires grad. Use var.detach().")
    if not (x.dtype is y.dtype is self.dtype):
        raise TypeError(f"map2_(): expected tensors of {self.dtype}, got {x.dtype} and {y.dtype}")
    parts = [t.expand(self.shape).reshape(-1).tolist() for t in (self, x, y)]
    values = [callable(*row) for row in zip(*parts, strict=True)]
    return self.copy_(tensor(values, dtype=self.dtype).reshape(self.shape))


def _module_load(self: Tensor, other: Tensor, assign: bool = False) -> Tensor:
    """Returns the value of this parameter or buffer after its module loads ``other``."""
    return other.detach() if assign else self.copy_(other)


def _get_grad_dtype(self: Tensor) -> Any:
    return self.dtype


def _resize(self: Tensor, *sizes: Any) -> Tensor:
    warnings.warn("non-inplace resize is deprecated", stacklevel=2)
    shape: Sequence[int] = sizes[0] if len(sizes) == 1 and not isinstance(sizes[0], int) else sizes
    return self.view(shape)


def _resize_as(self: Tensor, tensor: Tensor) -> Tensor:
    warnings.warn("non-inplace resize_as is deprecated", stacklevel=2)
    return self.view(tensor.shape)


def _reinforce(self: Tensor, reward: Any) -> None:
    raise RuntimeError(
        "reinforce() was removed. Use cograd.distributions instead: draw with sample(), multiply "
        "log_prob(sample) by the reward, and call backward() on the negative mean."
    )


def _slice_inverse(
    self: Tensor,
    src: Tensor,
    dim: int = 0,
    start: int | None = None,
    end: int | None = None,
    step: int = 1,
) -> Tensor:
    """Calls :func:`cograd.slice_inverse`."""
    return cograd.slice_inverse(self, src, dim, start, end, step)


# A method is the function of the same name that cograd.sparse has for both kinds of tensors.
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


def _convert(name: str, x: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """Calls the function of cograd.sparse, which is imported when it is first needed."""
    if not registered:
        cograd.sparse.SparseTensor  # noqa: B018, imports it
    result: Tensor = registered["handlers"][name](x, *args, **kwargs)
    return result


def _sparse_mask(self: Tensor, mask: Tensor) -> Tensor:
    """Returns the elements at the positions of a sparse ``mask``, with its layout."""
    return _convert("sparse_mask", self, mask)


def _to_dense(self: Tensor, dtype: Any = None, *, masked_grad: bool | None = None) -> Tensor:
    """Returns the tensor itself, or a copy in another dtype."""
    return _convert("to_dense", self, dtype, masked_grad=masked_grad)


def _to_sparse(
    self: Tensor,
    sparse_dim: Any = None,
    *,
    layout: Any = None,
    blocksize: Any = None,
    dense_dim: int | None = None,
) -> Tensor:
    """Returns the elements that are not 0 as a tensor of a sparse layout."""
    options = {"layout": layout, "blocksize": blocksize, "dense_dim": dense_dim}
    return _convert("to_sparse", self, sparse_dim, **options)


def _to_sparse_coo(self: Tensor) -> Tensor:
    """Returns the elements that are not 0, with their coordinates."""
    return _convert("to_sparse_coo", self)


def _to_sparse_csc(self: Tensor, dense_dim: int | None = None) -> Tensor:
    """Returns the elements of a matrix that are not 0, in compressed columns."""
    return _convert("to_sparse_csc", self, dense_dim)


def _to_sparse_csr(self: Tensor, dense_dim: int | None = None) -> Tensor:
    """Returns the elements of a matrix that are not 0, in compressed rows."""
    return _convert("to_sparse_csr", self, dense_dim)


def _to_sparse_bsc(self: Tensor, blocksize: Any, dense_dim: int | None = None) -> Tensor:
    """Returns the blocks of matrices that are not 0, in compressed columns."""
    return _convert("to_sparse_bsc", self, blocksize, dense_dim)


def _to_sparse_bsr(self: Tensor, blocksize: Any, dense_dim: int | None = None) -> Tensor:
    """Returns the blocks of matrices that are not 0, in compressed rows."""
    return _convert("to_sparse_bsr", self, blocksize, dense_dim)


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
    "adjoint": _adjoint,
    "cdouble": _cdouble,
    "cfloat": _cfloat,
    "chalf": _chalf,
    "const_data_ptr": _const_data_ptr,
    "dim_order": _dim_order,
    "float_power_": _float_power_,
    "grad_dtype": property(_get_grad_dtype, doc="The dtype of the gradient: the tensor's."),
    "is_distributed": _false,
    "is_nonzero": _is_nonzero,
    "is_same_size": _is_same_size,
    "lu": _lu,
    "map2_": _map2_,
    "module_load": _module_load,
    "reinforce": _reinforce,
    "resize": _resize,
    "resize_as": _resize_as,
    "slice_inverse": _slice_inverse,
    "dense_dim": _dense_dim,
    "sparse_dim": _sparse_dim,
    "sparse_mask": _sparse_mask,
    "to_dense": _to_dense,
    "to_sparse": _to_sparse,
    "to_sparse_bsc": _to_sparse_bsc,
    "to_sparse_bsr": _to_sparse_bsr,
    "to_sparse_coo": _to_sparse_coo,
    "to_sparse_csc": _to_sparse_csc,
    "to_sparse_csr": _to_sparse_csr,
    **{name: _refusing(name, expected) for name, expected in _EXPECTED.items()},
}
