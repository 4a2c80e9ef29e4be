# SPDX-License-Identifier: BSD-3-Clause
"""Sparse tensors: the functions of torch.sparse that differentiable programs use, and SciPy's."""

from __future__ import annotations

from typing import Any

from cograd._base.absent import reporter as _reporter

from . import _arithmetic as _arithmetic
from . import _copies as _copies
from . import _engine, _tensor
from . import _parts as _parts
from . import _shape as _shape
from ._products import addmm, mm, sampled_addmm
from ._reduce import log_softmax, softmax, sum
from ._scipy import from_scipy, spdiags
from ._tensor import SparseTensor

__all__ = [
    "SparseTensor",
    "addmm",
    "as_sparse_gradcheck",
    "check_sparse_tensor_invariants",
    "from_scipy",
    "log_softmax",
    "mm",
    "sampled_addmm",
    "softmax",
    "spdiags",
    "sum",
]

_tensor.complete()
_engine.install()


class check_sparse_tensor_invariants:
    """A context manager and decorator without effect: indices are always checked."""

    def __init__(self, enable: bool = True) -> None:
        pass

    @staticmethod
    def is_enabled() -> bool:
        """Returns True."""
        return True

    @staticmethod
    def enable() -> None:
        """Does nothing."""

    @staticmethod
    def disable() -> None:
        """Does nothing: indices are checked all the same."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, *error: Any) -> None:
        pass

    def __call__(self, function: Any) -> Any:
        return function


def as_sparse_gradcheck(gradcheck: Any) -> Any:
    """Returns ``gradcheck``, which accepts sparse tensors: it varies the values that are stored."""
    return gradcheck


_report = _reporter("cograd.sparse")


def __getattr__(name: str) -> Any:
    if name.endswith("Tensor"):
        from . import _legacy

        if name in _legacy.__all__:
            return globals().setdefault(name, vars(_legacy)[name])
    return _report(name)
