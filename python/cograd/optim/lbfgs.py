# SPDX-License-Identifier: BSD-3-Clause
"""Limited-memory BFGS with a line search for the strong Wolfe conditions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import cograd
from cograd import Tensor

from ._options import number
from ._rule import Rule
from .optimizer import Optimizer, ParamsT

__all__ = ["LBFGS"]

_STATE = ("d", "t", "old_dirs", "old_stps", "ro", "H_diag", "prev_flat_grad", "prev_loss")


class _Point(NamedTuple):
    """A point of a line search: step length, loss, gradient and slope along the line."""

    t: Any
    loss: float
    grad: Tensor
    slope: Any


_Evaluate = Callable[[Any], _Point]


def _cubic_minimum(a: _Point, b: _Point, bounds: tuple[Any, Any] | None = None) -> Any:
    """Returns the minimum, within bounds, of the cubic through two points with their slopes."""
    low, high = bounds or (min(a.t, b.t), max(a.t, b.t))
    left, right = (a, b) if a.t <= b.t else (b, a)
    d1 = a.slope + b.slope - 3 * (a.loss - b.loss) / (a.t - b.t)
    square = d1**2 - a.slope * b.slope
    if not square >= 0:
        return (low + high) / 2.0
    d2 = square.sqrt()
    part = (right.slope + d2 - d1) / (right.slope - left.slope + 2 * d2)
    return min(max(right.t - (right.t - left.t) * part, low), high)


def _add_scaled(to: Tensor, x: Tensor, factor: Tensor) -> None:
    """Adds factor * x in one pass; a GPU does not wait for the factor's value."""
    if to.is_cuda:
        to.addcmul_(x, factor)
    else:
        to.add_(x, alpha=number(factor))


class _StrongWolfe:
    """Searches along a line for a point with a lower loss and a flatter slope.

    Nocedal and Wright, Numerical Optimization, algorithms 3.5 and 3.6.
    """

    def __init__(self, evaluate: _Evaluate, start: _Point, longest: Any, limit: int) -> None:
        self.evaluate = evaluate
        self.start = start
        self.longest = longest  # the largest element of the direction
        self.limit = limit
        self.count = 0  # number of points after the first

    def too_high(self, point: _Point) -> bool:
        """Returns whether the loss falls less than the initial slope requires."""
        return bool(point.loss > self.start.loss + 1e-4 * point.t * self.start.slope)

    def flat(self, point: _Point) -> bool:
        """Returns whether the slope is flat enough compared with the initial slope."""
        return bool(abs(point.slope) <= -0.9 * self.start.slope)

    def bracket(self, t: Any) -> tuple[list[_Point], bool]:
        """Returns two points with a good one in between and False, or the good one and True."""
        before, now = self.start, self.evaluate(t)
        while self.count < self.limit:
            if self.too_high(now) or (self.count > 1 and now.loss >= before.loss):
                return [before, now], False
            if self.flat(now):
                return [now], True
            if now.slope >= 0:
                return [before, now], False
            bounds = (now.t + 0.01 * (now.t - before.t), now.t * 10)
            t = _cubic_minimum(before, now, bounds)
            before, now = now, self.evaluate(t)
            self.count += 1
        return [self.start, now], False

    def run(self, t: Any) -> _Point:
        """Runs the search from a first guess and returns the point that it finds."""
        ends, done = self.bracket(t)
        low, high = (0, 1) if ends[0].loss <= ends[-1].loss else (1, 0)
        close = False  # whether the last guess was next to an end
        while not done and self.count < self.limit:
            first, last = sorted((ends[0].t, ends[1].t))
            if abs(last - first) * self.longest < 1e-9:  # as in torch, for any tolerance_change
                break
            t, margin = _cubic_minimum(ends[0], ends[1]), 0.1 * (last - first)
            if min(last - t, t - first) < margin:
                if close or t >= last or t <= first:
                    t = last - margin if abs(t - last) < abs(t - first) else first + margin
                    close = False
                else:
                    close = True
            else:
                close = False
            now = self.evaluate(t)
            self.count += 1
            if self.too_high(now) or now.loss >= ends[low].loss:
                ends[high] = now
                low, high = (0, 1) if ends[0].loss <= ends[1].loss else (1, 0)
                continue
            done = self.flat(now)
            if not done and now.slope * (ends[high].t - ends[low].t) >= 0:
                ends[high] = ends[low]
            ends[low] = now
        return ends[low]


class LBFGS(Optimizer):
    """L-BFGS: multiplies gradients by an inverse Hessian estimated from the last steps.

    Liu and Nocedal, On the Limited Memory BFGS Method for Large Scale Optimization (1989); the
    line search is that of Nocedal and Wright, Numerical Optimization, section 3.5. It keeps
    ``history_size + 1`` copies of all parameters, and supports only one group.

    Args:
        params: tensors or (name, tensor) pairs; complex ones count as pairs of reals.
        lr: the length of a step, or the first guess of the line search.
        max_iter: number of iterations of one ``step``.
        max_eval: number of closure calls in one ``step``; None means 5 / 4 of ``max_iter``.
        tolerance_grad: stops when no element of the gradient is larger.
        tolerance_change: stops when the loss or the parameters change less.
        history_size: number of steps to remember.
        line_search_fn: 'strong_wolfe' or None.

    Raises:
        ValueError: the learning rate is negative, or there are several groups.
    """

    _rule = Rule()

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1,
        max_iter: int = 20,
        max_eval: int | None = None,
        tolerance_grad: float = 1e-7,
        tolerance_change: float = 1e-9,
        history_size: int = 100,
        line_search_fn: str | None = None,
    ) -> None:
        if max_eval is None:
            max_eval = max_iter * 5 // 4
        super().__init__(params, self._rule.defaults(locals()))
        if len(self.param_groups) != 1:
            raise ValueError("LBFGS doesn't support per-parameter options (parameter groups)")
        self._params = self.param_groups[0]["params"]

    # The parameters as one vector. Subclasses may override these methods, which torch has.

    def _gather_flat_grad(self) -> Tensor:
        parts = []
        for p in self._params:
            grad = cograd.zeros_like(p) if p.grad is None else p.grad.to_dense()
            parts.append((cograd.view_as_real(grad) if grad.is_complex() else grad).reshape(-1))
        return cograd.cat(parts)

    def _clone_param(self) -> list[Tensor]:
        return [p.clone() for p in self._params]

    def _set_param(self, params_data: list[Tensor]) -> None:
        for p, old in zip(self._params, params_data):
            p.copy_(old)

    def _directional_evaluate(
        self, closure: Callable[[], Any], x: list[Tensor], t: Any, d: Tensor
    ) -> tuple[float, Tensor]:
        """Returns loss and gradient at x + t d; the parameters, which are x, stay the same."""
        self._add_grad(t, d)
        loss = float(closure())
        grad = self._gather_flat_grad()
        self._set_param(x)
        return loss, grad

    def _add_grad(self, t: Any, direction: Tensor) -> None:
        start = 0
        for p in self._params:
            p = cograd.view_as_real(p) if p.is_complex() else p
            part = direction[start : start + p.numel()]
            p.add_(part.view(p.shape), alpha=number(t))
            start += p.numel()

    def _search(
        self,
        closure: Callable[[], Any],
        t: Any,
        d: Tensor,
        longest: Tensor,
        start: _Point,
        limit: int,
    ) -> tuple[_Point, int]:
        """Returns the point that the line search finds, and how often it called the closure."""
        group = self.param_groups[0]
        if group["line_search_fn"] != "strong_wolfe":
            raise RuntimeError("only 'strong_wolfe' is supported")
        at = self._clone_param()

        def evaluate(t: Any) -> _Point:
            loss, grad = self._directional_evaluate(closure, at, t, d)
            return _Point(t, loss, grad, grad.dot(d))

        search = _StrongWolfe(evaluate, start, longest, limit)
        return search.run(t), search.count + 1

    def _direction(self, state: dict[str, Any], grad: Tensor) -> Tensor:
        """Returns minus the inverse Hessian, updated by the last step, times the gradient."""
        if state["n_iter"] == 1:
            state.update(old_dirs=[], old_stps=[], ro=[], H_diag=1)
            return grad.neg()
        dirs, steps, ro = state["old_dirs"], state["old_stps"], state["ro"]
        size = self.param_groups[0]["history_size"]
        change, step = grad.sub(state["prev_flat_grad"]), state["d"].mul(state["t"])
        curvature = change.dot(step)
        if curvature > 1e-10:
            if len(dirs) == size:
                for history in (dirs, steps, ro):
                    history.pop(0)
            dirs.append(change)
            steps.append(step)
            ro.append(1.0 / curvature)
            state["H_diag"] = curvature / change.dot(change)
        al = state.setdefault("al", [None] * size)
        d = grad.neg()
        for i in range(len(dirs) - 1, -1, -1):
            al[i] = steps[i].dot(d) * ro[i]
            _add_scaled(d, dirs[i], -al[i])
        d = d.mul(state["H_diag"])
        for i in range(len(dirs)):
            _add_scaled(d, steps[i], al[i] - dirs[i].dot(d) * ro[i])
        return d

    @cograd.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Runs up to ``max_iter`` iterations.

        Args:
            closure: recomputes the loss and its gradients, and returns the loss.

        Returns:
            the first loss.
        """
        if closure is None:
            raise TypeError("LBFGS.step() missing 1 required positional argument: 'closure'")
        assert len(self.param_groups) == 1, "LBFGS has one parameter group"
        with_grad = cograd.enable_grad()(closure)
        group = self.param_groups[0]
        self._params = group["params"]
        state = self.state[self._params[0]]
        state.setdefault("func_evals", 0)
        state.setdefault("n_iter", 0)
        fresh = "d" not in state
        first = with_grad()
        state["func_evals"] += 1
        grad = self._gather_flat_grad()
        if grad.abs().max() <= group["tolerance_grad"]:
            return first
        self._iterate(with_grad, float(first), grad, state)
        if fresh:  # torch's order of keys, in which state dicts print
            for key in filter(state.__contains__, _STATE):
                state[key] = state.pop(key)
        return first

    def _iterate(
        self, closure: Callable[[], Any], loss: float, grad: Tensor, state: dict[str, Any]
    ) -> None:
        group = self.param_groups[0]
        lr, max_iter, least = number(group["lr"]), group["max_iter"], group["tolerance_change"]
        evals = 1
        for i in range(1, max_iter + 1):
            state["n_iter"] += 1
            d = state["d"] = self._direction(state, grad)
            state["prev_flat_grad"] = grad.clone()
            state["prev_loss"] = loss
            guess = min(1.0, 1.0 / grad.abs().sum()) * lr if state["n_iter"] == 1 else lr
            t = state["t"] = guess
            slope = grad.dot(d)
            if slope > -least:
                break
            used, longest = 0, d.abs().max()
            if group["line_search_fn"] is not None:
                start = _Point(0, loss, grad, slope)
                found, used = self._search(closure, t, d, longest, start, group["max_eval"] - evals)
                t, loss, grad = found.t, found.loss, found.grad
                state["t"] = t
                self._add_grad(t, d)
            else:
                self._add_grad(t, d)
                if i != max_iter:
                    loss, used = float(closure()), 1
                    grad = self._gather_flat_grad()
            evals += used
            state["func_evals"] += used
            if i == max_iter or evals >= group["max_eval"]:
                break
            if grad.abs().max() <= group["tolerance_grad"]:
                break
            if longest.mul(t).abs() <= least or abs(loss - state["prev_loss"]) < least:
                break
