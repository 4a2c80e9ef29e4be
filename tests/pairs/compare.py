# SPDX-License-Identifier: BSD-3-Clause
"""Computes expected results by plain calls and plain backward, and compares results with them."""

import warnings
from functools import cached_property

import numpy as np

from pairs import functions
from pairs.package import T

SIZES = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)
HEAD = 6  # number of elements of each result that a Jacobian covers


class NoDerivative(Exception):
    """Raised if the plain call has no such derivative, so that there is nothing to compare with."""


class Differs(Exception):
    """Raised if a quantity is not as expected."""


def noise(shape, k, dtype=None):
    """Returns numbers in [-0.5, 0.5) that look random and are the same in every package."""
    n = int(np.prod(shape))
    x = np.sin(np.arange(n) * 12.9898 + (k + 1) * 78.233) * 43758.5453
    return T.tensor((x - np.floor(x) - 0.5).reshape(tuple(shape))).to(dtype or T.float64)


def weights(outs):
    return [noise(o.shape, i, o.dtype) for i, o in enumerate(outs)]


def directions(values):
    return tuple(noise(v.shape, 7 + i, v.dtype) for i, v in enumerate(values))


def loss_of(outs):
    """Returns a number that depends on every result."""
    return sum((o * w).sum() for o, w in zip(outs, weights(outs), strict=True))


def head(outs):
    """Returns the first elements of all results as one vector."""
    return T.cat([o.reshape(-1)[:HEAD] for o in outs])


def scribble():
    """Writes NaN into the memory that the next small tensors will get."""
    kept = [T.full((n,), float("nan"), dtype=T.float64) for n in SIZES * 4]
    del kept


def with_history(outs):
    found = [o for o in outs if o.requires_grad]
    if not found:
        raise NoDerivative("no result requires grad")
    return found


class Reference:
    """The quantities of the plain call. `make` returns a new case; `wrap` wraps its function."""

    def __init__(self, make, wrap=lambda case, f: f):
        self.make, self.wrap = make, wrap
        self.seconds, self.wanted = {}, {}

    def of(self, measure):
        """Returns what the measure is compared with, or the exception of the plain call."""
        if measure.name not in self.wanted:
            try:
                with functions.exact():
                    self.wanted[measure.name] = measure.want(self)
            except Exception as e:
                self.wanted[measure.name] = e.with_traceback(None)
        return self.wanted[measure.name]

    def _run(self):
        case = self.make()
        f = self.wrap(case, case.f)
        T.manual_seed(0)
        return case, f(*case.inputs)

    @cached_property
    def results(self):
        return {f"result {i}": o.detach() for i, o in enumerate(self._run()[1])}

    @cached_property
    def gradient(self):
        case, outs = self._run()
        leaves = case.leaves()
        with_history(outs)
        grads = T.autograd.grad(loss_of(outs), list(leaves.values()), allow_unused=True)
        return {f"gradient of {n}": g for n, g in zip(leaves, grads, strict=True)}

    @cached_property
    def jacobian(self):
        """The derivatives of the elements of head(), stacked, by name of the leaf."""
        case, outs = self._run()
        leaves, rows = case.leaves(), []
        whole = head(outs)
        with_history([whole])
        for i in range(whole.numel()):
            grads = T.autograd.grad(
                whole[i], list(leaves.values()), retain_graph=True, allow_unused=True
            )
            rows.append([filled(g, t) for g, t in zip(grads, leaves.values(), strict=True)])
        if not rows:
            raise NoDerivative("the results have no elements")
        return {n: T.stack([r[k] for r in rows]) for k, n in enumerate(leaves)}

    def second(self, count):
        """Returns H v for the first `count` leaves, where v is the direction in them."""
        if count not in self.seconds:
            self.seconds[count] = self._second(count)
        return self.seconds[count]

    def _second(self, count):
        case, outs = self._run()
        with_history(outs)
        leaves = dict(list(case.leaves().items())[:count])
        tensors = list(leaves.values())
        grads = T.autograd.grad(loss_of(outs), tensors, create_graph=True, allow_unused=True)
        slope = sum(
            (filled(g, t) * v).sum() for g, t, v in zip(grads, tensors, directions(tensors))
        )
        if not slope.requires_grad:
            return {f"gradient of {n}": T.zeros_like(t) for n, t in leaves.items()}
        grads = T.autograd.grad(slope, tensors, allow_unused=True)
        return {
            f"gradient of {n}": filled(g, t).detach()
            for (n, t), g in zip(leaves.items(), grads, strict=True)
        }


def filled(g, like):
    """Returns the gradient `g`, or zeros if it is None."""
    return T.zeros_like(like) if g is None else g


def array(value):
    value = value.detach()
    if value.dtype in (T.bfloat16, T.float16):
        value = value.to(T.float32)
    return np.asarray(
        value.numpy() if type(value) is T.Tensor else value.as_subclass(T.Tensor).numpy()
    )


def compare(got, want, tolerance):
    """Raises Differs if a quantity is not as expected; the message names the first one."""
    for name, value in want.items():
        if name not in got:
            raise Differs(f"{name}: absent")
        seen = got[name]
        if value is None or seen is None:
            present = value if value is not None else seen
            if present is not None and np.any(array(present) != 0):
                raise Differs(f"{name}: {brief(seen)}, expected {brief(value)}")
            continue
        a, b = array(seen), array(value)
        if a.shape != b.shape:
            raise Differs(f"{name}: shape {a.shape}, expected {b.shape}")
        finite = b[np.isfinite(b)]
        scale = max(1.0, float(np.abs(finite).max())) if finite.size else 1.0
        if not np.allclose(a, b, rtol=tolerance, atol=tolerance * scale, equal_nan=True):
            raise Differs(f"{name}: {brief(seen)}, expected {brief(value)}")


def distance(a, b):
    """The largest difference of two results' quantities, by the size of each quantity."""
    found = [0.0]
    for name, value in b.items():
        if value is not None and a.get(name) is not None and value.numel():
            x, y = array(a[name]).astype(float), array(value)
            found.append(np.nan_to_num(np.abs(x - y).max() / max(1.0, np.abs(y).max()), posinf=0))
    return float(max(found))


def brief(value):
    if value is None:
        return "none"
    text = np.array2string(array(value).reshape(-1)[:4], precision=5, separator=", ")
    return text if value.numel() <= 4 else text[:-1] + ", ...]"


class quiet(warnings.catch_warnings):
    """Suppresses warnings, because many features warn whenever they are used."""

    def __enter__(self):
        super().__enter__()
        warnings.simplefilter("ignore")
