# SPDX-License-Identifier: BSD-3-Clause
"""The op table's samples as functions of a batch of samples; the tests of vmap use it."""

import itertools

import pytest
from op_checks import constants_of
from op_table import (
    F8,
    OPS,
    TABLE,
    arguments,
    call,
    has_derivative,
    is_float,
    results,
    samples_of,
    tensors_in,
    tree_map,
)

import cograd as torch

SIZE = 3
CASES = [
    pytest.param(r, s, id=f"{r['name']}({s})")
    for r in TABLE
    if r["kind"] != "random" and r["name"] not in ("empty_like", "new_empty", "new_empty_strided")
    for s in samples_of(r)
]
DERIVATIVES = [c for c in CASES if c.values[0]["differentiable"] and has_derivative(c.values[1])]


def turns():
    """Returns the batch dims of each tensor."""
    return itertools.cycle([0, 1, 0, 0, 1, 0])


class Samples:
    """One sample of an op as a function of its tensors, some of which have a batch dim."""

    def __init__(self, record, sample, floats_only=True):
        self.f = OPS.function(record)
        self.args, self.kwargs = arguments(record, sample)
        self.values = []
        for t in tensors_in((self.args, self.kwargs)):
            known = any(t is v for v in self.values)
            if not known and (t.dtype is F8 or not floats_only):
                self.values.append(t)
        self.where = {id(t): i for i, t in enumerate(self.values)}
        # Each element of the batch is a valid argument if the given sample is valid.
        self.batched = [
            torch.stack([self.variant(v, k) for k in range(SIZE)], min(d, v.dim()))
            for d, v in zip(turns(), self.values, strict=False)
        ]
        self.dims = [min(d, v.dim()) for d, v in zip(turns(), self.values, strict=False)]
        constants = constants_of(record, self.args)
        self.differentiable = [v.dtype is F8 and id(v) not in constants for v in self.values]

    @staticmethod
    def variant(v, k):
        if v.dim() > 0 and v.shape[0] > 1 and (v.dim() < 2 or v.shape[0] != v.shape[1]):
            return v.roll(k, 0)
        return v.clone()

    def __call__(self, *values):
        a, k = tree_map(
            lambda t: values[self.where[id(t)]] if id(t) in self.where else t,
            (self.args, self.kwargs),
        )
        found = results(call(self.f, a, k))
        return tuple(r for r in found if isinstance(r, torch.Tensor))

    def sample(self, k, which):
        return [
            b.select(d, k).clone() if i in which else v
            for i, (v, b, d) in enumerate(zip(self.values, self.batched, self.dims, strict=True))
        ]

    def mixed(self, which):
        values = [
            b if i in which else v
            for i, (v, b) in enumerate(zip(self.values, self.batched, strict=True))
        ]
        dims = tuple(d if i in which else None for i, d in enumerate(self.dims))
        return values, dims


def close(a, b, label=""):
    if a.dtype.is_floating_point:
        eps = torch.finfo(a.dtype).eps
        torch.testing.assert_close(a, b, rtol=1e4 * eps, atol=1e4 * eps, equal_nan=True)
    else:
        assert torch.equal(a, b), label


def subsets(n):
    every = [tuple(range(n))] + [(i,) for i in range(n) if n > 1]
    return every[:4]


def reference(p, which, f):
    try:
        samples = [f(*p.sample(k, which)) for k in range(SIZE)]
    except RuntimeError as e:
        pytest.skip(f"a rolled sample is no valid argument: {e}")
    shapes = {tuple(o.shape for o in s) for s in samples}
    if len(shapes) > 1:
        pytest.skip("the result's shape depends on the values")
    return [torch.stack(list(c)) for c in zip(*samples, strict=True)]


def floats(outputs):
    return [o for o in outputs if is_float(o)]
