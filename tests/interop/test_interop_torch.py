# SPDX-License-Identifier: BSD-3-Clause
"""A call with tensors of cograd and of PyTorch raises a helpful TypeError, in any order.

PyTorch need not be installed: a class that behaves like torch.Tensor replaces it.
"""

import functools
import operator

import numpy as np
import pytest

import cograd
from cograd import nn, optim
from cograd.nn import functional as F

BOTH = r"cograd\.Tensor and torch\.Tensor do not mix in one call; .*cograd\.from_dlpack"


def as_torch(function):
    """A function of the replacement, which queries overriding arguments first, as torch does."""

    @functools.wraps(function)
    def call(*args, **kwargs):
        flat = [item for arg in args for item in (arg if isinstance(arg, list) else [arg])]
        for arg in flat:
            kind = type(arg)
            if kind is not Foreign and hasattr(kind, "__torch_function__"):
                result = kind.__torch_function__(call, (kind,), args, kwargs)
                if result is NotImplemented:
                    raise TypeError(f"no implementation found for 'torch.{function.__name__}'")
                return result
        return function(*args, **kwargs)

    call.__module__ = "torch"
    return call


def operator_of(name):
    @as_torch
    def method(self, other):
        return Foreign(getattr(operator, name)(self.array, other.array))

    method.__name__ = name

    def special(self, other):  # torch turns a TypeError into NotImplemented here
        try:
            return method(self, other)
        except TypeError:
            return NotImplemented

    return special


class Foreign:
    def __init__(self, array):
        self.array = np.asarray(array, dtype=np.float32)

    shape = property(lambda self: cograd.Size(self.array.shape))

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))

    def __dlpack__(self, *args, **kwargs):
        return self.array.__dlpack__(*args, **kwargs)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()

    __add__ = __radd__ = __iadd__ = operator_of("add")
    __mul__ = __rmul__ = operator_of("mul")
    __sub__ = __rsub__ = operator_of("sub")
    __matmul__ = __rmatmul__ = operator_of("matmul")
    __pow__ = __rpow__ = operator_of("pow")
    __eq__ = operator_of("eq")
    __lt__ = operator_of("lt")
    __gt__ = operator_of("gt")
    __hash__ = None

    def __float__(self):
        return float(self.array)


Foreign.__module__, Foreign.__name__, Foreign.__qualname__ = "torch", "Tensor", "Tensor"


@as_torch
def foreign_exp(input):
    return Foreign(np.exp(input.array))


@as_torch
def foreign_cat(tensors):
    return Foreign(np.concatenate([t.array for t in tensors]))


@pytest.fixture
def ours():
    return cograd.ones(2, 2)


@pytest.fixture
def theirs():
    return Foreign(np.ones((2, 2)))


OPERATORS = ["add", "sub", "mul", "matmul", "pow", "eq", "lt", "gt", "iadd"]


@pytest.mark.parametrize("name", OPERATORS)
def test_operators_both_ways(name, ours, theirs):
    run = getattr(operator, name)
    with pytest.raises(TypeError, match=BOTH):
        run(ours, theirs)
    with pytest.raises(TypeError, match=BOTH):
        run(theirs, ours)
    assert cograd.equal(ours, cograd.ones(2, 2))


@pytest.mark.parametrize("name", OPERATORS[:5])
def test_operators_of_a_subclass(name, theirs):
    class Mine(cograd.Tensor):
        pass

    mine = cograd.ones(2, 2).as_subclass(Mine)
    with pytest.raises(TypeError, match=BOTH):
        getattr(operator, name)(mine, theirs)
    with pytest.raises(TypeError, match=BOTH):
        getattr(operator, name)(theirs, mine)


CALLS = {
    "function": lambda c, t: cograd.add(c, t),
    "function, turned": lambda c, t: cograd.add(t, c),
    "function of it alone": lambda c, t: cograd.exp(t),
    "method": lambda c, t: c.mul(t),
    "in place": lambda c, t: c.add_(t),
    "copy_": lambda c, t: c.copy_(t),
    "keyword": lambda c, t: cograd.add(c, other=t),
    "out": lambda c, t: cograd.add(c, c, out=t),
    "list": lambda c, t: cograd.cat([c, t]),
    "tuple": lambda c, t: cograd.stack((c, t)),
    "several records": lambda c, t: cograd.where(c > 0, c, t),
    "variadic": lambda c, t: cograd.einsum("ij,jk", c, t),
    "nn.functional": lambda c, t: F.linear(c, t),
    "loss": lambda c, t: nn.MSELoss()(c, t),
    "module": lambda c, t: nn.Sequential(nn.Linear(2, 2), nn.ReLU())(t),
    "parameter": lambda c, t: nn.Parameter(t),
    "buffer": lambda c, t: nn.Buffer(t),
    "register_parameter": lambda c, t: nn.Linear(2, 2).register_parameter("p", t),
    "register_buffer": lambda c, t: nn.Linear(2, 2).register_buffer("b", t),
    "assigned parameter": lambda c, t: setattr(nn.Linear(2, 2), "weight", t),
    "optimizer": lambda c, t: optim.SGD([t], lr=1.0),
    "item": lambda c, t: operator.setitem(c, 0, t),
    "items": lambda c, t: operator.setitem(c, [0, 1], t),
    "data": lambda c, t: setattr(c, "data", t),
    "grad": lambda c, t: setattr(c, "grad", t),
    "backward": lambda c, t: c.requires_grad_().backward(t),
    "autograd.grad": lambda c, t: cograd.autograd.grad(t, c),
    "their function": lambda c, t: foreign_exp(c),
    "their function of a list": lambda c, t: foreign_cat([t, c]),
}


@pytest.mark.parametrize("name", CALLS)
def test_calls(name, ours, theirs):
    with pytest.raises(TypeError, match=BOTH):
        CALLS[name](ours, theirs)


def test_their_function_in_which_both_classes_are_asked(ours):
    kinds = (Foreign, cograd.Tensor)
    with pytest.raises(TypeError, match=r"torch\.foreign_exp\(\): .*" + BOTH):
        cograd.Tensor.__torch_function__(foreign_exp, kinds, (ours,), {})


@pytest.mark.parametrize(
    "call",
    [
        lambda c, t: c + t,
        lambda c, t: t * c,
        lambda c, t: c == t,
        lambda c, t: operator.iadd(c, t),
        lambda c, t: cograd.add(c, t),
        lambda c, t: c.mul_(t),
        lambda c, t: c.clamp(t),
        lambda c, t: cograd.where(c > 0, c, t),
        lambda c, t: cograd.full((2,), t),
        lambda c, t: operator.setitem(c, 0, t),
    ],
)
def test_one_of_no_dims_is_no_number(call, ours):
    """Its gradient would be lost silently."""
    with pytest.raises(TypeError, match=BOTH):
        call(ours, Foreign(2.0))
    assert cograd.equal(ours, cograd.ones(2, 2))


def test_the_way_that_is_named(ours, theirs):
    assert cograd.equal(ours + cograd.from_dlpack(theirs), cograd.full((2, 2), 2.0))
    assert cograd.equal(cograd.asarray(theirs), ours)


def test_other_classes_are_refused_as_before(ours):
    class Tensor:
        pass

    with pytest.raises(TypeError, match="does not take Tensor"):
        cograd.add(ours, Tensor())
    with pytest.raises(TypeError, match="must be a Tensor or None"):
        nn.Parameter(Tensor())
    assert (ours == Tensor()) is False
