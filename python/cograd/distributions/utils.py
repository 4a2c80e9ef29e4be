# SPDX-License-Identifier: BSD-3-Clause
"""Shared helpers: broadcasting, probabilities and logits, triangular matrices."""

from __future__ import annotations

from collections.abc import Callable
from functools import update_wrapper
from numbers import Number
from typing import Any

import cograd
from cograd import _C, Tensor
from cograd.nn import functional as F
from cograd.overrides import is_tensor_like

__all__ = [
    "broadcast_all",
    "clamp_probs",
    "euler_constant",
    "lazy_property",
    "logits_to_probs",
    "probs_to_logits",
    "tril_matrix_to_vec",
    "vec_to_tril_matrix",
]

euler_constant = 0.57721566490153286060


def broadcast_all(*values: Any) -> tuple[Tensor, ...]:
    """Broadcasts numbers and tensors to tensors of one shape.

    Numbers get the dtype and device of the first tensor, or the defaults if there is none.

    Raises:
        ValueError: a value is neither a number nor a tensor.
    """
    if not all(is_tensor_like(v) or isinstance(v, Number) for v in values):
        raise ValueError(
            "Input arguments must all be instances of Number, cograd.Tensor or objects "
            "implementing __torch_function__."
        )
    if not values:
        return ()
    options: dict[str, Any] = {"dtype": cograd.get_default_dtype()}
    for v in values:
        if isinstance(v, Tensor):
            options = {"dtype": v.dtype, "device": v.device}
            break
    tensors = [v if is_tensor_like(v) else cograd.tensor(v, **options) for v in values]
    return tuple(cograd.broadcast_tensors(*tensors))


def all_samples(value: Any) -> Any:
    """Returns ``value``, or inside of a vmap the physical tensor that holds the whole batch."""
    while (samples := _C._describe_samples(value)) is not None:
        value = samples[2]
    return value


def holds(mask: Tensor) -> bool:
    """Returns whether all elements are true; inside of a vmap, for the whole batch."""
    return bool(all_samples(mask).all())


def _standard_normal(shape: Any, dtype: Any, device: Any = None) -> Tensor:
    return cograd.randn(shape, dtype=dtype, device=device)


def _sum_rightmost(value: Any, dim: int) -> Any:
    """Returns ``value`` summed over its last ``dim`` dims."""
    return value if dim == 0 else value.sum(tuple(range(-dim, 0)))


def logits_to_probs(logits: Tensor, is_binary: bool = False) -> Tensor:
    """Converts logits to probabilities: by the sigmoid, or by softmax over the last dim.

    Args:
        logits: tensor of log odds, or of logarithms along its last dim.
        is_binary: whether each element is the log odds of a separate event.
    """
    return cograd.sigmoid(logits) if is_binary else F.softmax(logits, dim=-1)


def clamp_probs(probs: Tensor) -> Tensor:
    """Clamps ``probs`` to [eps, 1 - eps], eps of its dtype, so that log odds are finite."""
    eps = cograd.finfo(probs.dtype).eps
    return probs.clamp(min=eps, max=1 - eps)


def probs_to_logits(probs: Tensor, is_binary: bool = False) -> Tensor:
    """Converts probabilities, clamped by ``clamp_probs``, to logits.

    Args:
        probs: tensor of probabilities.
        is_binary: True returns log odds, ``log(p / (1 - p))``; False returns logarithms.
    """
    ps = clamp_probs(probs)
    return cograd.log(ps) - cograd.log1p(-ps) if is_binary else cograd.log(ps)


def tril_matrix_to_vec(mat: Tensor, diag: int = 0) -> Tensor:
    """Returns the elements of a ``(..., n, n)`` matrix on and below diagonal ``diag``, row by row.

    Raises:
        ValueError: there is no such diagonal.
    """
    n = mat.shape[-1]
    if not -n <= diag < n:
        raise ValueError(f"diag ({diag}) provided is outside [{-n}, {n - 1}].")
    rows, columns = cograd.tril_indices(n, n, diag, device=mat.device)
    return mat[..., rows, columns]


def vec_to_tril_matrix(vec: Tensor, diag: int = 0) -> Tensor:
    """Returns a ``(..., n, n)`` matrix with the elements ``vec`` on and below diagonal ``diag``.

    Raises:
        ValueError: no n fits the number of elements.
    """
    # The number of elements is s (s + 1) / 2 for a triangle of side s = n + diag.
    count = vec.shape[-1]
    side = ((1 + 8 * count) ** 0.5 - 1) / 2
    if side != int(side):
        raise ValueError(
            f"The size of last dimension is {count} which cannot be expressed as "
            "the lower triangular part of a square D x D matrix."
        )
    n = int(side) - diag
    rows, columns = cograd.tril_indices(n, n, diag, device=vec.device)
    flat = vec.new_zeros((*vec.shape[:-1], n * n))
    index = (rows * n + columns).expand(vec.shape)
    return flat.scatter(-1, index, vec).unflatten(-1, (n, n))


class lazy_property:
    """A property that is computed once, with gradients, and then becomes an attribute."""

    def __init__(self, wrapped: Callable[[Any], Any]) -> None:
        self.wrapped = wrapped
        update_wrapper(self, wrapped)  # type: ignore[arg-type]

    def __get__(self, instance: Any, obj_type: Any = None) -> Any:
        if instance is None:
            return _LazyOfClass(self.wrapped)
        with cograd.enable_grad():
            value = self.wrapped(instance)
        setattr(instance, self.wrapped.__name__, value)
        return value


class _LazyOfClass(lazy_property, property):
    """The object that reading a lazy property on the class returns."""

    def __init__(self, wrapped: Callable[[Any], Any]) -> None:
        property.__init__(self, wrapped)


class ProbsOrLogits:
    """Mixin of distributions given by probabilities or logits; the other one is computed lazily."""

    _is_binary = True
    _is_scalar: bool

    def _set_probs_or_logits(self, probs: Any, logits: Any, *others: Any) -> tuple[Any, ...]:
        """Stores the one that is given, broadcast with ``others``; returns those, broadcast."""
        if (probs is None) == (logits is None):
            raise ValueError("Either `probs` or `logits` must be specified, but not both.")
        name, given = ("probs", probs) if logits is None else ("logits", logits)
        self._is_scalar = isinstance(given, Number) and all(isinstance(o, Number) for o in others)
        value, *rest = broadcast_all(given, *others)
        setattr(self, name, value)
        return tuple(rest)

    @lazy_property
    def logits(self) -> Tensor:
        return probs_to_logits(self.probs, is_binary=self._is_binary)

    @lazy_property
    def probs(self) -> Tensor:
        return logits_to_probs(self.logits, is_binary=self._is_binary)

    @property
    def _param(self) -> Tensor:
        """Returns the parameter that was given."""
        known = vars(self)
        return known["probs" if "probs" in known else "logits"]

    @property
    def param_shape(self) -> Any:
        return self._param.size()

    def _new(self, *args: Any, **kwargs: Any) -> Tensor:
        return self._param.new_empty(*args, **kwargs)
