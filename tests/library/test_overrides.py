# SPDX-License-Identifier: BSD-3-Clause
"""Subclasses preserved by ops, __torch_function__ and __cograd_function__, modes."""

import subprocess
import sys
import threading

import pytest
from conftest import leaf, ones, same

import cograd as torch
from cograd import func, nn, overrides
from cograd.overrides import TorchFunctionMode


class Sub(torch.Tensor):
    pass


class Logged(torch.Tensor):
    calls = []

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        Logged.calls.append(func.__name__)
        return super().__torch_function__(func, types, args, kwargs)


class Wrapper:
    """Contains a tensor, but is not one."""

    def __init__(self, value):
        self.value = value

    @classmethod
    def __cograd_function__(cls, func, types, args=(), kwargs=None):
        args = [a.value if isinstance(a, Wrapper) else a for a in args]
        return Wrapper(func(*args, **(kwargs or {})))


class Seen(TorchFunctionMode):
    def __init__(self):
        super().__init__()
        self.calls = []

    def __torch_function__(self, func, types, args=(), kwargs=None):
        self.calls.append(func.__name__)
        return func(*args, **(kwargs or {}))


# ---- subclasses ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "op",
    [
        lambda x: x + 1,
        lambda x: 1 - x,
        lambda x: 2**x,
        lambda x: -x,
        abs,
        lambda x: x @ x,
        lambda x: x == x,
        lambda x: x.add(1),
        lambda x: torch.add(x, 1),
        lambda x: torch.ones(2, 2) * x,
        lambda x: x[0],
        lambda x: x[:, [0]],
        lambda x: x.sum(),
        lambda x: x.view(4),
        lambda x: x.T,
        lambda x: x.mT,
        lambda x: x.detach(),
        lambda x: x.clone(),
        lambda x: x.double(),
        lambda x: x.unbind(0)[1],
        lambda x: x.max(0).values,
        lambda x: torch.stack([torch.ones(2, 2), x]),
        lambda x: nn.functional.relu(x),
        lambda x: nn.functional.softmax(x, 1),
        lambda x: nn.functional.linear(x, torch.ones(3, 2)),
    ],
)
def test_results_are_of_the_subclass(op):
    assert type(op(torch.ones(2, 2).as_subclass(Sub))) is Sub


def test_in_place_ops_keep_the_object():
    x = torch.ones(2).as_subclass(Sub)
    y = x
    x += 1
    assert x is y and x.mul_(2) is x and type(x) is Sub
    x[0] = 9
    assert same(x, [9, 4])


def test_as_subclass_stays_in_the_graph():
    w = leaf([1.0, 2.0])
    x = w.as_subclass(Sub)
    (x * x).sum().backward()
    assert same(w.grad, [2, 4]) and w.grad_fn is None
    y = w * 3
    assert y.as_subclass(Sub).grad_fn.next_functions[0][0] is y.grad_fn
    assert (y.as_subclass(Sub) * 2).grad_fn.name() == "MulBackward0"


def test_as_subclass_of_a_leaf_whose_elements_share_memory():
    w = ones(4).expand(3, 4).detach().requires_grad_()
    x = w.as_subclass(Sub)
    assert x.stride() == w.stride() == (0, 1) and type(x.grad_fn).__name__ == "AliasBackward0"
    (g,) = torch.autograd.grad(x[0].sum(), w)
    assert same(g, [[1] * 4, [0] * 4, [0] * 4])


def test_as_subclass_shares_memory_and_version():
    x = torch.ones(2)
    y = x.as_subclass(Sub)
    y += 1
    assert same(x, [2, 2]) and x._version == y._version == 1
    with pytest.raises(TypeError, match="must be a subclass of Tensor"):
        x.as_subclass(int)


def test_subclass_as_leaf():
    x = ones(2).as_subclass(Sub).requires_grad_()
    (x * 2).sum().backward()
    assert x.is_leaf and same(x.grad, [2, 2])


def test_the_more_derived_class_wins():
    class Deeper(Sub):
        pass

    a, b = ones(1).as_subclass(Sub), ones(1).as_subclass(Deeper)
    assert type(a + b) is type(b + a) is Deeper


def test_unrelated_subclasses_do_not_mix():
    class Other(torch.Tensor):
        pass

    with pytest.raises(TypeError, match="__torch_function__ handlers returned NotImplemented"):
        ones(1).as_subclass(Sub) + ones(1).as_subclass(Other)


def test_parameters_and_buffers_give_plain_tensors():
    p = nn.Parameter(torch.ones(2))
    assert type(p + 1) is type(p[0]) is type(p.detach()) is torch.Tensor
    assert type(p + torch.ones(2).as_subclass(Sub)) is Sub


def test_attributes_are_not_copied():
    x = torch.ones(2).as_subclass(Sub)
    x.tag = "a"
    assert not hasattr(x + 1, "tag") and x.tag == "a"


def test_function_of_each_operator():
    x = torch.ones(2, 2).as_subclass(Logged)
    Logged.calls.clear()
    x + 1
    torch.add(x, 1)
    1 - x
    x @ x
    x *= 2
    x[0]
    x[0] = 1
    torch.relu(x)
    expected = ["add", "add", "__rsub__", "matmul", "mul_", "__getitem__", "__setitem__", "relu"]
    assert Logged.calls == expected


def test_functions_given_to_handlers_are_the_public_ones():
    got = []

    class Keeps(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            got.append((func, types, args, kwargs))

    x = torch.ones(1).as_subclass(Keeps)
    torch.add(x, 2, alpha=3)
    x.add(2)
    assert got[0][0] is torch.add and got[0][1] == (Keeps,)
    assert got[0][2][1:] == (2,) and got[0][3] == {"alpha": 3}
    assert got[1][0] is torch.Tensor.add and got[1][2][0] is x


def test_cograd_function_is_preferred_in_one_class():
    class Both(torch.Tensor):
        @classmethod
        def __cograd_function__(cls, func, types, args=(), kwargs=None):
            return "cograd"

        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            return "torch"

    class Later(Both):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            return "later"

    assert torch.ones(1).as_subclass(Both) + 1 == "cograd"
    assert torch.ones(1).as_subclass(Later) + 1 == "later"


def test_disabled_subclass():
    class Off(torch.Tensor):
        __torch_function__ = torch._C._disabled_torch_function_impl

    assert type(torch.ones(1).as_subclass(Off) + 1) is torch.Tensor


def test_exception_in_a_handler():
    class Fails(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            raise LookupError("handler")

    with pytest.raises(LookupError, match="handler"):
        torch.ones(1).as_subclass(Fails) + 1


# ---- other types ---------------------------------------------------------------------------------


def test_type_that_is_no_tensor():
    w = Wrapper(torch.ones(2))
    assert same(torch.add(w, 1).value, [2, 2])
    assert same(torch.add(torch.ones(2), w).value, [2, 2])
    assert same((torch.ones(2) + w).value, [2, 2])


def test_type_without_the_protocol():
    with pytest.raises(TypeError):
        torch.add(object(), 1)


def test_handle_and_has():
    def double(value):
        if overrides.has_torch_function((value,)):
            return overrides.handle_torch_function(double, (value,), value)
        return value * 2

    assert double(3) == 6
    assert double(Wrapper(4)).value == 8
    assert not overrides.has_torch_function((torch.ones(1), nn.Parameter(torch.ones(1)), 3))
    assert overrides.has_torch_function_unary(torch.ones(1).as_subclass(Sub))
    assert overrides.is_tensor_like(Wrapper(1)) and not overrides.is_tensor_like(3)

    @overrides.wrap_torch_function(lambda a, b=None: (a, b))
    def second(a, b=None):
        return b

    assert second(1, 2) == 2 and second(Wrapper(1), b=5).value == 5


# ---- modes ---------------------------------------------------------------------------------------


def test_mode_sees_ops_of_plain_tensors():
    with Seen() as mode:
        y = torch.ones(2, 2) + 1
        y.sum()
        torch.relu(y)
        y[0]
    y.sum()
    assert [c for c in mode.calls if c != "ones"] == ["add", "sum", "relu", "__getitem__"]


def test_modes_nest_innermost_first():
    order = []

    class Named(TorchFunctionMode):
        def __init__(self, name):
            super().__init__()
            self.name = name

        def __torch_function__(self, func, types, args=(), kwargs=None):
            order.append(self.name)
            return func(*args, **(kwargs or {}))

    x = torch.ones(1)
    with Named("outer"), Named("inner"):
        torch.relu(x)
    assert order == ["inner", "outer"]


def test_mode_replaces_results_and_is_undone_by_errors():
    class Replaces(TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            if func is torch.relu:
                return 7
            raise LookupError

    x = torch.ones(1)
    with Replaces():
        assert torch.relu(x) == 7
    with pytest.raises(LookupError), Replaces():
        torch.exp(x)
    assert same(torch.relu(x), [1])


def test_mode_is_of_its_thread():
    x, calls = torch.ones(1), []
    with Seen() as mode:
        thread = threading.Thread(target=lambda: calls.append(torch.relu(x)))
        thread.start()
        thread.join()
    assert mode.calls == [] and len(calls) == 1


def test_switching_overrides_off():
    x = torch.ones(1).as_subclass(Sub)
    with overrides.DisableTorchFunctionSubclass(), Seen() as mode:
        assert type(x + 1) is torch.Tensor
    with overrides.DisableTorchFunction(), Seen() as silent:
        assert type(x + 1) is torch.Tensor
    assert mode.calls == ["add"] and silent.calls == [] and type(x + 1) is Sub


class Marked(torch.Tensor):
    """A subclass whose results are also of this class."""


VALUES = torch.arange(1.0, 7.0, dtype=torch.float64).reshape(2, 3)
MARKED = VALUES.as_subclass(Marked)


@pytest.mark.parametrize(
    "f,want",
    [
        (lambda a, b: (a * b).sum(), [14.0, 32.0]),
        (func.grad(lambda a, b: (a * b).sum()), [[1.0, 2.0, 3.0]] * 2),
        (func.grad(lambda a, b: (a.as_subclass(Marked) ** 2 * b).sum()), None),
        (func.jacrev(lambda a, b: a * b), [torch.diag(VALUES[0]).tolist()] * 2),
        (func.jacfwd(lambda a, b: a * b), [torch.diag(VALUES[0]).tolist()] * 2),
        (func.hessian(lambda a, b: (a**2 * b).sum()), [(2 * torch.diag(VALUES[0])).tolist()] * 2),
    ],
)
def test_subclasses_keep_their_samples(f, want):
    want = (2 * VALUES * VALUES[0]).tolist() if want is None else want
    for a in (VALUES, MARKED):
        found = func.vmap(f, in_dims=(0, None))(a, MARKED[0])
        assert found.tolist() == want


def test_subclasses_keep_their_tangents():
    value, tangent = func.jvp(lambda a: (a * MARKED).sum(), (VALUES,), (VALUES,))
    assert value.item() == tangent.item() == 91
    value, tangent = func.jvp(lambda a: a.as_subclass(Marked).square().sum(), (VALUES,), (VALUES,))
    assert value.item() == 91 and tangent.item() == 182
    assert func.jacfwd(lambda a: (a * MARKED).sum())(VALUES).tolist() == VALUES.tolist()
    assert func.hessian(lambda a: ((a * MARKED) ** 2).sum())(VALUES).sum().item() == 182
    with torch.autograd.forward_ad.dual_level():
        dual = torch.autograd.forward_ad.make_dual(VALUES, VALUES).as_subclass(Marked)
        assert torch.autograd.forward_ad.unpack_dual((dual * dual).sum()).tangent.item() == 182
    twice = func.grad(func.grad(lambda a: (a.as_subclass(Marked) ** 3).sum()))
    assert twice(VALUES[0, 1]).item() == 12


def test_no_module_of_the_package_makes_ops_check_for_overrides():
    """From the definition of an overriding subclass on, each op takes a tenth longer."""
    script = """
import importlib
import cograd

announced = []
cograd._C._overrides_possible = lambda: announced.append(module)
for module in ("nn", "nn.utils.parametrize", "optim", "distributions", "utils.data", "func"):
    importlib.import_module("cograd." + module)
assert not announced, announced
class Own(cograd.Tensor): pass
assert announced
"""
    subprocess.run([sys.executable, "-c", script], check=True)


@pytest.mark.parametrize("part", [slice(None), slice(1)], ids=["whole", "view"])
@pytest.mark.parametrize("to_subclass", [True, False])
@pytest.mark.parametrize("written", ["source", "result"])
def test_as_subclass_shares_writes(written, to_subclass, part):
    """The history of both has the write; that of one kept the old value's gradient."""
    for read in ("source", "result"):
        w = leaf([1.0, 2.0])
        source = w * 1 if to_subclass else (w * 1).as_subclass(Sub)
        both = {
            "source": source,
            "result": source.as_subclass(Sub if to_subclass else torch.Tensor),
        }
        both["result"].retain_grad()
        both[written][part].mul_(3)
        both[read].sum().backward()
        assert same(w.grad, [3, 3] if part == slice(None) else [3, 1])


def test_as_subclass_of_a_constant_that_is_written():
    w = leaf([1.0, 2.0])
    c = torch.zeros(2, dtype=w.dtype)
    s = c.as_subclass(Sub)
    c.add_(w)
    (s * s).sum().backward()
    assert same(w.grad, [2, 4])
    with pytest.raises(RuntimeError, match="Can't detach views in-place"):
        s.detach_()
