# SPDX-License-Identifier: BSD-3-Clause
# ruff: noqa: UP006, UP007, UP035, UP045
"""cograd.library: ops in Python, their gradients, schemas, and opcheck.

Most tests use annotations in the old style of typing, as programs for torch do.
"""

import copy
import inspect
import pickle
import warnings
from collections.abc import Sequence
from typing import List, Optional, Tuple, Union

import numpy as np
import pytest

import cograd as torch
from cograd import Tensor, library
from cograd._base import registered_ops as _op_table
from cograd.library import CustomOpDef, Library, OpCheckError, custom_op, infer_schema, opcheck

OPCHECKS = ("test_schema", "test_autograd_registration", "test_faketensor", "test_gradcheck")


@pytest.fixture(autouse=True)
def clean_table():
    """Removes the ops that a test registers after the test."""
    before = dict(_op_table.python_ops)
    yield
    for op in [*_op_table.python_ops.values()]:
        if before.get(op._qualname) is not op:
            _op_table.remove(op)


def numpy_sin():
    @custom_op("tests::sin", mutates_args=())
    def sin(x: Tensor) -> Tensor:
        """The sine, by NumPy."""
        return torch.from_numpy(np.array(np.sin(x.detach().numpy())))

    return sin


def with_gradient():
    sin = numpy_sin()

    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * x.cos()

    sin.register_autograd(backward, setup_context=setup_context)
    return sin


def leaf(*values):
    return torch.tensor(values, dtype=torch.float64, requires_grad=True)


# ---------------------------------------------------------------------- calls


def test_call_without_gradient():
    sin = numpy_sin()
    x = torch.tensor([0.0, 1.0])
    assert torch.allclose(sin(x), x.sin()) and torch.equal(sin(x=x), sin(x))
    assert repr(sin) == "<CustomOpDef(tests::sin)>" and sin.default is sin
    assert sin.__doc__ == "The sine, by NumPy." and sin._schema == "(Tensor x) -> Tensor"
    assert _op_table.python_ops["tests::sin"] is sin
    assert list(inspect.signature(sin).parameters) == ["x"]
    assert str(inspect.signature(sin)) == "(x: cograd.Tensor) -> cograd.Tensor"


def test_signatures_show_pythons_types():
    @library.custom_op("tests::typed", mutates_args=())
    def typed(
        x: Tensor, n: int, w: Tensor | None = None, *, dims: Sequence[int] = (0,)
    ) -> tuple[Tensor, Tensor]:
        return x * n, x + n

    assert str(inspect.signature(typed)).replace("collections.abc.", "") == (
        "(x: cograd.Tensor, n: int, w: cograd.Tensor | None = None, *, "
        "dims: Sequence[int] = (0,)) -> tuple[cograd.Tensor, cograd.Tensor]"
    )


def test_backward_without_formula():
    y = numpy_sin()(leaf(1.0, 2.0))
    assert y.requires_grad and "tests_sin" in y.grad_fn.name()
    with pytest.raises(RuntimeError, match=r"Trying to backward through tests::sin but no autogr"):
        y.sum().backward()


def test_gradient():
    sin, x = with_gradient(), leaf(1.0, 2.0)
    (grad,) = torch.autograd.grad(sin(x).sum(), x)
    assert torch.equal(grad, x.detach().cos())
    assert torch.autograd.gradcheck(sin, x) and torch.autograd.gradgradcheck(sin, x)
    with torch.no_grad():
        assert not sin(x).requires_grad
    assert not sin(x.detach()).requires_grad
    torch.testing.check(sin, x, strict=True)


def test_gradient_without_setup_context():
    @custom_op("tests::triple", mutates_args=())
    def triple(x: Tensor) -> Tensor:
        return x * 3

    triple.register_autograd(lambda ctx, grad: grad * 3)
    x = leaf(1.0)
    triple(x).backward()
    assert x.grad.item() == 3


def test_kernel_does_not_record():
    w = leaf(2.0)
    seen = []

    @custom_op("tests::hidden", mutates_args=())
    def hidden(x: Tensor) -> Tensor:
        return x * w

    @custom_op("tests::hidden2", mutates_args=())
    def hidden2(x: Tensor) -> List[Tensor]:
        return [x * w]

    assert not hidden(torch.ones(1)).requires_grad
    assert not hidden2(torch.ones(1))[0].requires_grad
    hidden.register_autograd(lambda ctx, grad: seen.append(grad) or grad)
    y = hidden(leaf(3.0))
    y.backward()
    assert w.grad is None and len(seen) == 1


def test_arguments_of_all_kinds():
    calls = []

    @custom_op("tests::kinds", mutates_args=())
    def kinds(
        x: Tensor,
        y: Optional[Tensor] = None,
        a: float = 1.5,
        n: int = 3,
        s: str = "hi",
        b: bool = True,
        *,
        d: Optional[torch.dtype] = None,
        k: Sequence[int] = (1, 2),
        z: Union[int, float, bool] = 2,
    ) -> Tensor:
        calls.append((y, a, n, s, b, d, k, z))
        return x.clone()

    x = torch.ones(2)
    kinds(x)
    kinds(x, x, 2, np.int64(5), "u", False, d=torch.float32, k=[3], z=0.5)
    kinds(x, a=np.float32(0.5), y=None)
    assert calls[0] == (None, 1.5, 3, "hi", True, None, (1, 2), 2)
    assert calls[1][1:] == (2.0, 5, "u", False, torch.float32, [3], 0.5)
    assert type(calls[1][1]) is float and type(calls[1][2]) is int
    assert calls[2][:2] == (None, 0.5)


def test_wrong_arguments_print_the_signature():
    @custom_op("tests::wrong", mutates_args=())
    def wrong(x: Tensor, n: int, *, a: float = 1.0) -> Tensor:
        return x.clone()

    x = torch.ones(2)
    declaration = r"Declaration: tests::wrong\(Tensor x, SymInt n, \*, float a=1.0\) -> Tensor"
    for args, kwargs, text in [
        ((x, 1, 2), {}, "expected at most 2 argument.s. but received 3"),
        ((x,), {}, "is missing value for argument 'n'"),
        ((), {}, "is missing value for argument 'x'"),
        ((3, 1), {}, "a value of type 'Tensor' for argument 'x' but instead found type 'int'"),
        (([x], 1), {}, "argument 'x' but instead found type 'list'"),
        ((x, 1.5), {}, "a value of type 'SymInt' for argument 'n' but instead found type 'float'"),
        ((x, "1"), {}, "argument 'n' but instead found type 'str'"),
        ((x, 1), {"a": "b"}, "argument 'a' but instead found type 'str'"),
    ]:
        with pytest.raises(TypeError, match=text) as info:
            wrong(*args, **kwargs)
        assert info.match(declaration)
    with pytest.raises(TypeError, match=r"tests::wrong\(\) got an unexpected keyword argument 'q'"):
        wrong(x, 1, q=2)


def test_attribute_errors_of_kernels_are_theirs():
    @custom_op("tests::broken", mutates_args=())
    def broken(x: Tensor) -> Tensor:
        return x.no_such_method()

    for x in (torch.ones(1), leaf(1.0)):
        with pytest.raises(AttributeError, match="no_such_method"):
            broken(x)


def test_several_outputs():
    @custom_op("tests::minmax", mutates_args=())
    def minmax(x: Tensor) -> Tuple[Tensor, Tensor, Tensor]:
        return x.amin(0), x.amax(0), x.argmax(0)

    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(inputs[0], output[0], output[1])

    def backward(ctx, low, high, index):
        x, a, b = ctx.saved_tensors
        return low * (x == a).to(x.dtype) + high * (x == b).to(x.dtype)

    minmax.register_autograd(backward, setup_context=setup_context)
    x = leaf(1.0, 3.0, 2.0)
    a, b, i = minmax(x)
    assert a.requires_grad and b.requires_grad and not i.requires_grad
    (2 * a + b).backward()
    assert x.grad.tolist() == [2, 1, 0]
    torch.testing.check(minmax, x)


def test_no_outputs_and_numbers():
    @custom_op("tests::count", mutates_args=())
    def count(x: Tensor) -> int:
        return x.numel()

    assert count(torch.ones(3)) == 3


def test_lists_of_tensors():
    seen = []

    @custom_op("tests::pack", mutates_args=())
    def pack(x: Tensor, xs: List[Tensor], *, a: float = 2.0) -> List[Tensor]:
        return [x * a, *[t.clone() for t in xs]]

    def setup_context(ctx, inputs, keyword_only_inputs, output):
        seen.append((len(inputs), keyword_only_inputs, type(output)))
        ctx.a = keyword_only_inputs["a"]

    def backward(ctx, grads):
        seen.append(ctx.needs_input_grad)
        return grads[0] * ctx.a, list(grads[1:])

    pack.register_autograd(backward, setup_context=setup_context)
    x, y = leaf(1.0, 2.0), leaf(3.0)
    out = pack(x, [y, torch.ones(1, dtype=torch.float64)], a=3.0)
    assert type(out) is list and len(out) == 3
    (out[0].sum() + 5 * out[1].sum()).backward()
    assert x.grad.tolist() == [3, 3] and y.grad.tolist() == [5]
    assert seen[0] == (2, {"a": 3.0}, list)
    assert seen[1][0] is True and list(seen[1][1]) == [True, False]
    out = pack(torch.ones(1), [y])
    assert out[1].requires_grad
    with pytest.raises(TypeError, match=r"'Tensor\[\]' for argument 'xs' but instead found type"):
        pack(x, y)
    torch.testing.check(pack, (x, [y]), skip="needs_input_grad")


def test_keyword_only_arguments():
    @custom_op("tests::scale", mutates_args=())
    def scale(x: Tensor, *, by: float = 2.0) -> Tensor:
        return x * by

    def setup_context(ctx, inputs, keyword_only_inputs, output):
        assert len(inputs) == 1
        ctx.by = keyword_only_inputs["by"]

    scale.register_autograd(lambda ctx, g: g * ctx.by, setup_context=setup_context)
    x = leaf(1.0)
    scale(x, by=5.0).backward()
    assert x.grad.item() == 5
    with pytest.raises(TypeError, match="expected at most 1"):
        scale(x, 5.0)


def test_keyword_only_tensors_have_no_gradient():
    @custom_op("tests::kwtensor", mutates_args=())
    def op(x: Tensor, *, y: Tensor) -> Tensor:
        return x * y

    with pytest.raises(NotImplementedError, match="kwarg-only Tensor args.*'y'"):
        op.register_autograd(lambda ctx, g: g)


# ---------------------------------------------------------------------- writes and aliases


def test_mutated_arguments():
    @custom_op("tests::add_", mutates_args=("x",))
    def add_(x: Tensor, y: Tensor) -> None:
        x.detach().numpy()[...] += y.detach().numpy()

    x, y = torch.zeros(2), torch.ones(2)
    assert add_(x, y) is None
    assert x.tolist() == [1, 1] and x._version == 1 and y._version == 0
    assert add_._schema == "(Tensor(a0!) x, Tensor y) -> ()"
    w = leaf(1.0)
    product = w * x[:1]
    add_(x, y)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        product.backward()
    with pytest.raises(RuntimeError, match="argument 'x' is written and requires grad"):
        add_(leaf(1.0, 2.0), y)
    with torch.no_grad():
        add_(w, torch.ones(1, dtype=torch.float64))
    assert w.item() == 2 and torch.is_grad_enabled()
    with pytest.raises(RuntimeError, match="Cannot register autograd formula for non-functional"):
        add_.register_autograd(lambda ctx, g: g)


def test_versions_count_once():
    @custom_op("tests::double_", mutates_args=("xs",))
    def double_(xs: List[Tensor]) -> None:
        for x in xs:
            x.mul_(2)

    xs = [torch.ones(1), torch.ones(2)]
    double_(xs)
    assert [x._version for x in xs] == [1, 1]


def test_grad_mode_survives_an_error_in_a_kernel():
    @custom_op("tests::fails_", mutates_args=("x",))
    def fails_(x: Tensor) -> None:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        fails_(torch.ones(1))
    assert torch.is_grad_enabled()


@pytest.mark.parametrize("recorded", [False, True])
def test_aliases_are_refused(recorded):
    @custom_op("tests::alias", mutates_args=())
    def alias(x: Tensor, how: int) -> Tensor:
        return (x, x.view(-1), x.detach(), x[1:])[how]

    @custom_op("tests::aliases", mutates_args=())
    def aliases(x: Tensor) -> Tuple[Tensor, Tensor]:
        y = x.clone()
        return y, y[1:]

    @custom_op("tests::fine", mutates_args=())
    def fine(x: Tensor) -> Tensor:
        return x[:0].clone()

    for op in (alias, aliases):
        if recorded:
            op.register_autograd(lambda ctx, *g: (g[0], None)[: 1 if op is aliases else 2])
    x = torch.ones(2, requires_grad=recorded)
    for how in range(4):
        with pytest.raises(RuntimeError, match="tests::alias: The output .* may not alias"):
            alias(x, how)
    with pytest.raises(RuntimeError, match="tests::aliases: The output .* other returns"):
        aliases(x)
    assert fine(torch.ones(0)).numel() == 0


# ---------------------------------------------------------------------- registrations


def test_kernels_of_devices():
    @custom_op("tests::dev", mutates_args=(), device_types="cuda")
    def dev(x: Tensor) -> Tensor:
        return x.clone()

    with pytest.raises(NotImplementedError, match="tests::dev: there is no kernel for the device"):
        dev(torch.ones(1))

    @dev.register_kernel("cpu")
    def dev_cpu(x):
        return x + 1

    assert dev(torch.ones(1)).item() == 2 and dev_cpu(torch.ones(1)).item() == 2
    library.register_kernel("tests::dev", None, lambda x: x + 7)
    with dev.set_kernel_enabled("cpu", False):
        assert dev(torch.ones(1)).item() == 8
    assert dev(torch.ones(1)).item() == 2


def test_register_by_name():
    numpy_sin()
    library.register_autograd(
        "tests::sin",
        lambda ctx, g: g * ctx.saved_tensors[0].cos(),
        setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs),
    )
    op = _op_table.python_ops["tests::sin"]
    x = leaf(0.5)
    op(x).backward()
    assert x.grad.item() == pytest.approx(np.cos(0.5))

    @library.register_fake("tests::sin")
    def fake(x):
        return torch.empty_like(x)

    assert op._abstract_fn is fake
    with pytest.raises(ValueError, match="there is no op 'tests::nothing' registered from Python"):
        library.register_autograd("tests::nothing", lambda ctx, g: g)
    with pytest.raises(TypeError, match="expected an op or its name"):
        library.register_fake(torch.sin, fake)


def test_same_name_replaces():
    first, second = numpy_sin(), numpy_sin()
    assert _op_table.python_ops["tests::sin"] is second is not first
    assert torch.equal(first(torch.ones(1)), second(torch.ones(1)))


def test_pickle_and_copy_by_name():
    sin = numpy_sin()
    assert pickle.loads(pickle.dumps(sin)) is sin
    assert copy.deepcopy(sin) is sin


@pytest.mark.parametrize("name", ["sin", "a::b::c", "::x", "a.b::c", ""])
def test_bad_names(name):
    with pytest.raises(ValueError, match="namespace::name"):
        custom_op(name, lambda x: x, mutates_args=())


def test_ops_namespace():
    ops = pytest.importorskip("cograd.ops")
    if not hasattr(ops, "_forget"):
        pytest.skip("cograd.ops does not look at the table of cograd.library")
    sin = numpy_sin()
    assert torch.ops.tests.sin is sin
    again = numpy_sin()
    assert torch.ops.tests.sin is again


# ---------------------------------------------------------------------- schemas


def signature(
    x: Tensor,
    y: Optional[Tensor],
    xs: List[Tensor],
    a: float = 1.0,
    n: int = 3,
    s: str = "hi",
    b: bool = True,
    *,
    d: Optional[torch.dtype] = None,
    k: Optional[List[int]] = None,
    z: Union[int, float, bool] = 2,
) -> Tuple[Tensor, List[Tensor]]: ...


def test_infer_schema():
    rest = (
        'float a=1.0, SymInt n=3, str s="hi", bool b=True, *, ScalarType? d=None, '
        "SymInt[]? k=None, Scalar z=2) -> (Tensor, Tensor[])"
    )
    cases = {
        (): "(Tensor x, Tensor? y, Tensor[] xs, ",
        ("x", "xs"): "(Tensor(a0!) x, Tensor? y, Tensor(a2!)[] xs, ",
        "unknown": "(Tensor(a0!) x, Tensor(a1!)? y, Tensor(a2!)[] xs, ",
    }
    for mutates, head in cases.items():
        assert infer_schema(signature, mutates_args=mutates) == head + rest
    text = infer_schema(signature, mutates_args=(), op_name="foo")
    assert text == "foo" + cases[()] + rest
    assert str(library._schema.parse(text)) == text


def test_infer_schema_of_new_style_annotations():
    def new(x: "Tensor | None", xs: list[Tensor], k: list[int] | None = None) -> None: ...

    assert infer_schema(new, mutates_args=()) == "(Tensor? x, Tensor[] xs, SymInt[]? k=None) -> ()"


def no_annotation(x, y: int) -> Tensor: ...
def a_dict(x: dict) -> Tensor: ...
def varargs(x: Tensor, *y: int) -> Tensor: ...
def no_result(x: Tensor): ...
def bad_result(x: Tensor) -> str: ...
def good(x: Tensor, n: int) -> Tensor: ...
def unresolved(x: "Nothing") -> Tensor: ...  # noqa: F821


@pytest.mark.parametrize(
    ("fn", "mutates", "text"),
    [
        (no_annotation, (), "Parameter x must have a type annotation"),
        (a_dict, (), "Parameter x has unsupported type <class 'dict'>"),
        (varargs, (), "do not support positional-only args, varargs"),
        (no_result, (), "No return type annotation was provided"),
        (bad_result, (), "Return has unsupported type <class 'str'>"),
        (good, ("q",), r"\{'q'\} in mutates_args were not found"),
        (good, ("n",), "Parameter n is in mutates_args but is not a Tensor"),
        (unresolved, (), "annotations cannot be evaluated"),
    ],
)
def test_infer_schema_errors(fn, mutates, text):
    with pytest.raises(ValueError, match=r"infer_schema\(func\): .*" + text):
        infer_schema(fn, mutates_args=mutates)


def test_given_schema():
    op = custom_op(
        "tests::given",
        lambda x, a=2.0: x * a,
        mutates_args=(),
        schema="(Tensor x, float a=2.0) -> Tensor",
    )
    assert op(torch.ones(1)).item() == 2 and op(torch.ones(1), 3).item() == 3


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("f(Tensor x)", "expected 'name"),
        ("f(Matrix x) -> Tensor", "unknown type 'Matrix'"),
        ("f(Tensor) -> Tensor", "cannot read the argument 'Tensor'"),
        ("f(Tensor x, int n=q) -> Tensor", "cannot read the default value 'q'"),
    ],
)
def test_bad_schemas(text, message):
    with pytest.raises(ValueError, match=message):
        library._schema.parse(text)


# ---------------------------------------------------------------------- Library


def test_library():
    lib = Library("tests_lib", "DEF")
    assert lib.define("axpby(Tensor x, Tensor y, float a=1.0, *, int[2] k=[1, 2]) -> Tensor")
    op = _op_table.python_ops["tests_lib::axpby"]
    x, y = torch.ones(2), torch.ones(2)
    with pytest.raises(NotImplementedError, match="no kernel for the device 'cpu'"):
        op(x, y)
    lib.impl("axpby", lambda x, y, a=1.0, *, k: a * x + y, "CPU")
    assert op(x, y, 3.0).tolist() == [4, 4]
    assert op(leaf(1.0), leaf(1.0)).requires_grad  # and backward reports that there is no formula
    lib.impl("tests_lib::axpby", lambda x, y, a, k: a * x - y, "Autograd")
    assert op(leaf(5.0), leaf(1.0)).item() == 4 and op(x, y).tolist() == [2, 2]
    lib.impl("axpby", lambda x, y, a, k: torch.empty_like(x), "Meta")
    assert op._abstract_fn is not None
    lib.impl("axpby", lambda x, y, a, k: x.clone(), "CUDA")
    assert op(x, y).tolist() == [2, 2]
    for bad, text in (("Nonsense", "unknown dispatch key 'Nonsense'"),):
        with pytest.raises(RuntimeError, match=text):
            lib.impl("axpby", lambda: None, bad)
    with pytest.raises(RuntimeError, match="there is no op 'tests_lib::other'"):
        lib.impl("other", lambda: None)
    with pytest.raises(RuntimeError, match="the op tests_lib::axpby is defined already"):
        lib.define("axpby(Tensor x) -> Tensor")
    lib._destroy()
    assert "tests_lib::axpby" not in _op_table.python_ops


def test_library_goes_with_its_ops():
    lib = Library("tests_lib", "FRAGMENT")
    lib.define("f(Tensor x) -> Tensor")
    assert "tests_lib::f" in _op_table.python_ops
    del lib
    assert "tests_lib::f" not in _op_table.python_ops


def test_library_composite_records():
    lib = Library("tests_lib", "FRAGMENT")
    lib.define("cube(Tensor x) -> Tensor")
    lib.impl("cube", lambda x: x**3, "CompositeImplicitAutograd")
    x = leaf(2.0)
    _op_table.python_ops["tests_lib::cube"](x).backward()
    assert x.grad.item() == 12


def test_library_kinds():
    with pytest.raises(ValueError, match="Unsupported kind: NEW"):
        Library("tests_lib", "NEW")
    with pytest.raises(ValueError, match="must be an identifier"):
        Library("a b", "DEF")
    owner = Library("tests_lib", "DEF")
    with pytest.raises(RuntimeError, match="only a single Library can own"):
        Library("tests_lib", "DEF")
    assert owner.ns == "tests_lib"
    with pytest.raises(RuntimeError, match="cannot define ops"):
        Library("tests_lib", "IMPL").define("f(Tensor x) -> Tensor")


def test_define_and_impl():
    library.define("tests_lib::neg2", "(Tensor x) -> Tensor")

    @library.impl("tests_lib::neg2", "cpu")
    def neg2(x):
        return -2 * x

    op = _op_table.python_ops["tests_lib::neg2"]
    assert isinstance(op, CustomOpDef) and op(torch.ones(1)).item() == -2
    _op_table.remove(op)


# ---------------------------------------------------------------------- opcheck


def test_opcheck_passes():
    sin = with_gradient()
    sin.register_fake(lambda x: torch.empty_like(x))
    assert opcheck(sin, (leaf(1.0, 2.0),)) == dict.fromkeys(OPCHECKS, "SUCCESS")
    result = opcheck("tests::sin", (torch.ones(2),))
    assert result["test_gradcheck"].startswith("SKIPPED: no argument requires grad")
    names = ("test_schema", "test_aot_dispatch_dynamic")
    result = opcheck(sin, (torch.ones(2),), test_utils=names)
    assert result["test_schema"] == "SUCCESS" and "no compiler" in result[names[1]]
    assert opcheck(torch.sin, (leaf(1.0),), test_utils="test_schema") == {"test_schema": "SUCCESS"}
    with pytest.raises(ValueError, match="there is no test 'test_all'"):
        opcheck(sin, (torch.ones(2),), test_utils="test_all")


def test_opcheck_of_a_mutating_op():
    @custom_op("tests::inc_", mutates_args=("x",))
    def inc_(x: Tensor) -> None:
        x.add_(1)

    x = torch.zeros(2)
    assert opcheck(inc_, (x,))["test_schema"] == "SUCCESS"
    assert x.tolist() == [0, 0]


def undeclared_write():
    @custom_op("tests::bad", mutates_args=())
    def bad(x: Tensor) -> Tensor:
        x.data.add_(1)
        return x.clone()

    return bad


def undeclared_second_write():
    @custom_op("tests::bad", mutates_args=("x",))
    def bad(x: Tensor, y: Tensor) -> None:
        x.add_(1)
        y.add_(1)

    return bad


def hidden_alias():
    @custom_op("tests::bad", mutates_args=())
    def bad(x: Tensor) -> Tensor:
        return torch.from_numpy(x.detach().numpy()[1:])

    return bad


def no_formula():
    return numpy_sin()


def detached():
    return lambda x: x.detach() * 2


def wrong_fake():
    sin = with_gradient()
    sin.register_fake(lambda x: torch.empty(x.shape, dtype=torch.float32))
    return sin


def wrong_gradient():
    sin = numpy_sin()
    sin.register_autograd(lambda ctx, grad: grad)
    return sin


FAULTY = [
    (undeclared_write, "test_schema", "'x' at .0.: was written"),
    (undeclared_second_write, "test_schema", "'y' at .0.: was written"),
    (hidden_alias, "test_schema", "output: shares memory with the argument 'x'"),
    (no_formula, "test_autograd_registration", "no autograd formula was registered for tests::sin"),
    (detached, "test_autograd_registration", "no output does"),
    (wrong_fake, "test_faketensor", "dtype cograd.float64, .* returns cograd.float32"),
    (wrong_gradient, "test_gradcheck", "gradcheck: d output at"),
]


@pytest.mark.parametrize(("make", "test", "text"), FAULTY)
def test_opcheck_finds(make, test, text):
    op, args = make(), (leaf(1.0, 2.0),)
    if make is undeclared_second_write:
        args = (torch.ones(2), torch.ones(2))
    with pytest.raises(OpCheckError, match=rf"opcheck\(op, ...\): {test} failed with .*{text}"):
        opcheck(op, args)
    results = opcheck(op, args, raise_exception=False)
    assert results[test].startswith("FAILED: ")


def test_cost_is_that_of_a_python_call():
    """The limit holds on a loaded machine: 20 times the kernel's own call."""
    import timeit

    def kernel(x: Tensor) -> Tensor:
        return x.clone()

    op = custom_op("tests::cheap", kernel, mutates_args=())
    x = torch.ones(4)
    with warnings.catch_warnings():
        plain = min(timeit.repeat(lambda: kernel(x), number=2000, repeat=5))
        called = min(timeit.repeat(lambda: op(x), number=2000, repeat=5))
    assert called < 20 * plain
