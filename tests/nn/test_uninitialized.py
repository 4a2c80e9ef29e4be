# SPDX-License-Identifier: BSD-3-Clause
"""Parameters and buffers without a shape raise where values or a shape would be read."""

import copy
import pickle

import pytest

import cograd as torch
from cograd import nn

LAZY = [nn.UninitializedParameter, nn.UninitializedBuffer]

USES = {
    "add": lambda p: p + 1,
    "mul": lambda p: torch.mul(p, 2),
    "sum": lambda p: p.sum(),
    "stack": lambda p: torch.stack([p, p]),
    "linear": lambda p: nn.functional.linear(torch.ones(2, 0), p),
    "zero_": lambda p: p.zero_(),
    "normal_": lambda p: nn.init.normal_(p),
    "clone": lambda p: p.clone(),
    "detach": lambda p: p.detach(),
    "getitem": lambda p: p[0],
    "eq": lambda p: p == 1,
    "Parameter": lambda p: nn.Parameter(p),
    "numel": lambda p: p.numel(),
    "dim": lambda p: p.dim(),
    "len": lambda p: len(p),
    "stride": lambda p: p.stride(),
    "data_ptr": lambda p: p.data_ptr(),
    "untyped_storage": lambda p: p.untyped_storage(),
}


@pytest.mark.parametrize("use", USES.values(), ids=list(USES))
@pytest.mark.parametrize("kind", LAZY)
def test_uses_raise(kind, use):
    with pytest.raises(
        ValueError, match=r"uninitialized parameter or buffer.*Call the module once"
    ):
        use(kind())


@pytest.mark.parametrize("kind", LAZY)
def test_shape_and_shared_memory_raise(kind):
    with pytest.raises(RuntimeError, match="Can't access the shape"):
        kind().shape
    with pytest.raises(RuntimeError, match="share_memory_"):
        kind().share_memory_()


@pytest.mark.parametrize("kind", LAZY)
def test_attributes_copies_and_pickles_work(kind):
    p = kind(dtype=torch.float64)
    assert (p.dtype, p.grad, p.is_leaf, p.size()) == (torch.float64, None, True, (0,))
    assert p.is_floating_point() and not p.is_complex() and not p.is_cuda
    assert repr(p) == f"<{kind.__name__}>"
    for other in (copy.deepcopy(p), pickle.loads(pickle.dumps(p))):
        assert type(other) is kind
        assert other.dtype == torch.float64
        assert other.requires_grad == p.requires_grad
    p.materialize((2, 3))
    assert type(p) is kind.cls_to_become
    assert (p.fill_(1) if kind is LAZY[1] else p.detach().fill_(1)).sum() == 6


def test_a_buffer_keeps_its_persistence():
    p = nn.UninitializedBuffer(persistent=False)
    assert not pickle.loads(pickle.dumps(p)).persistent
    assert not copy.deepcopy(p).persistent


@pytest.mark.parametrize("module", [nn.LazyLinear(2), nn.LazyBatchNorm1d(), nn.LazyConv1d(2, 1)])
def test_modules_convert_before_their_first_call(module):
    module = copy.deepcopy(module).double()
    assert {p.dtype for p in module.parameters()} == {torch.float64}
    module.to(torch.float32).requires_grad_(False).zero_grad()
    with pytest.raises(ValueError, match="numel"):
        sum(p.numel() for p in module.parameters())
    module(torch.ones(3, 4, 5))
    assert sum(p.numel() for p in module.parameters()) > 0


def test_other_tensors_work_beside_them():
    nn.LazyLinear(3)
    x = torch.ones(2, requires_grad=True)
    w = nn.Parameter(torch.ones(2))
    assert type(x * w) is torch.Tensor
    (x * w).sum().backward()
    assert torch.equal(w.grad, torch.ones(2))


def test_a_parameter_subclass_overrides_functions():
    """The most derived class decides, as in torch: Parameter's own switch does not."""
    seen = []

    class Loud(nn.Parameter):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            seen.append(func.__name__)
            return super().__torch_function__(func, types, args, kwargs)

    class Quiet(Loud):
        __torch_function__ = torch._C._disabled_torch_function_impl

    assert type(Loud(torch.ones(2)) + 1) is torch.Tensor
    assert seen == ["add"]
    assert type(Quiet(torch.ones(2)) + 1) is torch.Tensor
    assert seen == ["add"]
