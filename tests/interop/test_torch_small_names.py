# SPDX-License-Identifier: BSD-3-Clause
"""Small functions of torch that programs call: copies of views, pruning's helpers, _vmap."""

import inspect

import pytest

import cograd as torch
from cograd import _vmap_internals, nn
from cograd._functions import view_copies
from cograd.nn.utils import prune

X = torch.arange(24.0).reshape(2, 3, 4)
COPIES = {
    "alias": ((), X),
    "as_strided": (((2, 2), (1, 12), 1), X.as_strided((2, 2), (1, 12), 1)),
    "detach": ((), X.detach()),
    "diagonal": ((1, 0, 2), X.diagonal(1, 0, 2)),
    "expand": (((5, 2, 3, 4),), X.expand(5, 2, 3, 4)),
    "narrow": ((1, 1, 2), X.narrow(1, 1, 2)),
    "permute": (((2, 0, 1),), X.permute(2, 0, 1)),
    "select": ((-1, 2), X[..., 2]),
    "slice": ((2, 1, None, 2), X[:, :, 1::2]),
    "split": ((2, 1), X.split(2, 1)),
    "split_with_sizes": (((1, 3), 2), X.split([1, 3], 2)),
    "squeeze": ((0,), X.squeeze(0)),
    "transpose": ((0, 2), X.transpose(0, 2)),
    "unbind": ((1,), X.unbind(1)),
    "unfold": ((2, 2, 1), X.unfold(2, 2, 1)),
    "unsqueeze": ((1,), X.unsqueeze(1)),
    "view": (((4, 6),), X.view(4, 6)),
    "view_as_complex": ((), torch.view_as_complex(X.view(2, 3, 2, 2))),
}
IN = {"view_as_complex": X.view(2, 3, 2, 2)}


@pytest.mark.parametrize("name", COPIES)
def test_copies_of_views(name):
    args, want = COPIES[name]
    copy, x = getattr(torch, f"{name}_copy"), IN.get(name, X)
    found = copy(x, *args)
    many = isinstance(want, tuple)
    pairs = list(zip(found, want, strict=True)) if many else [(found, want)]
    for got, right in pairs:
        assert torch.equal(got, right) and got.is_contiguous()
        assert got._base is None and got.data_ptr() != x.data_ptr()
    into = [torch.empty(0, dtype=got.dtype) for got, _ in pairs]
    copy(x, *args, out=into if many else into[0])
    assert all(torch.equal(got, place) for (got, _), place in zip(pairs, into, strict=True))
    leaf = x.clone().requires_grad_()
    result = copy(leaf, *args)
    total = sum(torch.view_as_real(r).sum() if r.is_complex() else r.sum() for r in pairs[0][:1])
    assert total.isfinite()
    if name != "detach":
        (result[0] if many else result).abs().sum().backward()
        assert leaf.grad.shape == x.shape and leaf.grad.abs().sum() > 0


def test_every_copy_is_tested_and_real_and_t_too():
    tested = {f"{name}_copy" for name in COPIES} | {"t_copy", "view_as_real_copy"}
    assert tested == set(view_copies.__all__)
    assert torch.equal(torch.t_copy(X[0]), X[0].t()) and torch.t_copy(X[0]).is_contiguous()
    z = torch.complex(X, X + 1)
    assert torch.equal(torch.view_as_real_copy(z), torch.view_as_real(z))
    assert torch.view_copy(X, torch.int32).dtype is torch.int32
    turned = torch.arange(6.0).reshape(2, 3).t()
    assert torch.view_copy(turned, (6,)).tolist() == [0, 3, 1, 4, 2, 5]
    with pytest.raises(IndexError, match=r"dim must be in \[-3, 2\], got 3"):
        torch.slice_copy(X, 3)
    with pytest.raises(RuntimeError, match="a tensor for each of the 2 results, got 1"):
        torch.unbind_copy(X, out=[torch.empty(0)])
    assert "out" in inspect.signature(torch.expand_copy).parameters


def test_helpers_of_pruning():
    assert prune._compute_nparams_toprune(0.25, 10) == 2
    assert prune._compute_nparams_toprune(3, 10) == 3
    for call, kind in (
        (lambda: prune._compute_nparams_toprune(11, 10), ValueError),
        (lambda: prune._validate_pruning_amount(11, 10), ValueError),
        (lambda: prune._validate_pruning_amount_init(1.5), ValueError),
        (lambda: prune._validate_pruning_amount_init("all"), TypeError),
        (lambda: prune._validate_structured_pruning(torch.ones(3)), ValueError),
        (lambda: prune._validate_pruning_dim(X, 3), IndexError),
    ):
        with pytest.raises(kind):
            call()
    prune._validate_structured_pruning(X)
    prune._validate_pruning_dim(X, 2)
    norms = prune._compute_norm(X, 2, 1)
    assert torch.allclose(norms, (X**2).sum((0, 2)).sqrt())


def test_the_older_vmap():
    _vmap = _vmap_internals._vmap
    assert _vmap(lambda x: x * 2)(X[0]).tolist() == (X[0] * 2).tolist()
    total, nothing = _vmap(lambda x: (x.sum(), None), 1, 0, True)(X[0])
    assert total.tolist() == X[0].sum(0).tolist() and nothing is None
    with pytest.raises(ValueError, match="must only return Tensors"):
        _vmap(lambda x: None)(X[0])


def test_the_class_of_a_parameter_decides_what_its_ops_return():
    class Mine(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            with torch._C.DisableTorchFunctionSubclass():
                return func(*args, **(kwargs or {})).as_subclass(Mine)

    class Param(Mine, nn.Parameter):
        pass

    p = Param(torch.ones(2))
    assert type(p) is Param and isinstance(p, nn.Parameter)
    assert type(p.clone()) is Mine and type(p * 2) is Mine


def test_to_does_not_take_copy():
    with pytest.raises(RuntimeError, match="does not accept copy"):
        nn.Linear(1, 1).to(copy=True)
