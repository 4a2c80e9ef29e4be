# SPDX-License-Identifier: BSD-3-Clause
"""The base class of probability distributions."""

from __future__ import annotations

import warnings
from typing import Any

import cograd
from cograd import Size, Tensor

from . import constraints
from .utils import all_samples, holds, lazy_property

__all__ = ["Distribution"]


class Distribution:
    """A batch of distributions: ``batch_shape`` of them, each over values of ``event_shape``.

    Samples have the shape ``sample_shape + batch_shape + event_shape``; ``log_prob`` reduces over
    the event dims. ``rsample`` returns samples with gradients if ``has_rsample`` is True. A
    subclass defines ``arg_constraints``, ``support``, ``log_prob`` and ``sample`` or ``rsample``;
    methods that it does not define raise NotImplementedError. ``log_prob`` and ``cdf`` raise
    ValueError for values that do not fit the shapes or are outside of the support.

    Args:
        batch_shape: the shape of the batch of independent distributions with different parameters.
        event_shape: the shape of one value.
        validate_args: whether to check parameters and values; None follows
            ``set_default_validate_args``.

    Raises:
        ValueError: a parameter does not satisfy its constraint.
    """

    has_rsample: Any = False
    has_enumerate_support: Any = False
    _validate_args: bool = __debug__
    _unbatched: tuple[str, ...] = ()  # attributes that have no batch dims

    @staticmethod
    def set_default_validate_args(value: bool) -> None:
        """Sets whether distributions check their arguments by default."""
        if value is not True and value is not False:
            raise ValueError(f"expected True or False, got {value!r}")
        Distribution._validate_args = value

    def __init__(
        self, batch_shape: Any = (), event_shape: Any = (), validate_args: bool | None = None
    ) -> None:
        self._batch_shape = Size(batch_shape)
        self._event_shape = Size(event_shape)
        if validate_args is not None:
            self._validate_args = validate_args
        if self._validate_args:
            self._check_parameters()

    def _check_parameters(self) -> None:
        try:
            expected = self.arg_constraints
        except NotImplementedError:
            expected = {}
            warnings.warn(
                f"{type(self)} does not define `arg_constraints`. Please set "
                "`arg_constraints = {}` or initialize the distribution with "
                "`validate_args=False` to turn off validation.",
                stacklevel=3,
            )
        for name, constraint in expected.items():
            if constraints.is_dependent(constraint):
                continue
            if name not in vars(self) and isinstance(getattr(type(self), name), lazy_property):
                continue  # computed from parameters that are checked
            value = getattr(self, name)
            if not holds(constraint.check(value)):
                raise ValueError(
                    f"Expected parameter {name} ({type(value).__name__} of shape "
                    f"{tuple(value.shape)}) of distribution {self!r} to satisfy the constraint "
                    f"{constraint!r}, but found invalid values:\n{all_samples(value)}"
                )

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        """Returns the same distributions, repeated without copies to a larger ``batch_shape``.

        A subclass of a distribution that defines ``__init__`` must define ``expand``, too.
        """
        home = next(c for c in type(self).__mro__ if c.__module__.startswith(__package__))
        if home.__name__ in ("Distribution", "ExponentialFamily"):
            raise NotImplementedError
        new = self._get_checked_instance(home, _instance)
        given = set(vars(new))
        before, batch_shape = self._batch_shape, Size(batch_shape)
        for name, value in vars(self).items():
            if name not in given:
                kept = name in self._unbatched
                setattr(new, name, value if kept else _expanded(value, before, batch_shape))
        new._batch_shape = batch_shape
        return new

    def _get_checked_instance(self, cls: Any, _instance: Any = None) -> Any:
        if _instance is None and type(self).__init__ is not cls.__init__:
            raise NotImplementedError(
                f"Subclass {type(self).__name__} of {cls.__name__} that defines a custom "
                "__init__ method must also define a custom .expand() method."
            )
        return self.__new__(type(self)) if _instance is None else _instance

    @property
    def batch_shape(self) -> Size:
        """Returns the shape of the batch of distributions."""
        return self._batch_shape

    @property
    def event_shape(self) -> Size:
        """Returns the shape of one value."""
        return self._event_shape

    @property
    def arg_constraints(self) -> dict[str, Any]:
        """Returns the constraint of each parameter by its name."""
        raise NotImplementedError

    @property
    def support(self) -> Any:
        """Returns the constraint that values satisfy."""
        raise NotImplementedError

    @property
    def mean(self) -> Tensor:
        """Returns the mean of each element, of shape ``batch_shape + event_shape``."""
        raise NotImplementedError

    @property
    def mode(self) -> Tensor:
        """Returns the most probable value, of shape ``batch_shape + event_shape``."""
        raise NotImplementedError(f"{type(self)} does not implement mode")

    @property
    def variance(self) -> Tensor:
        """Returns the variance of each element, of shape ``batch_shape + event_shape``."""
        raise NotImplementedError

    @property
    def stddev(self) -> Tensor:
        """Returns the standard deviation, the root of the variance."""
        return self.variance.sqrt()

    def sample(self, sample_shape: Any = ()) -> Tensor:
        """Samples, without gradients, the shape ``sample_shape + batch_shape + event_shape``."""
        with cograd.no_grad():
            return self.rsample(sample_shape)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """Samples values as differentiable functions of the parameters, if possible."""
        raise NotImplementedError

    def sample_n(self, n: int) -> Tensor:
        """Returns ``sample((n,))``."""
        warnings.warn(
            "`sample_n(n)` will be deprecated. Use `sample((n,))` instead.",
            FutureWarning,
            stacklevel=2,
        )
        return self.sample((n,))

    def log_prob(self, value: Tensor) -> Tensor:
        """Returns the logarithm of the density, or of the probability, of ``value``."""
        raise NotImplementedError

    def cdf(self, value: Tensor) -> Tensor:
        """Returns the probability of a sample of at most ``value``."""
        raise NotImplementedError

    def icdf(self, value: Tensor) -> Tensor:
        """Returns the quantile of ``value``: a sample exceeds it with probability 1 - ``value``."""
        raise NotImplementedError

    def enumerate_support(self, expand: bool = True) -> Tensor:
        """Returns all values along a new first dim; with ``expand``, repeated for the batch."""
        raise NotImplementedError

    def entropy(self) -> Tensor:
        """Returns the mean of ``-log_prob``, of shape ``batch_shape``."""
        raise NotImplementedError

    def perplexity(self) -> Tensor:
        """Returns ``exp(entropy())``."""
        return cograd.exp(self.entropy())

    def _extended_shape(self, sample_shape: Any = ()) -> Size:
        return Size((*sample_shape, *self._batch_shape, *self._event_shape))

    def _enumerated(self, values: Tensor, expand: bool) -> Tensor:
        """Arranges scalar values along a new first dim."""
        values = values.reshape((-1,) + (1,) * len(self._batch_shape))
        return values.expand((-1, *self._batch_shape)) if expand else values

    def _validate_sample(self, value: Any) -> None:
        """Raises unless ``value`` can be a value of this distribution."""
        if not isinstance(value, Tensor):
            raise ValueError("The value argument to log_prob must be a Tensor")
        start = value.dim() - len(self._event_shape)
        if tuple(value.shape[max(start, 0) :]) != tuple(self._event_shape):
            raise ValueError(
                "The right-most size of value must match event_shape: "
                f"{value.size()} vs {self._event_shape}."
            )
        expected = self._extended_shape()
        for seen, own in zip(reversed(value.shape), reversed(expected)):
            if seen != 1 and own != 1 and seen != own:
                raise ValueError(
                    "Value is not broadcastable with batch_shape+event_shape: "
                    f"{value.size()} vs {expected}."
                )
        try:
            support = self.support
        except NotImplementedError:
            warnings.warn(
                f"{type(self)} does not define `support` to enable sample validation. Please "
                "initialize the distribution with `validate_args=False` to turn off validation.",
                stacklevel=3,
            )
            return
        if not holds(support.check(value)):
            raise ValueError(
                f"Expected value argument ({type(value).__name__} of shape {tuple(value.shape)}) "
                f"to be within the support ({support!r}) of the distribution {self!r}, but found "
                f"invalid values:\n{all_samples(value)}"
            )

    def __repr__(self) -> str:
        known = [(k, all_samples(vars(self)[k])) for k in self.arg_constraints if k in vars(self)]
        shown = (f"{k}: {v if v.numel() == 1 else v.size()}" for k, v in known)
        return f"{type(self).__name__}({', '.join(shown)})"


def _expanded(value: Any, before: Size, batch_shape: Size) -> Any:
    """Expands an attribute of a distribution of shape ``before`` to ``batch_shape``."""
    n = len(before)
    if isinstance(value, Tensor) and tuple(value.shape[:n]) == tuple(before):
        return value.expand((*batch_shape, *value.shape[n:]))
    if isinstance(value, Distribution) and tuple(value.batch_shape[:n]) == tuple(before):
        return value.expand((*batch_shape, *value.batch_shape[n:]))
    return value
