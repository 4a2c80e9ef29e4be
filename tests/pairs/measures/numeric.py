# SPDX-License-Identifier: BSD-3-Clause
"""Finite differences in float64, which use no derivative formula."""

from pairs.compare import NoDerivative, directions, filled, loss_of, with_history
from pairs.measures import Measure
from pairs.package import T

STEP = 1e-6


def evaluate(case, step):
    """Returns the loss after all leaves have moved along the direction."""
    with T.no_grad():
        for t, v in zip(case.leaves().values(), directions(case.leaves().values()), strict=True):
            t.add_(v, alpha=step)
        T.manual_seed(0)
        outs = case.f(*case.inputs)
        if not outs:
            raise NoDerivative("no results")
        return loss_of(outs)


def gradient_at(case, step):
    with T.no_grad():
        for t, v in zip(case.leaves().values(), directions(case.leaves().values()), strict=True):
            t.add_(v, alpha=step)
    T.manual_seed(0)
    leaves = list(case.leaves().values())
    outs = case.f(*case.inputs)
    with_history(outs)
    return [
        filled(g, t)
        for g, t in zip(T.autograd.grad(loss_of(outs), leaves, allow_unused=True), leaves)
    ]


class Numeric(Measure):
    """Compares the gradient, or the derivative of the gradient, with finite differences."""

    exact = False

    def __init__(self, name, order):
        self.name, self.order, self.number = name, order, order == 1

    def refuses(self, case):
        return None if case.leaves() else "no tensors to differentiate by"

    def run(self, case, f):
        T.manual_seed(0)
        leaves = case.leaves()
        outs = f(*case.inputs)
        with_history(outs)
        x = list(leaves.values())
        grads = T.autograd.grad(loss_of(outs), x, create_graph=self.order == 2, allow_unused=True)
        slope = sum((filled(g, t) * v).sum() for g, t, v in zip(grads, x, directions(x)))
        if self.order == 1:
            return {"derivative": slope}
        if not slope.requires_grad:
            raise NoDerivative("the gradient does not require grad")
        second = T.autograd.grad(slope, x, allow_unused=True)
        return {f"gradient of {n}": filled(g, t) for (n, t), g in zip(leaves.items(), second)}

    def want(self, ref):
        if self.order == 1:
            ends = [evaluate(ref.make(), s) for s in (STEP, -STEP)]
            return {"derivative": (ends[0] - ends[1]) / (2 * STEP)}
        ref.second(None)  # raises where the plain call has none
        ends = [gradient_at(ref.make(), s) for s in (STEP, -STEP)]
        pairs = zip(ref.make().leaves(), *ends, strict=True)
        return {f"gradient of {n}": (a - b) / (2 * STEP) for n, a, b in pairs}


MEASURES = [Numeric("finite differences", 1), Numeric("finite differences of the gradient", 2)]
