# SPDX-License-Identifier: BSD-3-Clause
"""Tests made from the op table: every op's own declaration determines how it is tested."""

import math

import numpy as np
import pytest
from op_checks import (
    INTEGERS,
    cast_sample,
    check_dims,
    check_dtypes,
    check_elementwise_shapes,
    check_forward,
    check_gradients,
    check_inplace,
    check_integers,
    check_kind,
    check_method,
    check_non_contiguous,
    check_not_differentiable,
    check_out,
    check_record,
    check_small_floats,
    forward_dtypes,
    is_elementwise,
)
from op_items import each_sample
from op_table import (
    DTYPES,
    F8,
    OPS,
    TABLE,
    assert_same,
    has_derivative,
    samples_of,
)

import cograd as torch


def cases(keep=lambda record: True, sample_too=lambda record, sample: True):
    return [pytest.param(r, s) for r in TABLE if keep(r) for s in samples_of(r) if sample_too(r, s)]


def records(keep=lambda record: True):
    return [pytest.param(r, id=r["name"]) for r in TABLE if keep(r)]


def has_values(record, sample):
    """True if the sample has tensors whose dtype can be chosen."""
    return cast_sample(record, sample, F8) is not None


@pytest.mark.beyond_torch
def test_the_table_is_there():
    assert len(TABLE) > 100
    forms = [
        (
            *(r[k] for k in ("namespace", "name", "signature", "function", "method")),
            *(a["kind"] for a in r["args"]),
        )
        for r in TABLE
    ]
    twice = sorted({f[1] for f in forms if forms.count(f) > 1})
    assert not twice, f"declared twice: {twice}"


@pytest.mark.parametrize("record", records())
def test_record(record):
    check_record(record)


@pytest.mark.parametrize("record", records(lambda r: r["function"]))
def test_docstring(record):
    assert (OPS.function(record).__doc__ or "").strip(), record["name"]


@each_sample(cases(), dtypes=forward_dtypes)
def test_forward(record, sample, dtype):
    check_forward(record, sample, dtypes=[dtype])


@each_sample(cases(lambda r: not r["reads_bytes"]), dtypes=(torch.float16, torch.bfloat16))
def test_small_floats(record, sample, dtype):
    check_small_floats(record, sample, dtypes=[dtype])


@each_sample(cases(lambda r: r["ref"] and not r["reads_bytes"]), dtypes=INTEGERS)
def test_integers(record, sample, dtype):
    check_integers(record, sample, dtypes=[dtype])


@each_sample(cases())
def test_non_contiguous(record, sample):
    check_non_contiguous(record, sample)


@each_sample(cases(sample_too=is_elementwise))
def test_elementwise_shapes(record, sample):
    check_elementwise_shapes(record, sample)


# Casts lower the precision below what gradcheck needs: test_dtype_promotion checks them.
@each_sample(
    cases(
        lambda r: (
            r["differentiable"] and r["kind"] != "cast" and any(map(has_derivative, samples_of(r)))
        )
    )
)
def test_gradients(record, sample):
    return check_gradients(record, sample)


@each_sample(cases(lambda r: not r["differentiable"]))
def test_not_differentiable(record, sample):
    check_not_differentiable(record, sample)


@each_sample(cases(lambda r: r["method"] and r["function"]))
def test_method(record, sample):
    return check_method(record, sample)


@each_sample(cases(lambda r: r["inplace"]))
def test_inplace(record, sample):
    return check_inplace(record, sample)


@each_sample(cases(lambda r: r["out"]))
def test_out(record, sample):
    return check_out(record, sample)


@each_sample(
    cases(sample_too=lambda r, s: r["kind"] in ("view", "creation") or is_elementwise(r, s))
)
def test_kind(record, sample):
    check_kind(record, sample)


@each_sample(
    records(lambda r: any(has_values(r, s) for s in samples_of(r))),
    names="record",
    dtypes=DTYPES.values(),
)
def test_claimed_dtypes(record, dtype):
    return check_dtypes(record, dtype)


@each_sample(cases(lambda r: any(a["kind"] in ("Dim", "Dims") for a in r["args"])))
def test_dims_out_of_range(record, sample):
    check_dims(record, sample)


@pytest.mark.parametrize("name", ["sort", "topk", "max", "kthvalue"])
def test_out_of_several_results(name):
    x = torch.tensor([[3.0, 1.0, 2.0]])
    args = {"sort": (1,), "topk": (2, 1), "max": (1,), "kthvalue": (2, 1)}[name]
    want = getattr(torch, name)(x, *args)
    out = tuple(torch.zeros_like(w) for w in want)
    got = getattr(torch, name)(x, *args, out=out)
    assert all(g is o for g, o in zip(got, out, strict=True))
    assert_same(out, want, name)


@pytest.mark.parametrize("name", ["nll_loss", "cross_entropy"])
def test_class_weights_are_constants(name):
    x = torch.zeros(2, 3, requires_grad=True)
    target, weight = torch.tensor([0, 2]), torch.ones(3, requires_grad=True)
    loss = getattr(torch.nn.functional, name)
    with pytest.raises(RuntimeError, match="not differentiable with respect to argument 'weight'"):
        loss(x, target, weight)
    with torch.no_grad():
        loss(x, target, weight)
    loss(x, target, weight.detach()).backward()


@pytest.mark.parametrize("v", [0.3, 1.0, 4.2, 50.0, -0.5, -2.3])
def test_digamma_derivatives(v):
    """n! sum (-1)^(n+1) / (v + k)^(n+1) gives the derivatives, with an integral for the tail."""
    x = torch.tensor(v, dtype=F8, requires_grad=True)
    y = torch.digamma(x)
    k = np.arange(400000.0)
    for n in (1, 2, 3):
        (y,) = torch.autograd.grad(y, x, create_graph=True)
        end = v + len(k)
        tail = 1 / (n * end**n) + 0.5 / end ** (n + 1)
        want = (-1) ** (n + 1) * math.factorial(n) * (np.sum(1 / (v + k) ** (n + 1)) + tail)
        assert y.item() == pytest.approx(want, rel=1e-9), n
