# SPDX-License-Identifier: BSD-3-Clause
"""In-place methods, out= arguments, overlap rules and casting errors."""

import numpy as np
import pytest

import cograd as torch

F8 = torch.float64

UNARY = """
abs neg exp expm1 log log1p log2 log10 sqrt rsqrt sin cos tan asin acos atan sinh cosh tanh
sigmoid erf sign floor ceil round trunc reciprocal square relu
""".split()


@pytest.mark.parametrize("name", UNARY)
def test_unary_forms_agree(name):
    x = torch.tensor([0.25, 0.5, 0.75], dtype=F8)
    want = getattr(torch, name)(x)
    assert torch.equal(getattr(x, name)(), want)
    t = x.clone()
    version = t._version
    view = t[1:]
    assert getattr(t, name + "_")() is t
    assert torch.equal(t, want) and t._version == version + 1 and torch.equal(view, want[1:])
    strided = torch.zeros(6, dtype=F8)[::2].copy_(x)
    getattr(strided, name + "_")()
    assert torch.equal(strided, want)


@pytest.mark.parametrize("name", [n for n in UNARY if n != "relu"])
def test_unary_out(name):
    x = torch.tensor([0.25, 0.5, 0.75], dtype=F8)
    f = getattr(torch, name)
    out = torch.empty(3, dtype=F8)
    ptr = out.data_ptr()
    assert f(x, out=out) is out and out.data_ptr() == ptr and torch.equal(out, f(x))
    assert out._version == 1
    strided = torch.zeros(6, dtype=F8)
    f(x, out=strided[::2])
    assert torch.equal(strided[::2], f(x)) and strided[1::2].tolist() == [0, 0, 0]


BINARY = [
    ("add", 2.0),
    ("sub", 2.0),
    ("mul", 2.0),
    ("div", 2.0),
    ("pow", 2.0),
    ("fmod", 2.0),
    ("remainder", 2.0),
    ("floor_divide", 2.0),
    ("atan2", 2.0),
    ("eq", 2.0),
    ("lt", 2.0),
    ("logical_and", 2.0),
]


@pytest.mark.parametrize("name,value", BINARY)
def test_binary_forms_agree(name, value):
    a = torch.tensor([[1.0, 2.0], [3.0, 4.0]], dtype=F8)
    b = torch.tensor([value, 1.0], dtype=F8)
    want = getattr(torch, name)(a, b)
    assert torch.equal(getattr(a, name)(b), want)
    t = a.clone()
    assert getattr(t, name + "_")(b) is t and t._version == 1
    assert torch.equal(t, want.to(F8)) and t.dtype is F8
    out = torch.empty_like(want)
    assert getattr(torch, name)(a, b, out=out) is out and torch.equal(out, want)


def test_in_place_broadcasts_only_the_other():
    t = torch.zeros(2, 3)
    t.add_(torch.arange(3.0)).mul_(torch.tensor([[1.0], [2.0]]))
    assert t.tolist() == [[0, 1, 2], [0, 2, 4]]
    with pytest.raises(
        RuntimeError, match=r"output with shape \[1\] doesn't match the broadcast shape \[3\]"
    ):
        torch.ones(1).add_(torch.ones(3))
    with pytest.raises(RuntimeError, match="must match"):
        torch.ones(2).add_(torch.ones(3))


def test_in_place_on_self():
    t = torch.arange(4.0)
    t.add_(t)
    assert t.tolist() == [0, 2, 4, 6]
    t.mul_(t)
    assert t.tolist() == [0, 4, 16, 36]
    t[:] = t
    assert t.tolist() == [0, 4, 16, 36]


def test_partial_overlap_is_refused():
    t = torch.arange(6.0)
    with pytest.raises(RuntimeError, match="memory location|overlap"):
        t[1:].add_(t[:-1])
    with pytest.raises(RuntimeError, match="more than one element of the written-to tensor"):
        torch.ones(3, 1).expand(3, 3).add_(1)
    with pytest.raises(RuntimeError, match="memory location|overlap"):
        torch.add(t[:-1], 1, out=t[1:])
    assert t.tolist() == [0, 1, 2, 3, 4, 5]


def test_copy():
    t = torch.zeros(2, 3)
    assert t.copy_(torch.arange(3)) is t and t.tolist() == [[0, 1, 2]] * 2
    t.copy_(torch.full((2, 1), 1.75, dtype=F8))
    assert t.tolist() == [[1.75] * 3] * 2
    i = torch.zeros(2, dtype=torch.int64)
    i.copy_(torch.tensor([1.9, -1.9]))
    assert i.tolist() == [1, -1]
    with pytest.raises(RuntimeError, match="must match"):
        t.copy_(torch.ones(2))
    with pytest.raises(TypeError):
        t.copy_([1, 2, 3])
    tr = torch.arange(4.0).reshape(2, 2)
    tr.t().copy_(torch.tensor([[1.0, 2], [3, 4]]))
    assert tr.tolist() == [[1, 3], [2, 4]]


def test_copy_of_a_number():
    t = torch.zeros(2)
    assert t.copy_(3) is t and t.tolist() == [3, 3]
    assert t.copy_(2.5).tolist() == [2.5, 2.5] and t.copy_(True).tolist() == [1, 1]
    assert torch.zeros(2, dtype=torch.int64).copy_(-3.7).tolist() == [-3, -3]
    x = torch.ones(3, requires_grad=True)
    y = x * 2
    y[:2].copy_(5)
    y.sum().backward()
    assert y.tolist() == [5, 5, 2] and x.grad.tolist() == [0, 0, 2]


def test_fill_and_zero():
    t = torch.empty(2, 2)
    assert t.fill_(3).tolist() == [[3, 3], [3, 3]] and t.zero_().tolist() == [[0, 0], [0, 0]]
    assert t.fill_(torch.tensor(2.5)).sum().item() == 10
    assert torch.ones(2, dtype=torch.int64).fill_(2.7).tolist() == [2, 2]
    with pytest.raises(RuntimeError, match="0-dim"):
        t.fill_(torch.ones(2))
    with pytest.raises(TypeError):
        t.fill_("a")
    with pytest.raises(RuntimeError, match="overflow"):
        torch.ones(2, dtype=torch.uint8).fill_(300)


def test_fill_diagonal():
    t = torch.zeros(2, 3)
    assert t.fill_diagonal_(5).tolist() == [[5, 0, 0], [0, 5, 0]]


def test_alpha_and_value_arguments():
    a, b = torch.ones(2), torch.full((2,), 3.0)
    assert torch.add(a, b, alpha=2).tolist() == [7, 7]
    assert torch.sub(a, b, alpha=2).tolist() == [-5, -5]
    assert a.clone().add_(b, alpha=-1).tolist() == [-2, -2]
    assert torch.addcmul(a, b, b, value=2).tolist() == [19, 19]
    assert torch.addcdiv(a, b, b, value=2).tolist() == [3, 3]
    assert a.clone().addcmul_(b, b).tolist() == [10, 10]
    assert a.clone().addcdiv_(b, b).tolist() == [2, 2]
    with pytest.raises(RuntimeError, match="alpha"):
        torch.add(torch.tensor([1]), 1, alpha=1.5)
    with pytest.raises(RuntimeError, match="alpha"):
        torch.add(torch.tensor([True]), torch.tensor([True]), alpha=1.5)


# ---------------------------------------------------------------- out=


def test_out_resizes_empty_silently():
    out = torch.empty(0)
    assert torch.add(torch.ones(2, 3), 1, out=out) is out and out.shape == (2, 3)
    assert out.tolist() == [[2] * 3] * 2


def test_out_resize_of_non_empty_warns():
    out = torch.empty(5)
    with pytest.warns(UserWarning, match="resized"):
        torch.add(torch.ones(2), 1, out=out)
    assert out.tolist() == [2, 2]


def test_out_casting():
    a = torch.tensor([1.5, 2.5])
    out = torch.empty(2, dtype=F8)
    assert torch.add(a, 1, out=out).tolist() == [2.5, 3.5]
    half = torch.empty(2, dtype=torch.float16)
    assert torch.add(a, 1, out=half).dtype is torch.float16
    with pytest.raises(RuntimeError, match="can't be cast to the desired output type"):
        torch.add(a, 1, out=torch.empty(2, dtype=torch.int64))
    with pytest.raises(RuntimeError, match="can't be cast"):
        torch.add(torch.tensor([1]), 1, out=torch.empty(1, dtype=torch.bool))
    with pytest.raises(RuntimeError, match="dtype"):
        torch.matmul(torch.ones(2, 2), torch.ones(2, 2), out=torch.empty(2, 2, dtype=F8))


def test_out_and_grad():
    w = torch.ones(2, requires_grad=True)
    with pytest.raises(RuntimeError, match="out=.* don't support automatic differentiation"):
        torch.add(w, 1, out=torch.empty(2))
    with pytest.raises(RuntimeError, match="out=.* don't support automatic differentiation"):
        torch.add(torch.ones(2), 1, out=w)
    with torch.no_grad():
        assert torch.add(w, 1, out=torch.empty(2)).tolist() == [2, 2]


def test_out_type():
    with pytest.raises(TypeError, match="out"):
        torch.add(torch.ones(2), 1, out=[1, 2])


@pytest.mark.parametrize(
    "f,args",
    [
        (torch.sum, (0,)),
        (torch.mean, (0,)),
        (torch.prod, (0,)),
        (torch.amax, (0,)),
        (torch.amin, (0,)),
        (torch.all, (0,)),
        (torch.any, (0,)),
        (torch.argmax, (0,)),
        (torch.argmin, (0,)),
        (torch.logsumexp, (0,)),
        (torch.cumsum, (0,)),
        (torch.cumprod, (0,)),
        (torch.softmax, (0,)),
        (torch.tril, ()),
        (torch.triu, ()),
        (torch.index_select, (0, torch.tensor([1, 0]))),
        (torch.gather, (0, torch.tensor([[0, 1, 1]]))),
        (torch.clamp, (0.5, 1.5)),
        (torch.mv, (torch.arange(3.0),)),
        (torch.mm, (torch.ones(3, 2),)),
        (torch.matmul, (torch.ones(3, 2),)),
        (torch.maximum, (torch.ones(3),)),
        (torch.minimum, (torch.ones(3),)),
        (torch.masked_select, (torch.tensor([True, False, True]),)),
        (torch.nonzero, ()),
        (torch.argsort, ()),
        (torch.logical_not, ()),
        (torch.lerp, (torch.ones(3), 0.5)),
    ],
    ids=lambda v: getattr(v, "__name__", ""),
)
def test_out_of_other_families(f, args):
    x = torch.tensor([[0.0, 1.0, 2.0], [3.0, 1.0, -1.0]])
    want = f(x, *args)
    if f is torch.argsort:
        return
    out = torch.empty_like(want)
    assert f(x, *args, out=out) is out and torch.equal(out, want)
    out = torch.empty(0, dtype=want.dtype)
    assert f(x, *args, out=out) is out and torch.equal(out, want)


def test_out_of_sequences_and_pairs():
    a, b = torch.ones(2), torch.zeros(2)
    out = torch.empty(4)
    assert torch.cat([a, b], out=out) is out and out.tolist() == [1, 1, 0, 0]
    out = torch.empty(2, 2)
    assert torch.stack([a, b], out=out) is out and out.tolist() == [[1, 1], [0, 0]]
    x = torch.tensor([[3.0, 1.0], [2.0, 5.0]])
    for f, args in [(torch.max, (1,)), (torch.min, (1,)), (torch.sort, (1,)), (torch.topk, (1,))]:
        want = f(x, *args)
        values, indices = torch.empty_like(want[0]), torch.empty_like(want[1])
        f(x, *args, out=(values, indices))
        assert torch.equal(values, want[0]) and torch.equal(indices, want[1])


# ---------------------------------------------------------------- leaf rules (values only)


def test_leaf_that_requires_grad_is_protected():
    w = torch.ones(2, requires_grad=True)
    for write in (
        lambda: w.add_(1),
        lambda: w.zero_(),
        lambda: w.__setitem__(0, 1.0),
        lambda: w.copy_(torch.zeros(2)),
        lambda: w.uniform_(),
    ):
        with pytest.raises(RuntimeError, match="leaf Variable that requires grad"):
            write()
    with pytest.raises(RuntimeError, match="leaf"):
        w[:1].add_(1)
    assert w.tolist() == [1, 1] and w._version == 0
    with torch.no_grad():
        w -= 0.5
        w[0] = 3.0
    assert w.tolist() == [3, 0.5] and w.requires_grad and w.is_leaf


def test_failed_in_place_writes_nothing():
    t = torch.arange(3)
    for write in (
        lambda: t.add_(torch.ones(4, dtype=torch.int64)),
        lambda: t.add_(0.5),
        lambda: t.mul_(torch.ones(3)),
        lambda: t.copy_(torch.ones(2)),
        lambda: t.fill_("x"),
    ):
        with pytest.raises((RuntimeError, TypeError)):
            write()
    assert t.tolist() == [0, 1, 2] and t._version == 0


def test_random_in_place_fills():
    t = torch.empty(1000, dtype=F8)
    for fill, lo, hi in [
        (lambda: t.uniform_(-2, 3), -2, 3),
        (lambda: t.normal_(0, 0.1), -1, 1),
        (lambda: t.bernoulli_(0.5), 0, 1),
        (lambda: t.random_(0, 10), 0, 9),
        (lambda: t.exponential_(), 0, 60),
    ]:
        assert fill() is t
        assert lo <= t.min().item() and t.max().item() <= hi and np.unique(t.numpy()).size > 1
