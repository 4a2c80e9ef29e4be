# SPDX-License-Identifier: BSD-3-Clause
"""Sums and means of embedding_bag compared with explicit sums."""

import numpy as np
import pytest

import cograd as torch
from cograd.nn import functional as F


# Widths below, at and above one vector and four.
@pytest.mark.parametrize("width", [1, 3, 16, 17, 63, 64, 65, 150])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("mode", ["sum", "mean"])
@pytest.mark.parametrize("padding", [None, 3])
def test_bags_are_sums_of_rows(width, dtype, mode, padding):
    rng = np.random.default_rng(width)
    table = torch.from_numpy(rng.integers(-8, 8, (50, width)).astype(float)).to(dtype)
    index, offsets = rng.integers(0, 50, 90), np.array([0, 1, 1, 20, 57])
    index[:1], index[20:24] = 3, 3
    got = F.embedding_bag(
        torch.from_numpy(index), table, torch.from_numpy(offsets), mode=mode, padding_idx=padding
    )
    want = []
    for first, last in zip(offsets, [*offsets[1:], 90], strict=True):
        rows = [i for i in index[first:last] if i != padding]
        total = table.double().numpy()[rows].sum(0)
        want.append(total / max(1, len(rows)) if mode == "mean" else total)
    want = torch.tensor(np.array(want)).to(dtype)
    torch.testing.assert_close(got, want, rtol=2e-2 if dtype == torch.bfloat16 else 1e-6, atol=0)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_weights_scale_their_rows(dtype):
    torch.manual_seed(4)
    table, index = torch.randn(30, 70, dtype=dtype), torch.randint(0, 30, (6, 9))
    weights = torch.randn(6, 9, dtype=dtype)
    got = F.embedding_bag(index, table, per_sample_weights=weights, mode="sum")
    torch.testing.assert_close(got, (table[index] * weights[..., None]).sum(1))


def largest_of(rows, numbers):
    """Returns the largest elements of each column and their rows: first wins, NaN only if first."""
    top, at = rows[0].copy(), np.full(rows.shape[1], numbers[0])
    for row, number in zip(rows[1:], numbers[1:], strict=True):
        above = row > top
        top, at = np.where(above, row, top), np.where(above, number, at)
    return top, at


@pytest.mark.parametrize("width", [1, 3, 16, 17, 63, 64, 65, 150])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("padding", [None, 3])
def test_maxima_of_bags_keep_the_first_of_equal_rows(width, dtype, padding):
    rng = np.random.default_rng(width)
    table = torch.from_numpy(rng.integers(-3, 3, (50, width)).astype(float)).to(dtype)
    table[7], table[9, 0] = float("nan"), float("-inf")
    index, offsets = rng.integers(0, 50, 90), np.array([0, 1, 1, 20, 57])
    index[:1], index[1], index[20:24], index[60] = 3, 7, 3, 9
    weight = table.clone().requires_grad_()
    got = F.embedding_bag(
        torch.from_numpy(index), weight, torch.from_numpy(offsets), mode="max", padding_idx=padding
    )
    g = torch.from_numpy(rng.integers(-8, 8, (5, width)).astype(float)).to(dtype)
    (grad,) = torch.autograd.grad(got, weight, g)
    values, want, slope = table.double().numpy(), [], np.zeros((50, width))
    for bag, (first, last) in enumerate(zip(offsets, [*offsets[1:], 90], strict=True)):
        rows = np.array([i for i in index[first:last] if i != padding], dtype=int)
        if len(rows) == 0:
            want.append(np.zeros(width))
            continue
        top, at = largest_of(values[rows], rows)
        want.append(top)
        slope[at, np.arange(width)] += g[bag].double().numpy()
    torch.testing.assert_close(
        got.detach(), torch.tensor(np.array(want)).to(dtype), rtol=0, atol=0, equal_nan=True
    )
    torch.testing.assert_close(grad, torch.tensor(slope).to(dtype), rtol=0, atol=0)
