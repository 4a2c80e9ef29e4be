# SPDX-License-Identifier: BSD-3-Clause
"""Runs passes that return PassResult, in an order that satisfies constraints."""

from __future__ import annotations

import functools
import inspect
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from cograd import nn
from cograd.fx.graph_module import GraphModule
from cograd.fx.passes.infra.pass_base import PassResult

__all__ = ["PassManager", "pass_result_wrapper", "this_before_that_pass_constraint"]

_Pass = Callable[..., Any]
_Constraint = Callable[[_Pass, _Pass], bool]


def pass_result_wrapper(fn: _Pass) -> _Pass:
    """Returns a pass that returns PassResult for what ``fn`` returns: a module, or None."""
    if fn is None:
        return fn

    @functools.wraps(fn)
    def wrapped(gm: nn.Module) -> PassResult | None:
        result = fn(gm)
        if result is None:
            return PassResult(gm, True)
        if isinstance(result, nn.Module):
            return PassResult(result, True)
        return result if isinstance(result, PassResult) else None

    if not inspect.isfunction(fn):
        wrapped.__name__ = type(fn).__name__
    return wrapped


def this_before_that_pass_constraint(this: _Pass, that: _Pass) -> _Constraint:
    """Returns a constraint: False for a pass ``that`` that comes before ``this``."""
    return lambda a, b: a != that or b != this


def _check(constraint: _Constraint, passes: Sequence[_Pass]) -> None:
    for i, a in enumerate(passes):
        for j in range(i + 1, len(passes)):
            if not constraint(a, passes[j]):
                raise RuntimeError(
                    f"pass schedule constraint violated. Expected {passes[j]} before {a} but found "
                    f"{a} at index {i} and {passes[j]} at index {j} in pass list."
                )


def _in_order(passes: Sequence[_Pass], constraints: Sequence[_Constraint]) -> list[_Pass]:
    """Returns the passes in an order that all constraints allow."""
    if not constraints:
        return list(passes)

    def first(b: _Pass, a: _Pass) -> bool:
        return a != b and not all(allows(a, b) for allows in constraints)

    waits = {a: [b for b in passes if first(b, a)] for a in passes}
    ready = deque(a for a in passes if not waits[a])
    done: list[_Pass] = []
    while ready:
        done.append(ready.popleft())
        for a in passes:
            if done[-1] in waits[a]:
                waits[a] = [b for b in waits[a] if b != done[-1]]
                if not waits[a]:
                    ready.append(a)
    cycle = [a for a in waits if waits[a]]
    if cycle:
        raise RuntimeError(f"Circular dependency detected within the following passes: {cycle}")
    return done


def _name(fn: _Pass) -> str:
    return fn.__name__ if inspect.isfunction(fn) else type(fn).__name__


class PassManager:
    """Runs passes, each of which returns a PassResult.

    Args:
        passes: functions of a module, or instances of PassBase.
        constraints: functions of two passes: False if the second one must come first.
        steps: repeats the passes until none changes the module, but at most so many times.
        run_checks_after_each_pass: calls ``check`` after each pass, too.
        suppress_check_failures: no effect, as in torch.
    """

    _validated = False
    steps = 1

    def __init__(
        self,
        passes: list[_Pass] | None = None,
        constraints: list[_Constraint] | None = None,
        steps: int | None = None,
        run_checks_after_each_pass: bool = False,
        suppress_check_failures: bool = False,
    ) -> None:
        self.passes, self.constraints = passes or [], constraints or []
        self.steps = steps or self.steps
        self.run_checks_after_each_pass = run_checks_after_each_pass
        self.suppress_check_failures = suppress_check_failures

    def add_pass(self, _pass: _Pass) -> None:
        """Adds a pass."""
        self.passes.append(_pass)
        self._validated = False

    def add_constraint(self, constraint: _Constraint) -> None:
        """Adds a constraint."""
        self.constraints.append(constraint)
        self._validated = False

    def validate_constraints(self) -> None:
        """Raises RuntimeError if the passes are not in an order that the constraints allow."""
        if not self._validated:
            for constraint in self.constraints:
                _check(constraint, self.passes)
        self._validated = True

    def solve_constraints(self) -> None:
        """Puts the passes in order; raises RuntimeError if there is none."""
        self.passes = _in_order(self.passes, self.constraints)
        self._validated = True

    def add_checks(self, check: Callable[[nn.Module], None]) -> None:
        """Sets the function that checks the module before the passes."""
        if len(inspect.signature(check).parameters) != 1:
            raise TypeError("PassManager check function should only take in one variable, a module")
        vars(self)["check"] = check

    def check(self, module: nn.Module) -> None:
        """Does nothing; ``add_checks`` replaces it."""

    def __call__(self, module: nn.Module) -> PassResult:
        """Runs the passes and returns the module and whether it changed."""
        if not self._validated:
            self.solve_constraints()
        self.check(module)
        changed = False
        for _ in range(self.steps):
            module, modified = self._run(module)
            changed = changed or modified
            if not modified:
                break
        return PassResult(module, changed)

    def _run(self, module: nn.Module) -> tuple[nn.Module, bool]:
        modified = False
        for i, fn in enumerate(self.passes):
            try:
                result = fn(module)
                if not hasattr(result, "graph_module"):
                    raise TypeError(
                        f"The result of the pass {_name(fn)} should be type PassResult, got "
                        f"{type(result).__name__}. Please wrap it with pass_result_wrapper()"
                    )
                module, modified = result.graph_module, modified or result.modified
                if isinstance(module, GraphModule):
                    module.recompile()
                if self.run_checks_after_each_pass:
                    self.check(module)
            except Exception as error:
                before = [_name(p) for p in self.passes[:i]]
                raise Exception(  # as in torch
                    f"An error occurred when running the '{_name(fn)}' pass after the following "
                    f"passes: {before}"
                ) from error
        return module, modified
