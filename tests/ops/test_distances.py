# SPDX-License-Identifier: BSD-3-Clause
"""Distances and similarities of tensors whose shapes broadcast."""

import numpy as np
import pytest

import cograd as torch
import cograd.nn.functional as F
from cograd.autograd import gradcheck, gradgradcheck

F8 = torch.float64


def rand(*shape):
    rng = np.random.default_rng(sum(shape))
    return torch.tensor(rng.uniform(0.5, 2, shape), dtype=F8, requires_grad=True)


def test_cosine_similarity_counts_repeated_elements_in_the_norms():
    got = F.cosine_similarity(torch.ones(3, 1), torch.ones(3, 4), dim=1)
    assert got.tolist() == pytest.approx([1.0] * 3)
    assert torch.cosine_similarity(torch.ones(4), torch.ones(2, 4)).tolist() == pytest.approx(
        [1, 1]
    )


@pytest.mark.parametrize("shapes", [((3, 1), (3, 4)), ((4,), (3, 4)), ((2, 1, 4), (3, 1))])
def test_cosine_similarity_is_that_of_the_expanded_tensors(shapes):
    a, b = rand(*shapes[0]), rand(*shapes[1])
    wide = torch.broadcast_tensors(a, b)
    got = F.cosine_similarity(a, b, dim=-1)
    want = F.cosine_similarity(*[w.contiguous() for w in wide], dim=-1)
    assert np.allclose(got.detach(), want.detach())
    grads = torch.autograd.grad(got.sum(), (a, b))
    wants = torch.autograd.grad(want.sum(), (a, b))
    for g, w in zip(grads, wants, strict=True):
        assert np.allclose(g, w)
    assert gradcheck(lambda x, y: F.cosine_similarity(x, y, dim=-1), (a, b))
    assert gradgradcheck(lambda x, y: F.cosine_similarity(x, y, dim=-1), (a, b))


def test_cosine_similarity_promotes_and_refuses_integers():
    assert F.cosine_similarity(torch.ones(3), torch.ones(3, dtype=F8), dim=0).dtype == F8
    with pytest.raises(RuntimeError, match="common dtype to be floating point"):
        F.cosine_similarity(torch.arange(3), torch.arange(3), dim=0)


@pytest.mark.parametrize("f", [F.pairwise_distance, torch.dist, torch.cdist])
def test_other_distances_broadcast_too(f):
    a, b = (rand(2, 1, 4), rand(3, 4)) if f is torch.cdist else (rand(3, 1), rand(3, 4))
    wide = (a.expand(2, 1, 4), b.expand(2, 3, 4)) if f is torch.cdist else (a.expand(3, 4), b)
    assert np.allclose(f(a, b).detach(), f(*[w.contiguous() for w in wide]).detach())
    assert gradcheck(f, (a, b))


def test_cdist_takes_compute_mode():
    a = rand(3, 2)
    plain = torch.cdist(a, a + 1)
    for mode in (
        "use_mm_for_euclid_dist_if_necessary",
        "use_mm_for_euclid_dist",
        "donot_use_mm_for_euclid_dist",
    ):
        assert torch.equal(torch.cdist(a, a + 1, compute_mode=mode), plain)
    with pytest.raises(ValueError, match="fast is not a valid value for compute_mode"):
        torch.cdist(a, a, compute_mode="fast")


# Rows and elements below, at and above the sizes of tiles and vectors.
@pytest.mark.parametrize(
    "rows,others,size", [(1, 1, 1), (13, 33, 5), (12, 32, 64), (29, 40, 70), (17, 31, 147)]
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_euclidean_distances_are_the_formula(rows, others, size, dtype):
    torch.manual_seed(rows)
    a = torch.randn(rows, size, dtype=dtype, requires_grad=True)
    b = torch.randn(others, size, dtype=dtype, requires_grad=True)
    g = torch.randn(rows, others, dtype=dtype)
    got = torch.cdist(a, b)
    want = (a.double()[:, None] - b.double()).square().sum(-1).sqrt()
    torch.testing.assert_close(got, want.to(dtype))
    for found, right in zip(
        torch.autograd.grad(got, (a, b), g),
        torch.autograd.grad(want, (a, b), g.double()),
        strict=True,
    ):
        torch.testing.assert_close(found, right, rtol=1e-4, atol=1e-5)
