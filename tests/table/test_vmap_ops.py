# SPDX-License-Identifier: BSD-3-Clause
"""vmap of every op with samples compared with the loop over the batch, and its derivatives."""

import warnings

import pytest
from op_items import each_sample, one_of_each
from op_samples import CASES, DERIVATIVES, SIZE, Samples, close, floats, reference, subsets

import cograd as torch
from cograd.autograd import forward_ad as fwd
from cograd.autograd import grad
from cograd.func import vmap


@each_sample(CASES)
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


def gradients(p):
    def run(*values):
        leaves = [torch._C._new_leaf(v) if p.differentiable[i] else v for i, v in enumerate(values)]
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


def vmap_of_grad(record, sample):
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


def vmap_of_jvp(record, sample):
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


# test_transform_ops maps cograd.func's grad and jvp, which are these, over every sample.
@each_sample(one_of_each(DERIVATIVES), together=True)
def test_vmap_of_grad(record, sample):
    vmap_of_grad(record, sample)


@each_sample(one_of_each(DERIVATIVES), together=True)
def test_vmap_of_jvp(record, sample):
    vmap_of_jvp(record, sample)


@pytest.mark.nightly
@each_sample(DERIVATIVES)
def test_vmap_of_grad_of_every_sample(record, sample):
    vmap_of_grad(record, sample)


@pytest.mark.nightly
@each_sample(DERIVATIVES)
def test_vmap_of_jvp_of_every_sample(record, sample):
    vmap_of_jvp(record, sample)


@each_sample(DERIVATIVES)
def test_batched_gradients(record, sample):
    """Many gradients run through one graph at once: rows of a Jacobian."""
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


@each_sample(DERIVATIVES)
def test_batched_tangents(record, sample):
    """Many tangents run at one point at once: columns of a Jacobian."""
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
        try:
            got = vmap(push)(*columns)
        except RuntimeError as e:
            if "vmap: It looks like" in str(e):
                pytest.skip(f"the op needs values: {e}")
            raise
    for a, b in zip(got, want, strict=True):
        close(a, b)
