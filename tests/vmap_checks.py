# SPDX-License-Identifier: BSD-3-Clause
"""Data for the tests of vmap, and the loop over the samples that vmap is compared with."""

import numpy as np

import cograd as torch
from cograd.func import vmap


def grid(*shape, dtype=torch.float64):
    n = int(np.prod(shape))
    return torch.arange(n).to(dtype).reshape(shape)


def looped(f, *args, dims=0, **kwargs):
    """Computes by a loop over the samples what vmap computes at once."""
    dims = (dims,) * len(args) if not isinstance(dims, tuple) else dims
    size = next(a.shape[d] for a, d in zip(args, dims, strict=True) if d is not None)
    pick = [
        [a if d is None else a.select(d, i) for a, d in zip(args, dims, strict=True)]
        for i in range(size)
    ]
    return torch.stack([f(*p, **kwargs) for p in pick])


def agree(f, *args, dims=0):
    """Compares vmap with the loop, on copies of the same arguments."""
    got = vmap(f, dims)(*[a.clone() for a in args])
    want = looped(f, *[a.clone() for a in args], dims=dims)
    assert got.dtype == want.dtype
    torch.testing.assert_close(got, want)


X = grid(2, 3)
