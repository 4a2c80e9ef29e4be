# SPDX-License-Identifier: BSD-3-Clause
"""Regions of values: ``constraint.check(value)`` returns which values are inside.

The result of a check has the shape of ``value`` without its last ``event_dim`` dims.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import cograd
from cograd import Tensor

__all__ = [
    "Constraint",
    "MixtureSameFamilyConstraint",
    "boolean",
    "cat",
    "corr_cholesky",
    "dependent",
    "dependent_property",
    "greater_than",
    "greater_than_eq",
    "half_open_interval",
    "independent",
    "integer_interval",
    "interval",
    "is_dependent",
    "less_than",
    "lower_cholesky",
    "lower_triangular",
    "multinomial",
    "nonnegative",
    "nonnegative_integer",
    "one_hot",
    "positive",
    "positive_definite",
    "positive_integer",
    "positive_semidefinite",
    "real",
    "real_vector",
    "simplex",
    "square",
    "stack",
    "symmetric",
    "unit_interval",
]


class Constraint:
    """A region of values whose last ``event_dim`` dims make one event.

    ``check(value)`` returns a bool for each event: the shape of ``value`` without the event dims.
    ``is_discrete`` is True if the values are isolated. A subclass defines ``check``; ``biject_to``
    and ``transform_to`` return transforms to the regions of this module.
    """

    is_discrete: Any = False
    event_dim: Any = 0
    _shown: tuple[str, ...] = ()

    def check(self, value: Tensor) -> Tensor:
        """Returns a bool for each event of ``value``."""
        raise NotImplementedError

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}={getattr(self, name)}" for name in self._shown)
        return f"{type(self).__name__.lstrip('_')}({shown})"


class _Dependent(Constraint):
    """A region that depends on other values, so that a value alone cannot be checked.

    Args:
        is_discrete: whether its values are isolated; unknown by default.
        event_dim: the number of event dims; unknown by default.

    Raises:
        ValueError: ``check`` is called.
        NotImplementedError: ``is_discrete`` or ``event_dim`` is read while it is unknown.
    """

    def __init__(self, *, is_discrete: Any = NotImplemented, event_dim: Any = NotImplemented):
        self._is_discrete = is_discrete
        self._event_dim = event_dim
        super().__init__()

    @property
    def is_discrete(self) -> bool:
        if self._is_discrete is NotImplemented:
            raise NotImplementedError(".is_discrete cannot be determined statically")
        return bool(self._is_discrete)

    @property
    def event_dim(self) -> int:
        if self._event_dim is NotImplemented:
            raise NotImplementedError(".event_dim cannot be determined statically")
        return int(self._event_dim)

    def __call__(
        self, *, is_discrete: Any = NotImplemented, event_dim: Any = NotImplemented
    ) -> _Dependent:
        """Returns a copy with another ``is_discrete`` or ``event_dim``."""
        return _Dependent(
            is_discrete=self._is_discrete if is_discrete is NotImplemented else is_discrete,
            event_dim=self._event_dim if event_dim is NotImplemented else event_dim,
        )

    def check(self, value: Tensor) -> Tensor:
        raise ValueError("Cannot determine validity of dependent constraint")


def is_dependent(constraint: Any) -> bool:
    """Returns whether ``constraint`` depends on other values, as ``dependent`` does.

    Such a constraint cannot be checked: the property of a distribution instance has the actual
    region.
    """
    return isinstance(constraint, _Dependent)


class _DependentProperty(property, _Dependent):
    """A constraint as a property of a distribution: on the class it is a dependent constraint.

    It decorates a method of the instance that returns the constraint.

    Args:
        fn: the method.
        is_discrete: see ``dependent``; known without an instance.
        event_dim: likewise.
    """

    def __init__(
        self,
        fn: Callable[..., Any] | None = None,
        *,
        is_discrete: Any = NotImplemented,
        event_dim: Any = NotImplemented,
    ) -> None:
        property.__init__(self, fn)
        self._is_discrete = is_discrete
        self._event_dim = event_dim

    def __call__(self, fn: Callable[..., Any]) -> _DependentProperty:  # type: ignore[override]
        """Decorates a method."""
        return _DependentProperty(fn, is_discrete=self._is_discrete, event_dim=self._event_dim)


class _IndependentConstraint(Constraint):
    """A region that treats some batch dims of another region as event dims.

    An event is inside if all its parts are.

    Args:
        base_constraint: the region of a part.
        reinterpreted_batch_ndims: the number of dims, counted from the right.

    Raises:
        ValueError: the value has too few dims, in ``check``.
    """

    def __init__(self, base_constraint: Any, reinterpreted_batch_ndims: int) -> None:
        self.base_constraint = base_constraint
        self.reinterpreted_batch_ndims = reinterpreted_batch_ndims

    @property
    def is_discrete(self) -> bool:
        return bool(self.base_constraint.is_discrete)

    @property
    def event_dim(self) -> int:
        return int(self.base_constraint.event_dim) + self.reinterpreted_batch_ndims

    def check(self, value: Tensor) -> Tensor:
        inside = self.base_constraint.check(value)
        n = self.reinterpreted_batch_ndims
        if inside.dim() < n:
            expected = self.base_constraint.event_dim + n
            raise ValueError(f"Expected value.dim() >= {expected} but got {value.dim()}")
        return inside.flatten(-n).all(-1) if n else inside

    def __repr__(self) -> str:
        return f"IndependentConstraint({self.base_constraint!r}, {self.reinterpreted_batch_ndims})"


class MixtureSameFamilyConstraint(Constraint):
    """The values that satisfy ``base_constraint`` for every component of a mixture.

    The components are the last batch dim of the region; ``check`` reduces over that dim.

    Args:
        base_constraint: the region of the components.

    Raises:
        TypeError: ``base_constraint`` is not a ``Constraint``.
    """

    def __init__(self, base_constraint: Any) -> None:
        if not isinstance(base_constraint, Constraint):
            raise TypeError(
                f"base_constraint must be a Constraint, got {type(base_constraint).__name__}"
            )
        self.base_constraint = base_constraint

    @property
    def is_discrete(self) -> bool:
        return bool(self.base_constraint.is_discrete)

    @property
    def event_dim(self) -> int:
        return int(self.base_constraint.event_dim)

    def check(self, value: Tensor) -> Tensor:
        inside = self.base_constraint.check(value.unsqueeze(-1 - self.event_dim))
        return inside.flatten(value.dim() - self.event_dim).all(-1)

    def __repr__(self) -> str:
        return f"MixtureSameFamilyConstraint({self.base_constraint!r})"


class _Boolean(Constraint):
    """The two values 0 and 1."""

    is_discrete = True

    def check(self, value: Tensor) -> Tensor:
        return (value == 0) | (value == 1)


class _OneHot(Constraint):
    """Vectors with a single 1 and zeros."""

    is_discrete = True
    event_dim = 1

    def check(self, value: Tensor) -> Tensor:
        bits = (value == 0) | (value == 1)
        return bits.all(-1) & (value.sum(-1) == 1)


class _IntegerInterval(Constraint):
    """The integers from ``lower_bound`` to ``upper_bound``, both included.

    Args:
        lower_bound: number or tensor.
        upper_bound: number or tensor.
    """

    is_discrete = True
    _shown = ("lower_bound", "upper_bound")

    def __init__(self, lower_bound: Any, upper_bound: Any) -> None:
        self.lower_bound = lower_bound
        self.upper_bound = upper_bound

    def check(self, value: Tensor) -> Tensor:
        return (value % 1 == 0) & (self.lower_bound <= value) & (value <= self.upper_bound)


class _IntegerLessThan(Constraint):
    """The integers up to ``upper_bound``, included."""

    is_discrete = True
    _shown = ("upper_bound",)

    def __init__(self, upper_bound: Any) -> None:
        self.upper_bound = upper_bound

    def check(self, value: Tensor) -> Tensor:
        return (value % 1 == 0) & (value <= self.upper_bound)


class _IntegerGreaterThan(Constraint):
    """The integers from ``lower_bound`` on, included."""

    is_discrete = True
    _shown = ("lower_bound",)

    def __init__(self, lower_bound: Any) -> None:
        self.lower_bound = lower_bound

    def check(self, value: Tensor) -> Tensor:
        return (value % 1 == 0) & (value >= self.lower_bound)


class _Real(Constraint):
    """All real numbers and infinities, but not NaN."""

    def check(self, value: Tensor) -> Tensor:
        return value == value


class _GreaterThan(Constraint):
    """The numbers greater than ``lower_bound``.

    Args:
        lower_bound: number or tensor.
    """

    _shown = ("lower_bound",)

    def __init__(self, lower_bound: Any) -> None:
        self.lower_bound = lower_bound

    def check(self, value: Tensor) -> Tensor:
        return self.lower_bound < value


class _GreaterThanEq(_GreaterThan):
    """The numbers greater than or equal to ``lower_bound``.

    Args:
        lower_bound: number or tensor.
    """

    def check(self, value: Tensor) -> Tensor:
        return self.lower_bound <= value


class _LessThan(Constraint):
    """The numbers less than ``upper_bound``.

    Args:
        upper_bound: number or tensor.
    """

    _shown = ("upper_bound",)

    def __init__(self, upper_bound: Any) -> None:
        self.upper_bound = upper_bound

    def check(self, value: Tensor) -> Tensor:
        return value < self.upper_bound


class _Interval(Constraint):
    """The numbers from ``lower_bound`` to ``upper_bound``, both included.

    Args:
        lower_bound: number or tensor.
        upper_bound: number or tensor.
    """

    _shown = ("lower_bound", "upper_bound")

    def __init__(self, lower_bound: Any, upper_bound: Any) -> None:
        self.lower_bound = lower_bound
        self.upper_bound = upper_bound

    def check(self, value: Tensor) -> Tensor:
        return (self.lower_bound <= value) & (value <= self.upper_bound)


class _HalfOpenInterval(_Interval):
    """The numbers from ``lower_bound``, included, to ``upper_bound``, excluded.

    Args:
        lower_bound: number or tensor.
        upper_bound: number or tensor.
    """

    def check(self, value: Tensor) -> Tensor:
        return (self.lower_bound <= value) & (value < self.upper_bound)


class _Simplex(Constraint):
    """Vectors of nonnegative numbers whose sum is 1 within 1e-6."""

    event_dim = 1

    def check(self, value: Tensor) -> Tensor:
        return (value >= 0).all(-1) & ((value.sum(-1) - 1).abs() < 1e-6)


class _Multinomial(Constraint):
    """Vectors of nonnegative numbers whose sum is at most ``upper_bound``; for counts.

    Args:
        upper_bound: an int.
    """

    is_discrete = True
    event_dim = 1

    def __init__(self, upper_bound: Any) -> None:
        self.upper_bound = upper_bound

    def check(self, x: Tensor) -> Tensor:
        return (x >= 0).all(-1) & (x.sum(-1) <= self.upper_bound)


class _LowerTriangular(Constraint):
    """Matrices with zeros above the diagonal."""

    event_dim = 2

    def check(self, value: Tensor) -> Tensor:
        return (value.tril() == value).flatten(-2).all(-1)


class _LowerCholesky(Constraint):
    """Lower triangular matrices with a positive diagonal."""

    event_dim = 2

    def check(self, value: Tensor) -> Tensor:
        triangular = (value.tril() == value).flatten(-2).all(-1)
        return triangular & (value.diagonal(dim1=-2, dim2=-1) > 0).all(-1)


class _CorrCholesky(Constraint):
    """Cholesky factors of correlation matrices: ``lower_cholesky`` with rows of norm 1."""

    event_dim = 2

    def check(self, value: Tensor) -> Tensor:
        # Rows have norm 1, within the rounding error of a sum of that many squares.
        slack = cograd.finfo(value.dtype).eps * value.size(-1) * 10
        unit = ((value.square().sum(-1) - 1).abs() <= slack).all(-1)
        return _LowerCholesky().check(value) & unit


class _Square(Constraint):
    """Matrices with equal numbers of rows and columns."""

    event_dim = 2

    def check(self, value: Tensor) -> Tensor:
        square = value.shape[-1] == value.shape[-2]
        return value.new_full(value.shape[:-2], square, dtype=cograd.bool)


class _Symmetric(_Square):
    """Square matrices that are ``isclose`` to their transpose at ``atol=1e-6``."""

    def check(self, value: Tensor) -> Tensor:
        square = super().check(value)
        if value.shape[-1] != value.shape[-2]:
            return square
        return cograd.isclose(value, value.mT, atol=1e-6).flatten(-2).all(-1)


class _PositiveSemidefinite(_Symmetric):
    """Symmetric matrices without negative eigenvalues."""

    def check(self, value: Tensor) -> Tensor:
        symmetric = super().check(value)
        if value.shape[-1] != value.shape[-2]:
            return symmetric
        return symmetric & (cograd.linalg.eigvalsh(value) >= 0).all(-1)


class _PositiveDefinite(_Symmetric):
    """Symmetric matrices that have a Cholesky factor."""

    def check(self, value: Tensor) -> Tensor:
        symmetric = super().check(value)
        if value.shape[-1] != value.shape[-2]:
            return symmetric
        return symmetric & (cograd.linalg.cholesky_ex(value).info == 0)


class _Joined(Constraint):
    """Constraints on parts of a value along ``dim``."""

    def __init__(self, cseq: Sequence[Any], dim: int) -> None:
        if not all(isinstance(c, Constraint) for c in cseq):
            kinds = sorted({type(c).__name__ for c in cseq})
            raise TypeError(f"cseq: expected a sequence of Constraints, got elements of {kinds}")
        self.cseq = list(cseq)
        self.dim = dim

    @property
    def is_discrete(self) -> bool:
        return any(c.is_discrete for c in self.cseq)


class _Cat(_Joined):
    """Parts of given ``lengths`` along ``dim``, each with its own constraint.

    Args:
        cseq: the constraints.
        dim: the dim along which values are divided.
        lengths: the sizes of the parts along ``dim``; 1 each by default.

    Raises:
        TypeError: an item of ``cseq`` is not a constraint.
        ValueError: the number of ``lengths`` does not fit.
    """

    def __init__(
        self, cseq: Sequence[Any], dim: int = 0, lengths: Sequence[int] | None = None
    ) -> None:
        super().__init__(cseq, dim)
        self.lengths = [1] * len(self.cseq) if lengths is None else list(lengths)
        if len(self.lengths) != len(self.cseq):
            raise ValueError(f"got {len(self.lengths)} lengths for {len(self.cseq)} constraints")

    @property
    def event_dim(self) -> int:
        return max(c.event_dim for c in self.cseq)

    def check(self, value: Tensor) -> Tensor:
        start, checks = 0, []
        for constraint, length in zip(self.cseq, self.lengths):
            checks.append(constraint.check(value.narrow(self.dim, start, length)))
            start += length
        return cograd.cat(checks, self.dim)


class _Stack(_Joined):
    """One slice along ``dim`` for each constraint.

    Args:
        cseq: the constraints.
        dim: the dim along which values are divided.

    Raises:
        TypeError: an item of ``cseq`` is not a constraint.
    """

    def __init__(self, cseq: Sequence[Any], dim: int = 0) -> None:
        super().__init__(cseq, dim)

    @property
    def event_dim(self) -> int:
        dim = max(c.event_dim for c in self.cseq)
        return dim + 1 if self.dim + dim < 0 else dim

    def check(self, value: Tensor) -> Tensor:
        parts = [value.select(self.dim, i) for i in range(value.size(self.dim))]
        return cograd.stack([c.check(v) for v, c in zip(parts, self.cseq)], self.dim)


#: A region that depends on other values; ``dependent(event_dim=1)`` adds what is known.
dependent = _Dependent()
#: ``dependent_property(is_discrete=..., event_dim=...)`` decorates a method of a distribution: it
#: becomes the constraint of an instance, and a dependent constraint on the class.
dependent_property = _DependentProperty
#: ``independent(base_constraint, reinterpreted_batch_ndims)``: treats the last batch dims of a
#: region as event dims.
independent = _IndependentConstraint
#: The two values 0 and 1.
boolean = _Boolean()
#: Vectors with a single 1 and zeros.
one_hot = _OneHot()
#: The integers 0, 1, ...
nonnegative_integer = _IntegerGreaterThan(0)
#: The integers 1, 2, ...
positive_integer = _IntegerGreaterThan(1)
#: ``integer_interval(lower_bound, upper_bound)``: the integers between, both bounds included.
integer_interval = _IntegerInterval
#: All real numbers and infinities, but not NaN.
real = _Real()
#: Vectors of real numbers.
real_vector = independent(real, 1)
#: The numbers greater than 0.
positive = _GreaterThan(0.0)
#: The numbers greater than or equal to 0.
nonnegative = _GreaterThanEq(0.0)
#: ``greater_than(lower_bound)``: the numbers greater than the bound.
greater_than = _GreaterThan
#: ``greater_than_eq(lower_bound)``: the numbers greater than or equal to the bound.
greater_than_eq = _GreaterThanEq
#: ``less_than(upper_bound)``: the numbers less than the bound.
less_than = _LessThan
#: ``multinomial(upper_bound)``: vectors of nonnegative numbers whose sum is at most the bound.
multinomial = _Multinomial
#: The numbers from 0 to 1, both included.
unit_interval = _Interval(0.0, 1.0)
#: ``interval(lower_bound, upper_bound)``: the numbers between, both bounds included.
interval = _Interval
#: ``half_open_interval(lower_bound, upper_bound)``: the same without the upper bound.
half_open_interval = _HalfOpenInterval
#: Vectors of nonnegative numbers whose sum is 1 within 1e-6.
simplex = _Simplex()
#: Matrices with zeros above the diagonal.
lower_triangular = _LowerTriangular()
#: Lower triangular matrices with a positive diagonal.
lower_cholesky = _LowerCholesky()
#: Cholesky factors of correlation matrices: ``lower_cholesky`` with rows of norm 1.
corr_cholesky = _CorrCholesky()
#: Matrices with equal numbers of rows and columns.
square = _Square()
#: Square matrices that are ``isclose`` to their transpose at ``atol=1e-6``.
symmetric = _Symmetric()
#: Symmetric matrices without negative eigenvalues.
positive_semidefinite = _PositiveSemidefinite()
#: Symmetric matrices that have a Cholesky factor.
positive_definite = _PositiveDefinite()
#: ``cat(cseq, dim=0, lengths=None)``: parts along ``dim``, of size 1 or ``lengths``, each with its
#: own constraint.
cat = _Cat
#: ``stack(cseq, dim=0)``: one slice along ``dim`` for each constraint.
stack = _Stack
