# SPDX-License-Identifier: BSD-3-Clause
"""clone, copy, deepcopy and pickle."""

import copy
import io
import pickle

import numpy as np
import pytest

import cograd as torch

ALL = [
    torch.bool,
    torch.uint8,
    torch.int8,
    torch.int16,
    torch.int32,
    torch.int64,
    torch.float16,
    torch.bfloat16,
    torch.float32,
    torch.float64,
]


def round_trip(obj, protocol=pickle.DEFAULT_PROTOCOL):
    return pickle.loads(pickle.dumps(obj, protocol))


@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
@pytest.mark.parametrize("dtype", ALL)
def test_pickle_every_dtype(dtype, protocol):
    t = torch.tensor([[0, 1, 1], [1, 0, 1]], dtype=dtype)
    r = round_trip(t, protocol)
    assert r.dtype is dtype and r.shape == (2, 3) and torch.equal(r, t)
    assert r.data_ptr() != t.data_ptr()


@pytest.mark.parametrize(
    "t",
    [
        torch.tensor(2.5),
        torch.zeros(0),
        torch.zeros(2, 0, 3),
        torch.arange(6).reshape(2, 3).t(),
        torch.arange(10)[2:8:3],
        torch.tensor([float("nan"), float("inf"), -0.0]),
    ],
)
def test_pickle_layouts(t):
    r = round_trip(t)
    assert r.shape == t.shape and r.dtype is t.dtype and r.stride() == t.stride()
    np.testing.assert_array_equal(r.numpy(), t.numpy())


def test_pickle_requires_grad_leaf():
    r = round_trip(torch.ones(2, requires_grad=True))
    assert r.requires_grad and r.is_leaf and r.grad is None


@pytest.mark.beyond_torch
def test_pickle_of_non_leaf_raises():
    y = torch.ones(2, requires_grad=True) * 2
    with pytest.raises(RuntimeError, match="leaf|detach"):
        pickle.dumps(y)
    assert round_trip(y.detach()).tolist() == [2, 2]


def test_pickle_containers_and_sharing():
    t = torch.arange(3)
    r = round_trip({"a": t, "b": [t, (t,)]})
    assert r["a"] is r["b"][0] is r["b"][1][0]


def test_pickle_subclass():
    p = torch.nn.Parameter(torch.ones(2))
    r = round_trip(p)
    assert isinstance(r, torch.nn.Parameter) and r.requires_grad and r.tolist() == [1, 1]


def test_pickle_other_objects():
    for obj in (torch.float32, torch.bfloat16, torch.bool):
        assert round_trip(obj) is obj
    assert round_trip(torch.device("cpu")) == torch.device("cpu")
    assert round_trip(torch.Size([2, 3])) == torch.Size([2, 3])
    assert isinstance(round_trip(torch.Size([2, 3])), torch.Size)


def test_pickle_to_file_object():
    buf = io.BytesIO()
    pickle.dump([torch.ones(2)], buf)
    buf.seek(0)
    assert pickle.load(buf)[0].tolist() == [1, 1]


def test_clone():
    t = torch.arange(3.0)
    c = t.clone()
    c[0] = 9
    assert t.tolist() == [0, 1, 2] and torch.clone(t).tolist() == [0, 1, 2]
    assert torch.zeros(2, 3).t().clone().stride() == (1, 3)
    assert torch.zeros(3, 1).expand(3, 4).clone().is_contiguous()
    assert torch.zeros(4)[::2].clone().stride() == (1,)
    w = torch.ones(2, requires_grad=True)
    y = w.clone()
    assert y.requires_grad and not y.is_leaf
    y.sum().backward()
    assert w.grad.tolist() == [1, 1]


def test_shallow_copy_shares_memory():
    t = torch.arange(3)
    c = copy.copy(t)
    assert c is not t and c.tolist() == [0, 1, 2]
    c[0] = 7
    assert t.tolist() == [7, 1, 2]


def test_deepcopy():
    t = torch.arange(6).reshape(2, 3).t()
    c = copy.deepcopy(t)
    assert c.stride() == t.stride() and torch.equal(c, t)
    c[0, 0] = 9
    assert t[0, 0].item() == 0


def test_deepcopy_of_leaf_keeps_grad():
    w = torch.ones(2, requires_grad=True)
    (w * 3).sum().backward()
    c = copy.deepcopy(w)
    assert c.requires_grad and c.is_leaf and c.grad.tolist() == [3, 3]
    c.grad.zero_()
    assert w.grad.tolist() == [3, 3]


def test_deepcopy_of_non_leaf_raises():
    y = torch.ones(2, requires_grad=True) * 2
    with pytest.raises(RuntimeError, match="Only Tensors created explicitly by the user"):
        copy.deepcopy(y)
    assert copy.deepcopy(y.detach()).tolist() == [2, 2]


def test_deepcopy_memo_and_views():
    t = torch.arange(4)
    pair = copy.deepcopy([t, t])
    assert pair[0] is pair[1] and pair[0] is not t
    a, b = copy.deepcopy((t, t[1:3]))
    a[1] = 9
    assert b.tolist() == [9, 2]


def test_deepcopy_keeps_attributes():
    t = torch.ones(2)
    t.tag = {"k": [1]}
    c = copy.deepcopy(t)
    assert c.tag == {"k": [1]} and c.tag is not t.tag


def test_dynamic_attributes_and_weakref():
    import weakref

    t = torch.ones(2)
    t.name_of_mine = 3
    assert t.name_of_mine == 3
    ref = weakref.ref(t)
    assert ref() is t
    del t
    assert ref() is None
