# SPDX-License-Identifier: BSD-3-Clause
"""Methods that change a tensor's own shape and strides, and writes to its diagonal."""

import numpy as np
import pytest

import cograd as torch
from cograd.autograd import gradcheck

F8 = torch.float64
CASES = {
    "t_": ((2, 3), ()),
    "transpose_": ((2, 3, 4), (0, -1)),
    "swapaxes_": ((2, 3, 4), (0, 1)),
    "swapdims_": ((2, 3, 4), (2, 1)),
    "squeeze_": ((2, 1, 3, 1), ()),
    "unsqueeze_": ((2, 3), (1,)),
    "as_strided_": ((6,), ((2, 2), (3, 1), 1)),
}
EXTRA = [("squeeze_", (2, 1, 3), (1,)), ("squeeze_", (2, 1, 3, 1), ((1, -1),))]
ALL = [(name, *case) for name, case in CASES.items()] + EXTRA


def numbers(shape):
    return torch.arange(float(np.prod(shape)), dtype=F8).reshape(shape)


@pytest.mark.parametrize("name,shape,args", ALL)
def test_values_and_identity(name, shape, args):
    x = numbers(shape)
    other = x.detach()
    want = getattr(x.clone(), name[:-1])(*args)
    address, version = x.data_ptr(), x._version
    assert getattr(x, name)(*args) is x
    assert torch.equal(x, want) and x.stride() == want.stride()
    assert x._version == version + 1 and other.shape == shape
    if name != "as_strided_":
        assert x.data_ptr() == address


@pytest.mark.parametrize("name,shape,args", ALL)
def test_gradients(name, shape, args):
    x = numbers(shape).requires_grad_()

    def of_result(x):
        y = x * x
        getattr(y, name)(*args)
        y.mul_(2)
        return y * y

    def of_view(x):
        y = x * 1
        view = y.view(shape)
        getattr(view, name)(*args)
        view.mul_(2)
        return view.sin(), y * y

    assert gradcheck(of_result, (x,))
    assert gradcheck(of_view, (x,))


def test_node_names():
    x = torch.ones(2, 1, requires_grad=True)
    for name, want in {
        "t_": "TBackward1",
        "squeeze_": "SqueezeBackward3",
        "transpose_": "TransposeBackward1",
        "unsqueeze_": "UnsqueezeBackward1",
    }.items():
        args = {"transpose_": (0, 1), "unsqueeze_": (0,)}.get(name, ())
        assert getattr(x * 1, name)(*args).grad_fn.name() == want
    assert (x * 1).squeeze_(1).grad_fn.name() == "SqueezeBackward4"
    assert (x * 1).squeeze_((0, 1)).grad_fn.name() == "SqueezeBackward5"


def test_leaves_and_views_are_protected():
    w = torch.ones(2, 3, requires_grad=True)
    with pytest.raises(RuntimeError, match="leaf Variable that requires grad"):
        w.t_()
    with pytest.raises(RuntimeError, match="view of a leaf"):
        w[:, :2].t_()
    with torch.no_grad():
        assert w.t_().shape == (3, 2) and w.is_leaf
    with pytest.raises(RuntimeError, match="multiple views"):
        (w * 1).unbind()[0].unsqueeze_(0)
    assert w.shape == (3, 2)


def test_bad_arguments_change_nothing():
    x = torch.ones(2, 3, 4)
    with pytest.raises(RuntimeError, match="<= 2 dimensions"):
        x.t_()
    with pytest.raises(IndexError):
        x.transpose_(0, 3)
    with pytest.raises(IndexError):
        x.unsqueeze_(5)
    assert x.shape == (2, 3, 4) and x._version == 0


def test_a_value_saved_before_is_invalid():
    x = torch.ones(2, 2, requires_grad=True)
    y = x * 1
    z = y.sin()
    y.t_()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        z.sum().backward()


def test_resize():
    x = torch.arange(6)
    assert x.resize_(2, 2) is x and x._version == 1
    assert x.resize_(1, 3).tolist() == [[0, 1, 2]]
    big = torch.arange(3.0)
    big.resize_(100)
    assert big.shape == (100,) and big[:3].tolist() == [0, 1, 2]
    m = torch.arange(6).reshape(2, 3).t()
    assert m.resize_(3, 2).stride() == (1, 3) and m.resize_(2, 3).stride() == (3, 1)
    assert torch.ones(3).resize_as_(torch.zeros(2, 2)).shape == (2, 2)
    view = torch.arange(6)[2:]
    assert view.resize_(2, 2).tolist() == [[2, 3], [4, 5]]


def test_resize_errors():
    w = torch.ones(3, requires_grad=True)
    for t in (w, w * 1):
        with pytest.raises(RuntimeError, match="cannot resize variables that require grad"):
            t.resize_(2)
    x = torch.ones(3)
    alias = x.detach()
    with pytest.raises(RuntimeError, match="shares its 12 bytes"):
        x.resize_(4)
    with pytest.raises(RuntimeError, match="negative dimension"):
        x.resize_(-1)
    with pytest.raises(RuntimeError, match="overflow"):
        x.resize_(2**62, 2**62)
    with pytest.raises(RuntimeError, match="not resizable"):
        torch.from_numpy(np.ones(3)).resize_(9)
    assert x.tolist() == alias.tolist() == [1, 1, 1]


def test_fill_diagonal():
    x = torch.zeros(7, 3)
    want = np.zeros((7, 3))
    np.fill_diagonal(want, 5, wrap=True)
    assert x.fill_diagonal_(5, wrap=True).tolist() == want.tolist()
    cube = torch.zeros(3, 3, 3).fill_diagonal_(2)
    assert cube.nonzero().tolist() == [[i] * 3 for i in range(3)]
    t = torch.zeros(2, 4).t()
    assert t.fill_diagonal_(1).tolist() == [[1, 0], [0, 1], [0, 0], [0, 0]]
    x = torch.ones(4, 3, dtype=F8, requires_grad=True)
    assert gradcheck(lambda x: (x * x).fill_diagonal_(3.0), (x,))
    with pytest.raises(RuntimeError, match="larger than 1"):
        torch.zeros(3).fill_diagonal_(1)
    with pytest.raises(RuntimeError, match="equal length"):
        torch.zeros(3, 3, 2).fill_diagonal_(1)
    with pytest.raises(RuntimeError, match="overflow"):
        torch.zeros(3, 3, dtype=torch.uint8).fill_diagonal_(300)


@pytest.mark.parametrize(
    "call",
    [
        lambda: torch.full(2, 3),
        lambda: torch.randint(3, 2),
        lambda: torch.randint(1, 3, 2),
        lambda: torch.zeros(size=2),
        lambda: torch.empty_strided(2, 1),
        lambda: torch.ones(2).as_strided(2, 1),
        lambda: torch.ones(2).new_full(2, 3),
        lambda: torch.ones(2, 3).unflatten(1, 3),
        lambda: torch.ones(2).expand(size=3),
        lambda: torch.layer_norm(torch.ones(2, 3), 3),
        lambda: torch.split_with_sizes(torch.ones(2), 2),
        lambda: torch.normal(0.0, 1.0, 2),
    ],
)
def test_an_int_is_no_size(call):
    with pytest.raises(TypeError):
        call()


def test_an_int_serves_as_a_list_of_dims():
    x = torch.ones(2, 3)
    assert x.sum(0).shape == (3,) and torch.roll(x, 1, 0).shape == (2, 3)
    assert x.movedim(0, 1).shape == (3, 2) and torch.zeros(2).shape == (2,)
    assert x.view(6).shape == x.reshape(6).shape == (6,) and x[0].expand(3).shape == (3,)


def test_an_int_is_no_bool():
    x = torch.ones(2, 3)
    for call in (
        lambda: x.sum(0, 1),
        lambda: x.sum(0, keepdim=1),
        lambda: torch.zeros(2, requires_grad=1),
        lambda: torch.sort(x, 0, 1),
        lambda: x.nonzero(as_tuple=1),
        lambda: torch.dropout(x, 0.5, 1),
    ):
        with pytest.raises(TypeError):
            call()


def test_out_of_another_dtype():
    x = torch.eye(2)
    for name, args in {"mm": (x, x), "tril": (x,), "amax": (x, 0), "softmax": (x, 0)}.items():
        with pytest.raises(RuntimeError, match="Expected out tensor to have dtype"):
            getattr(torch, name)(*args, out=torch.empty(0, dtype=F8))
    assert torch.sum(x, 0, out=torch.empty(2, dtype=F8)).tolist() == [1, 1]


def test_matrix_transposes():
    x = torch.ones(2, 3, 4)
    with pytest.raises(RuntimeError, match="only supported on matrices"):
        _ = x.H
    assert x.mH.shape == (2, 4, 3) and x[0].H.shape == (4, 3)


def test_overlap_with_dims_of_size_one():
    x = torch.arange(40.0)
    with pytest.raises(RuntimeError, match="single memory location"):
        x.as_strided((6, 1), (1, 2), 10).add_(x.as_strided((6, 1), (1, 2), 6))


def test_gradient_of_the_shape_that_a_leaf_had_before_raises():
    x = torch.zeros(2, 3).requires_grad_()
    y = x * 2
    with torch.no_grad():
        x.t_()
    with pytest.raises(
        RuntimeError, match=r"got \[2, 3\] but expected shape compatible with \[3, 2\]"
    ):
        y.sum().backward()
    assert x.grad is None
    (x * 3).sum().backward()
    assert x.grad.tolist() == [[3, 3]] * 3
