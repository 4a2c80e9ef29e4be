# SPDX-License-Identifier: BSD-3-Clause
"""Every record that claims complex dtypes, on its own samples made complex."""

import zlib

import numpy as np
import pytest
from op_items import each_sample
from op_table import (
    OPS,
    TABLE,
    call,
    environment,
    evaluate_ref,
    has_derivative,
    makers,
    results,
    samples_of,
    tree_map,
)

import cograd as torch
from cograd.autograd import gradcheck

C16 = torch.complex128
# Their refs do not apply to complex numbers.
NO_REF = {"sgn", "ldexp", "vdot", "linalg_matrix_norm", "bincount"}
# Their samples are random, or their result has no defined values.
NO_VALUES = {"dropout", "feature_dropout", "alpha_dropout", "feature_alpha_dropout"}


def complex_makers(seed):
    rng = np.random.default_rng(seed)

    def make(*shape, lo=-1, hi=1):
        parts = rng.uniform(lo, hi, shape) + 1j * rng.uniform(lo, hi, shape)
        return torch.tensor(parts, dtype=C16)

    def make_positive(*shape):
        return make(*shape) + 1.5

    def make_definite(*shape):
        """Returns Hermitian matrices with eigenvalues in [1, n + 1]."""
        x = make(*shape, shape[-1])
        return x @ x.mH / shape[-1] + torch.eye(shape[-1], dtype=C16)

    return makers(seed) | {"T": make, "P": make_positive, "S": make_definite}


def complex_arguments(record, sample):
    seed = zlib.crc32(f"complex {record['name']}({sample})".encode())
    env = environment() | complex_makers(seed)
    env["_call"] = lambda *args, **kwargs: (args, kwargs)
    return eval(f"_call({sample.removeprefix('~')})", env)


def tensors_in(value):
    found = []
    tree_map(lambda t: found.append(t) or t, value)
    return found


def has_complex(record, sample):
    try:
        return any(t.is_complex() for t in tensors_in(complex_arguments(record, sample)))
    except NotImplementedError:  # the sample sorts its tensors
        return False


def is_claimed(record, sample):
    if record["name"] == "scatter_reduce" and ("'amax'" in sample or "'amin'" in sample):
        return False
    return "complex128" in record["dtypes"]


def label(record, sample):
    return f"{record['name']}({sample})"[:70]


CASES = [
    pytest.param(record, sample, id=label(record, sample))
    for record in TABLE
    if record["samples"] and not record["name"].startswith("_")
    for sample in samples_of(record)
    if has_complex(record, sample)
]
CLAIMED = [case for case in CASES if is_claimed(*case.values)]
REFUSED = [
    case
    for case in CASES
    if not is_claimed(*case.values)
    and case.values[0]["name"] not in ("view_as_complex", "complex", "polar")
]
DIFFERENTIABLE = [
    case
    for case in CLAIMED
    if case.values[0]["differentiable"]
    and has_derivative(case.values[1])
    and case.values[0]["name"] not in NO_VALUES
    and "'prod'" not in case.values[1]  # a mode of scatter_reduce
]


@each_sample(CLAIMED)
def test_values_are_those_of_numpy(record, sample):
    args, kwargs = complex_arguments(record, sample)
    got = results(call(OPS.function(record), args, kwargs))
    if not record["ref"] or record["name"] in NO_REF or record["kind"] == "cast":
        assert all(bool(torch.isfinite(t).all()) for t in got)
        return
    wanted = evaluate_ref(record, args, kwargs, lambda t: t.detach().numpy())
    for g, w in zip(got, wanted, strict=True):
        np.testing.assert_allclose(g.detach().numpy(), w, rtol=1e-9, atol=1e-9)


@each_sample(CLAIMED)
def test_half_the_precision_gives_nearly_the_same(record, sample):
    def narrow(t):
        return t.to(torch.complex64) if t.is_complex() else t

    args, kwargs = complex_arguments(record, sample)
    if (
        record["name"] in NO_VALUES
        or record["kind"] in ("view", "cast")
        or any(not t.is_complex() for t in tensors_in((args, kwargs)))
    ):
        return
    wide = results(call(OPS.function(record), args, kwargs))
    slim = results(call(OPS.function(record), *tree_map(narrow, (args, kwargs))))
    for s, w in zip(slim, wide, strict=True):
        assert s.dtype is w.dtype or s.dtype in (torch.complex64, torch.float32)
        assert torch.allclose(s.to(w.dtype), w, rtol=2e-3, atol=2e-3)


@each_sample(DIFFERENTIABLE)
def test_gradients_forwards_and_backwards(record, sample):
    args, kwargs = complex_arguments(record, sample)
    leaves = [t for t in tensors_in((args, kwargs)) if t.is_complex()]
    for t in leaves:
        t.requires_grad_()

    def f(*values):
        replaced = iter(values)
        a, k = tree_map(lambda t: next(replaced) if t.is_complex() else t, (args, kwargs))
        out = results(call(OPS.function(record), a, k))
        return tuple(o for o in out if o.requires_grad or o.is_complex() or o.is_floating_point())

    if not any(o.requires_grad for o in f(*leaves)):
        return
    assert gradcheck(f, tuple(leaves), fast_mode=True, check_forward_ad=True)


@each_sample(REFUSED)
def test_what_is_not_claimed_raises(record, sample):
    args, kwargs = complex_arguments(record, sample)
    with pytest.raises((RuntimeError, NotImplementedError, TypeError, ValueError)):
        call(OPS.function(record), args, kwargs)


@each_sample(CLAIMED)
def test_memory_in_any_order(record, sample):
    def spread(t):
        if not t.is_complex() or t.dim() == 0:
            return t
        return t.repeat_interleave(2, -1)[..., ::2]

    args, kwargs = complex_arguments(record, sample)
    if record["name"] in NO_VALUES or record["kind"] == "view" or "strided" in record["name"]:
        return
    wanted = results(call(OPS.function(record), args, kwargs))
    got = results(call(OPS.function(record), *tree_map(spread, (args, kwargs))))
    for g, w in zip(got, wanted, strict=True):
        assert torch.allclose(g, w, rtol=1e-12, atol=1e-12)


def test_the_claims_are_not_empty():
    assert len(CLAIMED) > 300
    assert len(DIFFERENTIABLE) > 250


def test_conj_physical_of_bools():
    x = torch.tensor([True, False])
    out = torch.empty(2, dtype=torch.bool)
    assert torch.conj_physical(x, out=out) is out and torch.equal(out, x)
    assert torch.equal(x.conj_physical(), x) and x.conj_physical().data_ptr() != x.data_ptr()
