# SPDX-License-Identifier: BSD-3-Clause
"""Kullback-Leibler divergence, dispatched on the classes of the distributions."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

from cograd import Tensor

from .distribution import Distribution

__all__ = ["kl_divergence", "register_kl"]

_KL_REGISTRY: dict[tuple[type, type], Callable[..., Any]] = {}
_KL_MEMOIZE: dict[tuple[type, type], Callable[..., Any]] = {}


def register_kl(type_p: Any, type_q: Any) -> Callable[[Any], Any]:
    """Decorates a function ``f(p, q)`` that computes ``kl_divergence`` for two classes.

    The function also applies to their subclasses: the most specific pair of classes is chosen, with
    p compared first. A warning is issued if comparing q first would choose another pair.

    Args:
        type_p: the class of the first distribution.
        type_q: the class of the second distribution.

    Raises:
        TypeError: an argument is not a class.
    """
    for name, cls in (("type_p", type_p), ("type_q", type_q)):
        if not isinstance(cls, type):  # other libraries' distributions need not derive from ours
            raise TypeError(f"Expected {name} to be a Distribution subclass but got {cls}")

    def decorated(fun: Any) -> Any:
        _KL_REGISTRY[type_p, type_q] = fun
        _KL_MEMOIZE.clear()
        return fun

    return decorated


def _unknown(p: Any, q: Any) -> Any:
    raise NotImplementedError(
        f"No KL(p || q) is implemented for p type {type(p).__name__} and q type {type(q).__name__}"
    )


def _order(kind: type) -> Callable[[type], int]:
    """Returns a key function: the distance of a base from ``kind``, largest for virtual bases."""
    bases = kind.__mro__
    return lambda base: bases.index(base) if base in bases else len(bases)


def _dispatch_kl(type_p: type, type_q: type) -> Callable[..., Any]:
    """Returns the function for the most specific pair of classes."""
    pairs = [(p, q) for p, q in _KL_REGISTRY if issubclass(type_p, p) and issubclass(type_q, q)]
    if not pairs:
        return _unknown
    order_p, order_q = _order(type_p), _order(type_q)
    left = min(pairs, key=lambda pair: (order_p(pair[0]), order_q(pair[1])))
    right = min(pairs, key=lambda pair: (order_q(pair[1]), order_p(pair[0])))
    if _KL_REGISTRY[left] is not _KL_REGISTRY[right]:
        warnings.warn(
            f"Ambiguous kl_divergence({type_p.__name__}, {type_q.__name__}). "
            f"Please register_kl({left[0].__name__}, {right[1].__name__})",
            RuntimeWarning,
            stacklevel=3,
        )
    return _KL_REGISTRY[left]


def kl_divergence(p: Distribution, q: Distribution) -> Tensor:
    """Returns the mean of ``log p(x) - log q(x)`` over values x of ``p`` (Kullback, Leibler).

    It is nonnegative, 0 if both are equal, and infinite if ``p`` has values that ``q`` lacks. The
    formula is that of the most specific pair of classes that is registered; it is differentiable
    with respect to the parameters of both. The result has the shape to which the batch shapes
    broadcast.

    Args:
        p: the distribution of the values.
        q: the distribution that ``p`` is compared with.

    Raises:
        NotImplementedError: no function is registered for these classes.
    """
    pair = (type(p), type(q))
    fun = _KL_MEMOIZE.get(pair)
    if fun is None:
        fun = _KL_MEMOIZE[pair] = _dispatch_kl(*pair)
    return fun(p, q)
