# SPDX-License-Identifier: BSD-3-Clause
"""In-place ops without a gradient: the previous value gets zeros, directly or through a view."""

import pytest
from op_table import OPS, TABLE, arguments, samples_of

import cograd as torch

F8 = torch.float64
INPLACE = [r for r in TABLE if r["inplace"] and samples_of(r)]
COMPARISONS = ["eq", "ne", "lt", "le", "gt", "ge"]
LOGICAL = ["logical_and", "logical_or", "logical_xor", "logical_not"]


def written(name, y):
    other = torch.tensor([2.0, 5.0, 4.0], dtype=F8)[: len(y)]
    args = () if name == "logical_not" else (other,)
    return getattr(y, name + "_")(*args)


@pytest.mark.parametrize("name", COMPARISONS + LOGICAL)
def test_what_was_there_before_gets_zeros(name):
    x = torch.tensor([1.0, 2.0, 3.0], dtype=F8, requires_grad=True)
    y = x * 2
    want = y.detach().clone()
    want = written(name, want)
    assert written(name, y) is y and torch.equal(y, want)
    assert y.requires_grad and y.grad_fn.name().lower() == f"{name}backward0".replace("_", "")
    (y * 3).sum().backward()
    assert x.grad.tolist() == [0, 0, 0]


@pytest.mark.parametrize("name", COMPARISONS + LOGICAL)
def test_a_write_to_a_view_leaves_the_rest_of_its_base(name):
    x = torch.tensor([1.0, 2.0, 3.0], dtype=F8, requires_grad=True)
    y = x * 2
    written(name, y[:2])
    assert y.grad_fn.name() == "CopySlices"
    y.sum().backward()
    assert x.grad.tolist() == [0, 0, 2]


def test_a_number_as_the_operand():
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    y = x * 2
    y.eq_(2)
    assert y.tolist() == [1, 0]
    y.sum().backward()
    assert x.grad.tolist() == [0, 0]


def test_a_write_to_the_base_reaches_its_views():
    x = torch.ones(3, requires_grad=True)
    y = x * 2
    view = y[:2]
    y.gt_(1)
    view.sum().backward()
    assert x.grad.tolist() == [0, 0, 0]


def test_gradients_of_later_ops_still_flow():
    x = torch.tensor([1.0, 2.0], dtype=F8, requires_grad=True)
    w = torch.tensor([3.0, 4.0], dtype=F8, requires_grad=True)
    y = x * 2
    y.ge_(3.0).mul_(w)
    y.sum().backward()
    assert x.grad.tolist() == [0, 0] and w.grad.tolist() == [0, 1]


def test_a_leaf_that_requires_grad_is_refused():
    w = torch.ones(2, requires_grad=True)
    with pytest.raises(RuntimeError, match="leaf Variable that requires grad"):
        w.eq_(1)
    with pytest.raises(RuntimeError, match="view of a leaf"):
        w[:1].logical_not_()


def test_nothing_is_recorded_where_nothing_is_lost():
    y, w = torch.zeros(2), torch.ones(2, requires_grad=True)
    assert not y.eq_(w).requires_grad
    z = w * 2
    with torch.no_grad():
        z.eq_(2)
    assert z.grad_fn.name() == "MulBackward0"
    flags = torch.zeros(2, dtype=torch.bool)
    assert not flags.logical_or_(w).requires_grad


def test_nextafter_has_no_gradient_where_both_are_equal():
    a = torch.tensor([1.0, 2.0, 3.0, float("nan")], dtype=F8, requires_grad=True)
    b = torch.tensor([1.0, 5.0, -1.0, 1.0], dtype=F8, requires_grad=True)
    for y in (torch.nextafter(a, b), (a * 1).nextafter_(b)):
        of_a, of_b = torch.autograd.grad(y.sum(), [a, b])
        assert of_a.tolist() == [0, 1, 1, 1] and of_b.tolist() == [0, 0, 0, 0]


def gradient(y, x):
    """Returns y's gradient, or zeros if there is none."""
    if not y.requires_grad:
        return torch.zeros_like(x)
    (g,) = torch.autograd.grad(y.sum(), x, allow_unused=True)
    return torch.zeros_like(x) if g is None else g


@pytest.mark.parametrize("record", INPLACE, ids=lambda r: f"{r['name']}({r['signature']})")
def test_the_gradient_is_that_of_the_op_out_of_place(record):
    for sample in samples_of(record):
        args, kwargs = arguments(record, sample)
        first = args[0] if args else None
        if not isinstance(first, torch.Tensor) or first.dtype != F8 or not record["function"]:
            continue
        x = first.clone().requires_grad_()
        f = OPS.function(record)
        try:
            want = f(x * 1, *args[1:], **kwargs)
            expected = gradient(want, x)
        except (RuntimeError, NotImplementedError):
            continue  # no derivative: the in-place form must not have one either
        if want.shape != x.shape:
            continue
        y = x * 1
        getattr(y, record["name"] + "_")(*args[1:], **kwargs)
        assert torch.allclose(gradient(y, x), expected, equal_nan=True)


@pytest.mark.parametrize(
    "write",
    [
        lambda x: x.__setitem__(slice(None), 1.0),
        lambda x: x.__setitem__(..., 1.0),
        lambda x: x.__setitem__(slice(0, 2), 1),
        lambda x: x.__setitem__(slice(None), torch.ones(3)),
        lambda x: x.cumsum_(0),
        lambda x: x.expand(3, 3).addmm_(torch.ones(3, 3), torch.ones(3, 3)),
        lambda x: x.addmv_(torch.ones(3, 3), torch.ones(3)),
    ],
)
def test_elements_that_share_memory_are_not_written(write):
    x = torch.zeros(1)
    with pytest.raises(RuntimeError, match="more than one element of the written-to tensor"):
        write(x.expand(3))
    assert x.item() == 0
    x.expand(3)[1] = 2.0  # one element
    assert x.item() == 2
