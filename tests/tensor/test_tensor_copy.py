# SPDX-License-Identifier: BSD-3-Clause
"""clone, copy, deepcopy and pickle."""

import copy
import io
import pickle
import subprocess
import sys

import numpy as np
import pytest

import cograd as torch
from cograd.nn import functional as F

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


FUNCTIONS = {
    "torch.tanh": torch.tanh,
    "torch.relu": torch.relu,
    "torch.zeros": torch.zeros,
    "torch.einsum": torch.einsum,
    "torch.linalg.inv": torch.linalg.inv,
    "torch.tensor": torch.tensor,
    "torch.add": torch.add,
    "F.softsign": F.softsign,
    "F.linear": F.linear,
    "F.bilinear": F.bilinear,
    "F.layer_norm": F.layer_norm,
    "F.relu": F.relu,
    "F.one_hot": F.one_hot,
    "Tensor.exp": torch.Tensor.exp,
    "Tensor.add_": torch.Tensor.add_,
    "Tensor.numpy": torch.Tensor.numpy,
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_copy_and_pickle_by_name(name):
    f = FUNCTIONS[name]
    assert copy.copy(f) is f and copy.deepcopy({"f": f})["f"] is f
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        assert pickle.loads(pickle.dumps(f, protocol)) is f


def test_every_function_and_method_pickles_by_name():
    """For all built-in ops, their module and qualified name lead to the same op."""
    kinds = (type(torch.tanh), type(torch.Tensor.exp))
    places = (torch, torch._C._ops, torch._C._nn, torch.Tensor)
    ops = [vars(place)[name] for place in places for name in vars(place)]
    ops = {id(op): op for op in ops if type(op) in kinds}
    assert len(ops) > 800
    lost = [op for op in ops.values() if pickle.loads(pickle.dumps(op)) is not op]
    assert lost == []


def test_a_pickled_function_is_found_by_another_process():
    data = pickle.dumps([torch.tanh, F.linear, F.softsign, torch.Tensor.exp])
    code = f"import pickle; print([f.__qualname__ for f in pickle.loads({data!r})])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "['tanh', 'linear', 'softsign', 'Tensor.exp']"


@pytest.mark.parametrize(
    "t",
    [
        torch.ones(3, 4)[3:, 2:],
        torch.ones(3, 4)[3:, 4:],
        torch.ones(0, 3).t(),
        torch.ones(2, 3)[:, 3:],
        torch.ones(4)[4:],
        torch.ones(3, 4, 5)[3:, 4:, 5:],
        torch.ones(0).as_strided((0, 2**40), (2**40, 2**30)),
    ],
    ids=lambda t: f"{tuple(t.shape)} at {t.storage_offset()}",
)
def test_empty_views_copy_and_pickle(t):
    for made in (copy.deepcopy(t), copy.copy(t), pickle.loads(pickle.dumps(t))):
        assert made.shape == t.shape and made.stride() == t.stride()
        assert made.storage_offset() == t.storage_offset() and made.numel() == 0


@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
def test_pickled_parameters_keep_attributes(protocol):
    p = torch.nn.Parameter(torch.ones(2), requires_grad=False)
    p.no_decay, p.tags = True, ["a"]
    made = pickle.loads(pickle.dumps(p, protocol))
    assert made.no_decay is True and made.tags == ["a"] and type(made) is torch.nn.Parameter
    assert not made.requires_grad and vars(pickle.loads(pickle.dumps(torch.nn.Parameter(p)))) == {}


def test_names_in_pickles_of_the_alias():
    from cograd._tensor.pickle import _by_name

    assert _by_name("float32") is torch.float32 and _by_name("strided") is torch.strided
    assert _by_name("layout", "cograd.strided") is torch.strided  # from older files
    assert _by_name("memory_format", "cograd.channels_last") is torch.channels_last
    assert _by_name("Size", (1, 2)) == torch.Size([1, 2])
    assert _by_name("device", "cpu") == torch.device("cpu")
    for arguments in (("load", "f"), ("ones", 3), ("Tensor",), ("nn",), ("Size",), ("layout",),
                      ("strided", 1), ("layout", "torch.load"), ("layout", "float32"),
                      ("__builtins__",), ([],)):  # fmt: skip
        with pytest.raises((pickle.UnpicklingError, TypeError)):
            _by_name(*arguments)
