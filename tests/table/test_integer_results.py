# SPDX-License-Identifier: BSD-3-Clause
"""The dtypes of ops on integers, and the results for numbers that are not integers."""

import pytest

import cograd as torch
import cograd.nn.functional as F

I4 = torch.int32


def ones(*shape):
    return torch.ones(shape, dtype=I4)


@pytest.mark.parametrize(
    "f",
    [
        lambda: torch.addbmm(ones(2, 4), ones(3, 2, 3), ones(3, 3, 4)),
        lambda: torch.baddbmm(ones(3, 2, 4), ones(3, 2, 3), ones(3, 3, 4)),
        lambda: torch.addmm(ones(3), ones(3, 2), ones(2, 3)),
        lambda: torch.addmv(ones(3), ones(3, 2), ones(2)),
        lambda: torch.addr(ones(3, 2), ones(3), ones(2)),
        lambda: F.bilinear(ones(3, 2), ones(3, 4), ones(5, 2, 4), ones(5)),
        lambda: F.linear(ones(3, 2), ones(4, 2), ones(4)),
        lambda: torch.tensordot(ones(2, 3), ones(3, 4), 1),
        lambda: torch.tensordot(ones(2, 3), ones(2, 3), ([0, 1], [0, 1])),
        lambda: torch.tensordot(ones(2, 1), ones(3, 2), ([1], [0])),
        lambda: torch.tensordot(ones(3), ones(3), 0),
        lambda: torch.inner(ones(2, 3), ones(2, 3)),
        lambda: torch.kron(ones(2), ones(3)),
        lambda: torch.einsum("ij,jk->ik", ones(2, 3), ones(3, 4)),
        lambda: torch.matmul(ones(3, 2, 3), ones(3)),
    ],
)
def test_products_of_int32_are_int32(f):
    assert f().dtype == I4


def test_sums_of_integers_are_int64():
    assert ones(2, 3).sum_to_size(3).dtype == torch.int64
    both = (ones(2, 3) > 0).sum_to_size(3)
    assert both.dtype == torch.int64
    assert both.tolist() == [2, 2, 2]
    assert ones(2, 3).to(torch.uint8).sum_to_size(1, 3).dtype == torch.int64
    assert (ones(2, 3) > 0).sum_to_size(2, 3).dtype == torch.bool
    assert ones(2, 3).half().sum_to_size(3).dtype == torch.float16


def test_margin_ranking_loss_of_integers_is_a_float():
    a, b = ones(2), 2 * ones(2)
    assert F.margin_ranking_loss(a, b, ones(2)).item() == 1.0
    assert F.margin_ranking_loss(a, b, ones(2), reduction="sum").dtype == torch.float32
    assert F.margin_ranking_loss(a.double(), b.float(), ones(2)).dtype == torch.float64


@pytest.mark.parametrize("dtype", [torch.int8, torch.int16, I4, torch.int64])
def test_integer_ranges_are_cut_before_they_are_counted(dtype):
    def linspace(a, b, n):
        return torch.linspace(a, b, n, dtype=dtype).tolist()

    assert linspace(0, 10, 4) == [0, 3, 6, 10]
    assert linspace(0.9, 5.9, 3) == [0, 2, 5]
    assert linspace(-3.5, 3.5, 8) == [-3, -2, -1, 0, 0, 1, 2, 3]
    assert torch.logspace(0.5, 1.5, 3, dtype=dtype).tolist() == [1, 3, 10]
    assert torch.logspace(0, 2, 4, dtype=dtype).tolist() == [1, 4, 21, 100]


def test_ends_that_an_integer_dtype_cannot_hold_are_refused():
    wide = torch.linspace(0, 2.0**63, 3, dtype=torch.uint64)
    assert wide.tolist() == [0, 2**62, 2**63]
    with pytest.raises(RuntimeError, match="without overflow"):
        torch.linspace(-0.5, 3, 3, dtype=torch.uint64)
    assert torch.linspace(-5, 5, 4, dtype=torch.uint8).tolist() == [251, 169, 87, 5]
    for f in (torch.linspace, torch.logspace):
        for a, b in [(0, 256), (-0.5, 3)]:
            with pytest.raises(RuntimeError, match="without overflow"):
                f(a, b, 3, dtype=torch.uint8)
        with pytest.raises(RuntimeError, match="without overflow"):
            f(0, 1e30, 3, dtype=torch.int64)
        with pytest.raises(RuntimeError, match="without overflow"):
            f(float("nan"), 1, 3, dtype=torch.int64)


@pytest.mark.parametrize(
    ("x", "range", "edges"),
    [
        ([3.0, 3, 3], None, [2.5, 2.75, 3, 3.25, 3.5]),
        ([], None, [0, 0.25, 0.5, 0.75, 1]),
        ([0.0, 0], None, [-0.5, -0.25, 0, 0.25, 0.5]),
        ([1.0, 2], (2, 2), [1.5, 1.75, 2, 2.25, 2.5]),
        ([], (2, 2), [1.5, 1.75, 2, 2.25, 2.5]),
        ([1.0, 2], (0, 0), [-0.5, -0.25, 0, 0.25, 0.5]),
        ([1.0, 2], (0, 4), [0, 1, 2, 3, 4]),
    ],
)
def test_histogram_widens_an_empty_range_by_a_half(x, range, edges):
    hist, got = torch.histogram(torch.tensor(x, dtype=torch.float32), 4, range=range)
    assert got.tolist() == edges
    inside = [v for v in x if edges[0] <= v <= edges[-1]]
    assert hist.sum().item() == len(inside)


def test_histc_widens_by_one():
    assert torch.histc(torch.tensor([3.0, 3.0]), 4).tolist() == [0, 0, 2, 0]
    assert torch.histc(torch.tensor([2.1, 3.9]), 4, 3, 3).tolist() == [1, 0, 0, 1]


def test_logspace_of_one_step_computes_before_it_converts():
    assert torch.logspace(3.7, -1.5, 1, dtype=torch.int64).tolist() == [5011]
    assert torch.logspace(3.7, 0, 1, base=2.5, dtype=torch.int16).tolist() == [29]
    assert torch.logspace(-1.5, 0, 1, dtype=torch.uint8).tolist() == [0]
    assert torch.logspace(2, 1e39, 1, dtype=torch.int8).tolist() == [100]
    for start, dtype in ((3, torch.int8), (3, torch.uint8), (40, torch.int64), (40, torch.float32)):
        with pytest.raises(RuntimeError, match=r"logspace\(\): value 1.* without overflow"):
            torch.logspace(start, 1, 1, dtype=dtype)
    half = torch.logspace(20, 1, 1, dtype=torch.float16)  # as fill_ of one element in torch
    assert half.tolist() == [float("inf")]


def test_ranges_of_bool_have_at_most_one_element():
    for start, value in ((0, False), (0.2, True), (1e39, True), (float("inf"), True)):
        assert torch.linspace(start, 5, 1, dtype=torch.bool).tolist() == [value]
    assert torch.logspace(-300, 5, 1, dtype=torch.bool).tolist() == [True]
    for f in (torch.linspace, torch.logspace):
        assert f(0, 1, 0, dtype=torch.bool).tolist() == []
        with pytest.raises(NotImplementedError, match="not implemented for 'Bool'"):
            f(0, 1, 2, dtype=torch.bool)
