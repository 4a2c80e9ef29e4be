# SPDX-License-Identifier: BSD-3-Clause
"""Runs passes that return what they changed, checked against constraints on their order."""

from __future__ import annotations

import functools
import inspect
import logging
from collections.abc import Callable
from typing import Any

from cograd.fx.passes.infra.pass_manager import _check, this_before_that_pass_constraint

__all__ = [
    "PassManager",
    "inplace_wrapper",
    "log_hook",
    "loop_pass",
    "these_before_those_pass_constraint",
    "this_before_that_pass_constraint",
]

logger = logging.getLogger(__name__)
_Pass = Callable[..., Any]


def inplace_wrapper(fn: _Pass) -> _Pass:
    """Returns a pass that returns its first argument, which ``fn`` changes."""

    @functools.wraps(fn)
    def wrapped(gm: Any, *args: Any, **kwargs: Any) -> Any:
        fn(gm, *args, **kwargs)
        return gm

    return wrapped


def log_hook(fn: _Pass, level: int = logging.INFO) -> _Pass:
    """Returns a pass that logs what ``fn`` returns."""

    @functools.wraps(fn)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        result = fn(*args, **kwargs)
        logger.log(level, "Ran pass %s\t Return value: %s", fn, result)
        return result

    return wrapped


def loop_pass(
    base_pass: _Pass, n_iter: int | None = None, predicate: Callable[[Any], bool] | None = None
) -> _Pass:
    """Returns a pass that runs ``base_pass`` so many times, or while ``predicate`` is true."""
    if (n_iter is None) == (predicate is None):
        raise AssertionError("Exactly one of `n_iter` or `predicate` must be specified.")

    @functools.wraps(base_pass)
    def looped(source: Any) -> Any:
        if predicate is not None:
            while predicate(source):
                source = base_pass(source)
            return source
        if n_iter is None or n_iter < 1:
            raise RuntimeError(f"loop_pass must be given positive int n_iter (given {n_iter})")
        for _ in range(n_iter):
            source = base_pass(source)
        return source

    return looped


def these_before_those_pass_constraint(
    these: _Pass, those: _Pass
) -> Callable[[_Pass, _Pass], bool]:
    """Returns the constraint that ``these`` come before ``those``, also if they are wrapped."""
    return lambda a, b: inspect.unwrap(a) != those or inspect.unwrap(b) != these


class PassManager:
    """Runs passes, each of which gets what the one before it returned.

    Args:
        passes: functions that return the changed object.
        constraints: functions of two passes: False if the second one must come first.
    """

    _validated = False

    def __init__(
        self, passes: list[_Pass] | None = None, constraints: list[Any] | None = None
    ) -> None:
        self.passes, self.constraints = passes or [], constraints or []

    @classmethod
    def build_from_passlist(cls, passes: list[_Pass]) -> PassManager:
        """Returns a manager of these passes."""
        return PassManager(passes)

    def add_pass(self, _pass: _Pass) -> None:
        """Adds a pass."""
        self.passes.append(_pass)
        self._validated = False

    def add_constraint(self, constraint: Any) -> None:
        """Adds a constraint."""
        self.constraints.append(constraint)
        self._validated = False

    def remove_pass(self, _passes: list[str]) -> None:
        """Removes the passes of these names."""
        self.passes = [p for p in self.passes if p.__name__ not in (_passes or ())]
        self._validated = False

    def replace_pass(self, _target: _Pass, _replacement: _Pass) -> None:
        """Replaces the passes that have the name of ``_target``."""
        self.passes = [_replacement if p.__name__ == _target.__name__ else p for p in self.passes]
        self._validated = False

    def validate(self) -> None:
        """Raises RuntimeError if the passes are not in an order that the constraints allow."""
        if not self._validated:
            for constraint in self.constraints:
                _check(constraint, self.passes)
        self._validated = True

    def __call__(self, source: Any) -> Any:
        """Returns what the last pass returns."""
        self.validate()
        for fn in self.passes:
            source = fn(source)
        return source
