# SPDX-License-Identifier: BSD-3-Clause
"""associative_scan compared with loops, its gradients, and the inputs it refuses."""

import pytest

import cograd as torch
from cograd._higher_order_ops import associative_scan
from cograd.autograd import gradcheck


def step(p, q):
    """Combines two steps of the recurrence x[t] = a[t] x[t-1] + b[t]."""
    return p[0] * q[0], q[0] * p[1] + q[1]


@pytest.mark.parametrize("mode", ["generic", "pointwise"])
@pytest.mark.parametrize("dim", [0, 1, -1])
@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 8, 13])
def test_sums(n, dim, mode):
    x = torch.arange(6.0 * n).reshape(2, 3, n).movedim(-1, dim)
    got = associative_scan(torch.add, x, dim, combine_mode=mode)
    assert torch.equal(got, x.cumsum(dim))
    back = associative_scan(torch.add, x, dim, reverse=True)
    assert torch.equal(back, x.flip(dim).cumsum(dim).flip(dim))


def test_function_sees_one_place():
    seen = []

    def f(a, b):
        seen.append((a.shape, b.shape))
        return a @ b

    x = torch.randn(6, 3, 3, dtype=torch.float64)
    got = associative_scan(f, x, 0)
    assert set(seen) == {((3, 3), (3, 3))}
    expected = [x[0]]
    for m in x[1:]:
        expected.append(expected[-1] @ m)  # products do not commute
    torch.testing.assert_close(got, torch.stack(expected))


@pytest.mark.parametrize("reverse", [False, True])
def test_linear_recurrence_and_its_gradient(reverse):
    a, b = (torch.randn(2, 7, dtype=torch.float64, requires_grad=True) for _ in range(2))

    def scanned(a, b):
        made = associative_scan(step, (a, b), 1, reverse=reverse)
        assert isinstance(made, tuple)
        return made[1]

    x, rows = torch.zeros(2, dtype=torch.float64), []
    order = range(6, -1, -1) if reverse else range(7)
    for t in order:
        x = a[:, t] * x + b[:, t]
        rows.append(x)
    expected = torch.stack(rows[::-1] if reverse else rows, 1)
    torch.testing.assert_close(scanned(a, b), expected)
    assert gradcheck(scanned, (a, b))


def test_trees_keep_their_form():
    x = torch.ones(4)
    got = associative_scan(
        lambda p, q: {"u": p["u"] + q["u"], "v": [p["v"][0] * q["v"][0]]}, {"u": x, "v": [2 * x]}, 0
    )
    assert got["u"].tolist() == [1, 2, 3, 4]
    assert got["v"][0].tolist() == [2, 4, 8, 16]


X = torch.ones(2, 3)


@pytest.mark.parametrize(
    ("args", "error", "text"),
    [
        ((3, X, 0), ValueError, "combine_fn must be callable, got int"),
        ((torch.add, [], 0), ValueError, "xs has no tensor"),
        ((torch.add, 3, 0), TypeError, "xs must contain only tensors, got int"),
        ((torch.add, torch.ones(()), 0), ValueError, r"at least one dim .*got \[\(\)\]"),
        ((torch.add, torch.ones(0, 2), 0), ValueError, r"got \[\(0, 2\)\]"),
        ((step, (X, X[0]), 0), ValueError, r"one shape .*got \[\(2, 3\), \(3,\)\]"),
        ((torch.add, X, 2), IndexError, "Dimension out of range"),
        ((lambda a, b: (a, b), X, 0), ValueError, "combine_fn must return a tree like xs"),
        ((torch.add, X, 0, False, "all"), ValueError, "got 'all'"),
    ],
)
def test_refused(args, error, text):
    with pytest.raises(error, match=text):
        associative_scan(*args)
