# SPDX-License-Identifier: BSD-3-Clause
"""Ops inside vmap that need the values of one sample, and batched tensors that outlive the vmap."""

import copy
import pickle

import numpy as np
import pytest
from vmap_checks import X, agree, grid, looped

import cograd as torch
import cograd.nn.functional as F
from cograd.func import vmap

VALUES = "inside of a vmap"


# --- ops that need values ----------------------------------------------------------------------

REFUSED = {
    "item": lambda a: a[0].item(),
    "bool": lambda a: bool(a[0] > 0),
    "if": lambda a: 1 if a.any() else 0,
    "int": lambda a: int(a[0]),
    "float": lambda a: float(a[0]),
    "complex": lambda a: complex(a[0]),
    "index": lambda a: [1, 2, 3][a[0].long()],
    "range": lambda a: range(a[0].long()),
    "format": lambda a: f"{a[0]:.2f}",
    "in": lambda a: 3 in a,
    "tolist": lambda a: a.tolist(),
    "numpy": lambda a: a.numpy(),
    "numpy force": lambda a: a.numpy(force=True),
    "asarray": lambda a: np.asarray(a),
    "dlpack": lambda a: a.__dlpack__(),
    "data_ptr": lambda a: a.data_ptr(),
    "storage": lambda a: a.untyped_storage(),
    "pickle": lambda a: pickle.dumps(a),
    "deepcopy": lambda a: copy.deepcopy(a),
    "tensor of parts": lambda a: torch.tensor([a[0], a[1]]),
    "alpha": lambda a: a.add(a, alpha=a[0]),
    "fill value": lambda a: torch.full((2,), a[0]),
    "equal": lambda a: a.equal(a * 1),
    "allclose": lambda a: a.allclose(a * 1),
    "is_nonzero": lambda a: torch.is_nonzero(a[0]),
    "set data": lambda a: setattr(a, "data", grid(3)),
    "detach_": lambda a: a.detach_(),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_needs_one_value_raises(name):
    def f(a):
        REFUSED[name](a)
        return a

    with pytest.raises(RuntimeError, match=VALUES):
        vmap(f)(X)
    assert torch.equal(vmap(lambda a: a + 1)(X), X + 1)


def test_the_refusal_says_what_to_do_instead():
    with pytest.raises(RuntimeError, match=r"where\(condition, a, b\).*loop over the samples"):
        vmap(lambda a: a if a.sum() > 0 else -a)(X)


def test_a_buffer_of_a_sample_is_refused():
    with pytest.raises(RuntimeError, match=VALUES):
        vmap(lambda a: memoryview(a))(X)


BY_VALUES = {
    "nonzero": lambda a: a.nonzero(),
    "argwhere": lambda a: torch.argwhere(a),
    "where": lambda a: torch.where(a > 0)[0],
    "unique": lambda a: a.unique(),
    "unique_consecutive": lambda a: a.unique_consecutive(),
    "masked_select": lambda a: a.masked_select(a > 0),
    "mask": lambda a: a[a > 0],
    "repeat_interleave": lambda a: a.repeat_interleave(a.long()),
    "bincount": lambda a: torch.bincount(a.long()),
    "one_hot": lambda a: F.one_hot(a.long()),
}


@pytest.mark.filterwarnings("ignore:vmap")
@pytest.mark.parametrize("name", BY_VALUES)
def test_shapes_that_depend_on_values(name):
    x = torch.tensor([[0.0, 1.0, 2.0], [1.0, 1.0, 5.0]])
    with pytest.raises(RuntimeError, match=r"shape that depends on the values.*where\(condition"):
        vmap(BY_VALUES[name])(x)
    even = x[:1].expand(2, 3)
    assert torch.equal(vmap(BY_VALUES[name])(even), looped(BY_VALUES[name], even))


FIXED = {
    "argsort": lambda a: a.argsort(descending=True),
    "argsort dim": lambda a: a[None].argsort(0),
    "isin": lambda a: torch.isin(a, a[:1]),
    "histc": lambda a: torch.histc(a, 4),
    "quantile": lambda a: a.quantile(0.3),
    "nanquantile": lambda a: a.nanquantile(torch.tensor([0.3, 0.5])),
    "searchsorted": lambda a: torch.searchsorted(a, a + 0.5),
    "bucketize": lambda a: torch.bucketize(a, a + 0.5),
    "one_hot": lambda a: F.one_hot(a.long(), 9),
}


@pytest.mark.filterwarnings("ignore:vmap")
@pytest.mark.parametrize("name", FIXED)
def test_shapes_that_do_not(name):
    agree(FIXED[name], grid(2, 3, dtype=torch.float32))


def test_a_sample_is_printed_with_all_of_them():
    seen = []
    vmap(lambda a: seen.append(repr(a)) or a, 1)(grid(2, 2))
    text = seen.pop()
    assert text.startswith("BatchedTensor(lvl=")
    assert "bdim=1" in text
    assert "[2., 3.]" in text


# --- samples that outlive their vmap -----------------------------------------------------------

ESCAPED = {
    "add": lambda t: t + 1,
    "add to": lambda t: grid(3) + t,
    "sum": lambda t: t.sum(),
    "view": lambda t: t[0],
    "matmul": lambda t: t @ t,
    "clone": lambda t: t.clone(),
    "item": lambda t: t[0].item(),
    "write": lambda t: t.add_(1),
    "set": lambda t: t.__setitem__(0, 1.0),
    "written": lambda t: grid(3).copy_(t),
    "written part": lambda t: grid(3).__setitem__(0, t[0]),
    "stack": lambda t: torch.stack([t, t]),
    "factory": lambda t: torch.zeros_like(t),
    "random": lambda t: torch.rand_like(t),
    "out": lambda t: torch.add(grid(3), 1, out=t),
    "numpy": lambda t: t.numpy(),
    "tolist": lambda t: t.tolist(),
    "pickle": lambda t: pickle.dumps(t),
    "in another vmap": lambda t: vmap(lambda a: a + t)(X),
    "returned by another": lambda t: vmap(lambda a: t)(X),
    "mapped by another": lambda t: vmap(lambda a: a + 1)(t),
}


@pytest.mark.parametrize("name", ESCAPED)
def test_samples_used_after_their_vmap_raise(name):
    kept = []
    vmap(lambda a: kept.append(a * 2) or a)(X)
    with pytest.raises((RuntimeError, NotImplementedError), match="vmap|out= function"):
        ESCAPED[name](kept[0])
    assert kept[0].shape == (3,)
    kept.clear()
    assert torch.equal(X + 1, X.clone().add_(1))


def test_exceptions_leave_no_level_open():
    def fail(a):
        raise KeyError("mine")

    for f in (fail, lambda a: vmap(fail)(a), lambda a: a.item(), lambda a: a @ grid(5)):
        with pytest.raises((KeyError, RuntimeError)):
            vmap(f)(X)
        assert torch._C._vmap_depth() == 0
    assert torch.rand(2).shape == (2,)  # would raise inside vmap


def test_a_caught_exception_inside_goes_on():
    def f(a):
        with pytest.raises(RuntimeError, match=VALUES):
            a.sum().item()
        with pytest.raises(ZeroDivisionError):
            vmap(lambda b: 1 / 0)(a)
        return a + 1

    assert torch.equal(vmap(f)(X), X + 1)
