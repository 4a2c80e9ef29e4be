# SPDX-License-Identifier: BSD-3-Clause
"""Forward mode of every op with samples, compared with double VJP, differences, reverse mode."""

import pytest
from op_checks import constants_of
from op_items import each_sample
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
from cograd.autograd import forward_ad as fwd
from cograd.autograd import grad

CASES = [
    pytest.param(r, s, id=f"{r['name']}({s})")
    for r in TABLE
    if r["differentiable"]
    for s in samples_of(r)
    if has_derivative(s)
]


class Program:
    """One sample as a function of its float64 tensors, with a direction for each one."""

    def __init__(self, record, sample):
        self.f = OPS.function(record)
        self.args, self.kwargs = arguments(record, sample)
        constants = constants_of(record, self.args)
        self.values = []
        for t in tensors_in((self.args, self.kwargs)):
            if t.dtype is F8 and id(t) not in constants and all(t is not v for v in self.values):
                self.values.append(t)
        self.where = {id(t): i for i, t in enumerate(self.values)}
        generator = torch.Generator().manual_seed(7)
        self.directions = [torch.randn(v.shape, dtype=F8, generator=generator) for v in self.values]

    def __call__(self, *values):
        a, k = tree_map(
            lambda t: values[self.where[id(t)]] if id(t) in self.where else t,
            (self.args, self.kwargs),
        )
        return [r for r in results(call(self.f, a, k)) if is_float(r)]

    def tangents(self, values):
        with fwd.dual_level():
            duals = [fwd.make_dual(v, t) for v, t in zip(values, self.directions, strict=True)]
            return [fwd.unpack_dual(o) for o in self(*duals)]


def program(record, sample):
    p = Program(record, sample)
    if not p.values:
        pytest.skip("the sample has no float64 tensor to differentiate by")
    if not p(*p.values):
        pytest.skip("the sample's results are integers, which have no tangent")
    return p


def or_zeros(t, like):
    return torch.zeros(like.shape, dtype=like.dtype) if t is None else t


def double_vjp(p):
    leaves = [v.detach().requires_grad_() for v in p.values]
    outputs = p(*leaves)
    used = [o for o in outputs if o.requires_grad]
    if not used:
        return [torch.zeros(o.shape, dtype=o.dtype) for o in outputs]
    u = [torch.ones(o.shape, dtype=o.dtype).requires_grad_() for o in used]
    h = grad(used, leaves, u, create_graph=True, allow_unused=True)
    pairs = [(a, t) for a, t in zip(h, p.directions, strict=True) if a is not None]
    pairs = [(a, t.to(a.dtype)) for a, t in pairs if a.requires_grad]
    found = [None] * len(u)
    if pairs:
        found = grad([a for a, _ in pairs], u, [t for _, t in pairs], allow_unused=True)
    by_output = dict(zip([id(o) for o in used], found, strict=True))
    return [or_zeros(by_output.get(id(o)), o.detach()) for o in outputs]


def close(a, b, rtol, atol):
    torch.testing.assert_close(a.double(), b.double(), rtol=rtol, atol=atol, equal_nan=True)


@each_sample(CASES)
def test_tangent_is_the_double_vjp(record, sample):
    p = program(record, sample)
    plain = p(*p.values)
    got = p.tangents(p.values)
    for (value, tangent), want, output in zip(got, double_vjp(p), plain, strict=True):
        close(value, output, rtol=1e-12, atol=1e-12)
        assert not value.requires_grad
        assert tangent is None or not tangent.requires_grad
        eps = torch.finfo(output.dtype).eps
        close(or_zeros(tangent, output), want, rtol=100 * eps, atol=100 * eps)


@each_sample(CASES)
def test_tangent_is_the_difference(record, sample):
    p = program(record, sample)
    got = p.tangents(p.values)
    if any(v.dtype is not F8 for v, _ in got):
        pytest.skip("the results are not float64: differences say little")
    step = 1e-6
    shifted = [
        p(*[v + s * step * t for v, t in zip(p.values, p.directions, strict=True)]) for s in (1, -1)
    ]
    for (value, tangent), high, low in zip(got, *shifted, strict=True):
        want = (high.detach() - low.detach()) / (2 * step)
        tangent = or_zeros(tangent, value)
        scale = 1 + tangent.abs().max().item() if tangent.numel() else 1
        close(tangent, want, rtol=1e-4, atol=1e-4 * scale)


@each_sample(CASES)
def test_reverse_over_forward_is_forward_over_reverse(record, sample):
    """The gradient of <u, tangent> is the tangent of the gradient of <u, output>."""
    p = program(record, sample)
    leaves = [v.detach().requires_grad_() for v in p.values]
    with fwd.dual_level():
        duals = [fwd.make_dual(v, t) for v, t in zip(leaves, p.directions, strict=True)]
        outputs = p(*duals)
        unpacked = [fwd.unpack_dual(o) for o in outputs]
        roots = [t for _, t in unpacked if t is not None and t.requires_grad]
        over_forward = [None] * len(leaves)
        if roots:
            over_forward = grad(
                roots,
                leaves,
                [torch.ones_like(t) for t in roots],
                retain_graph=True,
                allow_unused=True,
            )
        used = [o for o in outputs if o.requires_grad]
        over_reverse = [None] * len(leaves)
        if used:
            ones = [torch.ones(o.shape, dtype=o.dtype) for o in used]
            found = grad(used, leaves, ones, allow_unused=True)
            over_reverse = [None if g is None else fwd.unpack_dual(g).tangent for g in found]
        over_forward = [None if g is None else fwd.unpack_dual(g).primal for g in over_forward]
    for a, b, v in zip(over_forward, over_reverse, p.values, strict=True):
        a, b = or_zeros(a, v), or_zeros(b, v)
        scale = 1 + (a.abs().max().item() if a.numel() and a.isfinite().all() else 0)
        close(a, b, rtol=1e-6, atol=1e-6 * scale)


@pytest.mark.parametrize("recording", [True, False], ids=["", "no_grad"])
@each_sample([c for c in CASES if c.values[0]["inplace"]])
def test_in_place_forms_write_the_tangent(record, sample, recording):
    p = program(record, sample)
    first = p.args[0] if p.args else None
    if first is None or id(first) not in p.where:
        pytest.skip("the first argument is not differentiated")
    inplace = getattr(torch.Tensor, record["name"] + "_", None)
    if inplace is None:
        pytest.skip("there is no method of this name")
    (value, want), *_ = p.tangents(p.values)
    if value.shape != first.shape or value.dtype is not first.dtype:
        pytest.skip("the result does not fit the first argument")
    with fwd.dual_level(), torch.set_grad_enabled(recording):
        duals = [
            fwd.make_dual(v.clone(), t.clone()) for v, t in zip(p.values, p.directions, strict=True)
        ]
        args, kwargs = tree_map(
            lambda t: duals[p.where[id(t)]] if id(t) in p.where else t, (p.args, p.kwargs)
        )
        target = args[0]
        kept = fwd.unpack_dual(target).tangent
        view = target.view(-1) if target.is_contiguous() else None
        try:
            inplace(target, *args[1:], **kwargs)
        except (RuntimeError, TypeError) as e:
            pytest.skip(f"the sample has no in-place form: {e}")
        got_value, got = fwd.unpack_dual(target)
        close(got_value, value, 1e-12, 1e-12)
        close(got, or_zeros(want, value), 1e-12, 1e-12)
        assert got is kept  # written in place: its views see that
        if view is not None:
            close(fwd.unpack_dual(view).tangent, got.view(-1), 0, 0)


@each_sample(
    [
        c
        for c in CASES
        if c.values[0]["kind"] in ("elementwise", "reduction", "contraction", "view", "shape")
    ]
)
def test_levels_nest(record, sample):
    """The second derivative along a line, by two levels, is the difference of first derivatives."""
    p = program(record, sample)
    with fwd.dual_level():
        outer = [fwd.make_dual(v, t) for v, t in zip(p.values, p.directions, strict=True)]
        with fwd.dual_level():
            inner = [fwd.make_dual(v, t) for v, t in zip(outer, p.directions, strict=True)]
            firsts = [fwd.unpack_dual(o).tangent for o in p(*inner)]
        seconds = [None if t is None else fwd.unpack_dual(t).tangent for t in firsts]
    step = 1e-6
    high, low = (
        p.tangents([v + s * step * t for v, t in zip(p.values, p.directions, strict=True)])
        for s in (1, -1)
    )
    for second, (value, h), (_, low_t) in zip(seconds, high, low, strict=True):
        if value.dtype is not F8:
            continue
        want = (or_zeros(h, value) - or_zeros(low_t, value)) / (2 * step)
        second = or_zeros(second, value)
        scale = 1 + second.abs().max().item() if second.numel() else 1
        close(second, want, rtol=1e-4, atol=1e-4 * scale)


def test_a_tangent_is_not_lost_in_a_number():
    x, q, one = torch.tensor([1.0, 3.0]), torch.tensor(0.25), torch.tensor(1.0)
    for f in (torch.quantile, torch.nanquantile):
        assert torch.func.jvp(lambda q, f=f: f(x, q), (q,), (one,))[1].item() == 2.0
    taken = [
        lambda q: torch.add(x, x, alpha=q),
        lambda q: torch.full((2,), q),
        lambda q: torch.linspace(0, q, 3),
        lambda q: torch.nn.functional.leaky_relu(x, q),
        lambda q: torch.nn.functional.layer_norm(x, (2,), eps=q),
    ]
    for f in taken:
        f(q)  # as a number
        with pytest.raises(TypeError, match="does not take"):
            torch.func.jvp(f, (q,), (one,))
