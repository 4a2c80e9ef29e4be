# SPDX-License-Identifier: BSD-3-Clause
"""Derivatives of vmap and vmap of derivatives, for every op with samples, compared with loops."""

import warnings

import pytest
from op_items import each_sample
from op_samples import DERIVATIVES, SIZE, Samples, close, floats, subsets

import cograd as torch
from cograd.func import grad, jvp, vmap


class Derivatives(Samples):
    """An op's sample with the tensors that are batched, and directions."""

    def __init__(self, record, sample):
        super().__init__(record, sample)
        self.by = tuple(i for i, d in enumerate(self.differentiable) if d)
        if not self.by:
            pytest.skip("nothing to differentiate by")
        if not floats(self(*self.values)):
            pytest.skip("no result is floating")

    def outputs(self, *values):
        return tuple(floats(self(*values)))

    def scalar(self, *values):
        return sum((o * o).sum() for o in self.outputs(*values))

    def gradient(self, *values):
        return grad(self.scalar, self.by)(*values)

    def directions(self, values):
        return [(v * 0.5 + 0.2).cos() for v in values]

    def along(self, f, values, directions):
        """Runs jvp with respect to the differentiable values."""

        def run(*some):
            every = list(values)
            for i, t in zip(self.by, some, strict=True):
                every[i] = t
            return f(*every)

        primals, tangents = (tuple(t[i] for i in self.by) for t in (values, directions))
        return jvp(run, primals, tangents)[1]

    def tangent(self, *values):
        return self.along(self.outputs, values, self.directions(values))

    def loop(self, f, which):
        """Returns f of each sample; skips if the op's results cannot be those of one vmap."""
        try:
            found = [f(*self.sample(k, which)) for k in range(SIZE)]
        except RuntimeError as e:
            pytest.skip(f"a rolled sample is no valid argument: {e}")
        if len({tuple(o.shape for o in s) for s in found}) > 1:
            pytest.skip("the result's shape depends on the values")
        return found


def stacked(samples):
    return [torch.stack(list(c)) for c in zip(*samples, strict=True)]


def run(f, *values):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # ops that run sample by sample
        try:
            return f(*values)
        except RuntimeError as e:
            if "vmap: It looks like" in str(e):
                pytest.skip(f"the op needs values: {e}")
            raise


def all_close(got, want, label):
    assert len(got) == len(want)
    for a, b in zip(got, want, strict=True):
        close(a, b, label)


def each(p):
    """Returns (which values are batched, the values, in_dims)."""
    for which in subsets(len(p.values)):
        yield (which, *p.mixed(which))


@each_sample(DERIVATIVES)
def test_vmap_of_grad(record, sample):
    p = Derivatives(record, sample)
    for which, values, dims in each(p):
        want = stacked(p.loop(p.gradient, which))
        all_close(run(vmap(p.gradient, dims), *values), want, which)


@each_sample(DERIVATIVES)
def test_grad_of_vmap(record, sample):
    """An unbatched value gets the sum of the samples' gradients."""
    p = Derivatives(record, sample)
    for which, values, dims in each(p):
        samples = list(zip(*p.loop(p.gradient, which), strict=True))
        want = [
            torch.stack(list(s), dims[i]) if i in which else sum(s)
            for i, s in zip(p.by, samples, strict=True)
        ]
        total = grad(lambda *v, dims=dims: vmap(p.scalar, dims)(*v).sum(), p.by)
        all_close(run(total, *values), want, which)


@each_sample(DERIVATIVES)
def test_vmap_of_jvp(record, sample):
    p = Derivatives(record, sample)
    for which, values, dims in each(p):
        want = stacked(p.loop(p.tangent, which))
        all_close(run(vmap(p.tangent, dims), *values), want, which)


@each_sample(DERIVATIVES)
def test_jvp_of_vmap(record, sample):
    p = Derivatives(record, sample)
    for which, values, dims in each(p):
        want = stacked(p.loop(p.tangent, which))
        mapped = vmap(p.outputs, dims)
        all_close(run(p.along, mapped, values, p.directions(values)), want, which)


def in_place(record):
    return record["inplace"] and hasattr(torch.Tensor, record["name"] + "_")


@each_sample([c for c in DERIVATIVES if in_place(c.values[0])])
def test_vmap_of_writes(record, sample):
    """The in-place form writes each sample's value, with gradient and tangent."""
    p = Derivatives(record, sample)
    first = p.args[0]
    (plain,) = p(*p.values)
    if plain.shape != first.shape or plain.dtype is not first.dtype or id(first) not in p.where:
        pytest.skip("the result does not fit the first argument")
    target, functional = p.where[id(first)], p.f

    def write(x, *args, **kwargs):
        return getattr(x.clone(), record["name"] + "_")(*args, **kwargs)

    for which, values, dims in each(p):
        if target not in which:
            continue  # an unbatched tensor cannot be written with a batch
        p.f = functional
        derivatives = (p.outputs, p.gradient, p.tangent)
        want = [stacked(p.loop(f, which)) for f in derivatives]
        p.f = write
        for f, w in zip(derivatives, want, strict=True):
            all_close(run(vmap(f, dims), *values), w, which)
