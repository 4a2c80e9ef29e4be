# SPDX-License-Identifier: BSD-3-Clause
"""vmap of every op with samples against the loop over the samples, and its derivatives."""

import warnings

import pytest
from op_checks import constants_of
from op_table import F8, OPS, TABLE, arguments, call, has_derivative, is_float, results, samples_of
from op_table import tensors_in, tree_map

import cograd as torch
from cograd.autograd import forward_ad as fwd
from cograd.autograd import grad
from cograd.func import vmap

SIZE = 3
CASES = [
    pytest.param(r, s, id=f"{r['name']}({s})")
    for r in TABLE
    if r["kind"] != "random" and r["name"] not in ("empty_like", "new_empty", "new_empty_strided")
    for s in samples_of(r)
]
DERIVATIVES = [c for c in CASES if c.values[0]["differentiable"] and has_derivative(c.values[1])]


class Samples:
    """One sample of an op as a function of its tensors, of which some differ by vmap's sample."""

    def __init__(self, record, sample, floats_only=True):
        self.f = OPS.function(record)
        self.args, self.kwargs = arguments(record, sample)
        self.values = []
        for t in tensors_in((self.args, self.kwargs)):
            known = any(t is v for v in self.values)
            if not known and (t.dtype is F8 or not floats_only):
                self.values.append(t)
        self.where = {id(t): i for i, t in enumerate(self.values)}
        # Every sample is a valid argument where the given one is.
        self.batched = [
            torch.stack([self.variant(v, k) for k in range(SIZE)], min(d, v.dim()))
            for d, v in zip([0, 1, 0, 0, 1, 0], self.values, strict=False)
        ]
        self.dims = [min(d, v.dim()) for d, v in zip([0, 1, 0, 0, 1, 0], self.values, strict=False)]
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
            b.select(d, k) if i in which else v
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


@pytest.mark.parametrize("record,sample", CASES)
def test_vmap_is_the_loop(record, sample):
    p = Samples(record, sample)
    if not p.values:
        pytest.skip("the sample has no float64 tensor")
    for which in subsets(len(p.values)):
        want = reference(p, which, p)
        if not want:
            pytest.skip("the op returns no tensor")
        values, dims = p.mixed(which)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                got = vmap(p, dims)(*values)
        except RuntimeError as e:
            if "vmap: It looks like" in str(e) or "gives a Python number" in str(e):
                pytest.skip(f"the op needs values: {e}")
            raise
        for a, b in zip(got, want, strict=True):
            close(a, b, f"{record['name']}({sample})")


def floats(outputs):
    return [o for o in outputs if is_float(o)]


def gradients(p):
    def run(*values):
        leaves = [
            torch._C._input_of_grad(v, True)[0] if p.differentiable[i] else v
            for i, v in enumerate(values)
        ]
        used = [o for o in floats(p(*leaves)) if o.requires_grad]
        wanted = [v for i, v in enumerate(leaves) if p.differentiable[i]]
        if not used:
            return tuple(torch.zeros_like(w) for w in wanted)
        found = grad([(o * o).sum() for o in used], wanted, allow_unused=True)
        return tuple(
            torch.zeros_like(w.detach()) if g is None else g
            for g, w in zip(found, wanted, strict=True)
        )

    return run


@pytest.mark.parametrize("record,sample", DERIVATIVES)
def test_vmap_of_grad(record, sample):
    p = Samples(record, sample)
    if not any(p.differentiable):
        pytest.skip("nothing to differentiate by")
    which = tuple(range(len(p.values)))
    run = gradients(p)
    want = reference(p, which, run)
    values, dims = p.mixed(which)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            got = vmap(run, dims)(*values)
        except RuntimeError as e:
            if "vmap: It looks like" in str(e):
                pytest.skip(f"the op needs values: {e}")
            raise
    for a, b in zip(got, want, strict=True):
        close(a, b)


def tangents(p):
    def run(*values):
        with fwd.dual_level():
            duals = [
                fwd.make_dual(v, (v * 0.5).cos()) if p.differentiable[i] else v
                for i, v in enumerate(values)
            ]
            pairs = [fwd.unpack_dual(o) for o in floats(p(*duals))]
            return tuple(torch.zeros_like(v) if t is None else t for v, t in pairs)

    return run


@pytest.mark.parametrize("record,sample", DERIVATIVES)
def test_vmap_of_jvp(record, sample):
    p = Samples(record, sample)
    if not any(p.differentiable):
        pytest.skip("nothing to differentiate by")
    which = tuple(range(len(p.values)))
    run = tangents(p)
    want = reference(p, which, run)
    values, dims = p.mixed(which)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            got = vmap(run, dims)(*values)
        except RuntimeError as e:
            if "vmap: It looks like" in str(e):
                pytest.skip(f"the op needs values: {e}")
            raise
    for a, b in zip(got, want, strict=True):
        close(a, b)


@pytest.mark.parametrize("record,sample", DERIVATIVES)
def test_batched_gradients(record, sample):
    """Many gradients for one graph at once: rows of a Jacobian."""
    p = Samples(record, sample)
    leaves = [
        v.detach().requires_grad_() if d else v
        for v, d in zip(p.values, p.differentiable, strict=True)
    ]
    wanted = [v for v, d in zip(leaves, p.differentiable, strict=True) if d]
    used = [o for o in floats(p(*leaves)) if o.requires_grad]
    if not used:
        pytest.skip("nothing that depends on a float64 tensor")
    generator = torch.Generator().manual_seed(3)
    rows = [
        torch.randn((SIZE, *o.shape), dtype=torch.float64, generator=generator).to(o.dtype)
        for o in used
    ]

    def pull(*g):
        found = grad(used, wanted, g, retain_graph=True, allow_unused=True)
        return tuple(
            torch.zeros(w.shape, dtype=w.dtype) if x is None else x
            for x, w in zip(found, wanted, strict=True)
        )

    want = [
        torch.stack(list(c))
        for c in zip(*(pull(*(r[k] for r in rows)) for k in range(SIZE)), strict=True)
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        got = vmap(pull)(*rows)
    for a, b in zip(got, want, strict=True):
        close(a, b)


@pytest.mark.parametrize("record,sample", DERIVATIVES)
def test_batched_tangents(record, sample):
    """Many tangents of one point at once: columns of a Jacobian."""
    p = Samples(record, sample)
    if not any(p.differentiable):
        pytest.skip("nothing to differentiate by")
    generator = torch.Generator().manual_seed(4)
    columns = [
        torch.randn((SIZE, *v.shape), dtype=torch.float64, generator=generator).to(v.dtype)
        for v, d in zip(p.values, p.differentiable, strict=True)
        if d
    ]

    def push(*t):
        rest = iter(t)
        with fwd.dual_level():
            duals = [
                fwd.make_dual(v, next(rest)) if d else v
                for v, d in zip(p.values, p.differentiable, strict=True)
            ]
            pairs = [fwd.unpack_dual(o) for o in floats(p(*duals))]
            return tuple(torch.zeros_like(v) if x is None else x for v, x in pairs)

    want = [
        torch.stack(list(c))
        for c in zip(*(push(*(x[k] for x in columns)) for k in range(SIZE)), strict=True)
    ]
    if not want:
        pytest.skip("no result is floating")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        got = vmap(push)(*columns)
    for a, b in zip(got, want, strict=True):
        close(a, b)
