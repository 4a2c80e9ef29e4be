# SPDX-License-Identifier: BSD-3-Clause
"""Registered ops and autograd::Function written in C++, against tests/extensions/*.cpp."""

import gc
import pickle
import shutil
import subprocess
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from conftest import arr, leaf, ones, same

import cograd as torch
from cograd import _C
from cograd.autograd import gradcheck, gradgradcheck
from cograd.utils import cpp_extension

pytestmark = pytest.mark.skipif(
    not any(map(shutil.which, ("c++", "g++", "clang++"))), reason="there is no C++ compiler"
)
SOURCES = Path(__file__).parents[1] / "extensions"


def built(name, **kwargs):
    return cpp_extension.load(f"t_{name}", SOURCES / f"{name}.cpp", **kwargs)


@pytest.fixture(scope="module")
def parameters():
    built("parameters")
    return torch.ops.t_params


@pytest.fixture(scope="module")
def functions():
    return built("functions")


@pytest.fixture(scope="module")
def runtime():
    return built("runtime")


def nodes_of(f):
    """Returns how many graph nodes f() leaves behind."""
    gc.collect()
    before = _C._live_nodes()
    f()
    gc.collect()
    return _C._live_nodes() - before


# ---------------------------------------------------------------------------- parameters


@pytest.mark.parametrize(
    ("op", "args", "expected"),
    [
        ("tensor", (torch.zeros(2, 3),), "float32[2, 3]"),
        ("tensor_value", (torch.zeros(2, 3),), 6),
        ("maybe_tensor", (), -1),
        ("maybe_tensor", (None,), -1),
        ("maybe_tensor", (torch.zeros(4),), 4),
        ("undefined", (None,), False),
        ("undefined", (torch.zeros(1),), True),
        ("tensors", ([torch.zeros(1), torch.zeros(2)],), 2),
        ("tensors", ([],), 0),
        ("tensors", ((torch.zeros(1),),), 1),
        ("tensor_vector", ([torch.zeros(1)] * 3,), 3),
        ("maybe_tensors", (), -1),
        ("maybe_tensors", ([torch.zeros(1)],), 1),
        ("boolean", (True,), 10),
        ("boolean", (False,), 20),
        ("int64", (2**63 - 1,), 2**63 - 1),
        ("int64", (np.int64(-5),), -5),
        ("int32", (-(2**31),), -(2**31)),
        ("uint8", (255,), 255),
        ("float64", (0.1,), 0.1),
        ("float64", (3,), 3.0),
        ("float64", (np.float64(2.5),), 2.5),
        ("float32", (0.5,), 0.5),
        ("scalar", (True,), "bool True"),
        ("scalar", (7,), "int 7"),
        ("scalar", (1.5,), "float 1.500000"),
        ("string", ("ä",), "ä!"),
        ("string_view", ("abc",), 3),
        ("dtype", (torch.float64,), "float64"),
        ("maybe_dtype", (None,), "none"),
        ("maybe_dtype", (torch.int8,), "int8"),
        ("device", ("cpu",), True),
        ("device", (torch.device("cpu"),), True),
        ("ints", ([1, -2],), "1;-2;"),
        ("ints", ((),), ""),
        ("ints", (4,), "4;"),
        ("ints", (torch.zeros(2, 3).shape,), "2;3;"),
        ("ints_vector", ([5],), "5;"),
        ("maybe_ints", (), "none"),
        ("maybe_ints", ([3],), "3;"),
        ("doubles", ([1, 2.5],), "1;2.5;"),
        ("doubles_vector", ((0.25,),), "0.25;"),
        ("bools", ([True, False],), "1;0;"),
        ("strings", (["a", "bc"],), "a;bc;"),
        ("maybe", (), "-1 -1.500000 - none"),
        ("maybe", (3, 2.0, False, "s"), "3 2.000000 F s"),
        ("defaults", (), "1.500000 -2 T text 1;2;float32"),
        ("defaults", (0.0, 1, False, "", [], torch.int32), "0.000000 1 F  int32"),
        ("keywords", (1,), TypeError),
        ("unnamed", (2, 3), 5),
        ("pointer", (2, 3), -1),
        ("nothing", (), None),
        ("more", (), 1),
        ("still_more", (), 2),
    ],
)
def test_parameter(parameters, op, args, expected):
    if expected is TypeError:
        with pytest.raises(TypeError):
            getattr(parameters, op)(*args)
        return
    result = getattr(parameters, op)(*args)
    assert result == expected
    assert type(result) is type(expected)


def test_keywords_defaults_and_documentation(parameters):
    assert parameters.keywords(1, b=2) == 123
    assert parameters.keywords(b=2, c=0, a=1) == 120
    with pytest.raises(TypeError, match=r"keywords"):
        parameters.keywords(1, 2)
    line, _, doc = parameters.keywords.__doc__.partition("\n")
    assert line == "keywords(a: int, *, b: int, c: int = 3) -> int"
    assert "Digits of a number." in doc
    assert parameters.keywords.__name__ == "keywords"
    assert "Two." in parameters.still_more.__doc__
    assert parameters.unnamed(arg0=1, arg1=2) == 3
    assert [parameters.captures() for _ in range(3)] == [1, 2, 3]
    assert pickle.loads(pickle.dumps(parameters.keywords)) is parameters.keywords


@pytest.mark.parametrize(
    ("op", "args", "kwargs"),
    [
        ("tensor", (3,), {}),
        ("tensor", (None,), {}),
        ("tensor", (), {}),
        ("tensor", (torch.zeros(1), 2), {}),
        ("tensor", (), {"y": torch.zeros(1)}),
        ("tensors", (3,), {}),
        ("tensors", ([1],), {}),
        ("int64", (1.5,), {}),
        ("int64", ("1",), {}),
        ("boolean", (1.5,), {}),
        ("float64", ("x",), {}),
        ("string", (b"x",), {}),
        ("dtype", ("float32",), {}),
        ("ints", ([1.5],), {}),
        ("doubles", (["x"],), {}),
        ("strings", ("ab",), {}),
        ("keywords", (1,), {"b": 2, "d": 4}),
        ("keywords", (1,), {"a": 1, "b": 2}),
    ],
)
def test_wrong_arguments_name_the_op_and_its_signature(parameters, op, args, kwargs):
    with pytest.raises(TypeError) as info:
        getattr(parameters, op)(*args, **kwargs)
    assert f"{op}(" in str(info.value)


@pytest.mark.parametrize(("op", "value"), [("int32", 2**31), ("uint8", 256), ("uint8", -1)])
def test_integers_that_do_not_fit_raise(parameters, op, value):
    with pytest.raises(ValueError, match=f"{op}.*does not fit"):
        getattr(parameters, op)(value)


def test_results(parameters):
    x = torch.ones(2)
    assert parameters.result_none() is None
    assert parameters.result_bool() is True
    t, i, d = parameters.result_tuple(x)
    assert (t.tolist(), i, d) == ([2.0, 2.0], 7, 2.5)
    assert isinstance(parameters.result_tensors(x), tuple)
    assert [t.tolist() for t in parameters.result_tensors(x)] == [[2.0, 2.0], [2.0, 2.0]]
    assert isinstance(parameters.result_one(x), tuple)
    assert parameters.result_pair() == ("a", False)
    for n in range(3):
        made = parameters.result_list(x, n)
        assert isinstance(made, list)
        assert len(made) == n
    tensors, *others = parameters.result_nested(x)
    assert [t.tolist() for t in tensors] == [[1.0, 1.0]] * 2
    assert others == [[1, 2], [0.5], [True, False], ["p", "q"]]
    assert [parameters.result_scalar(i) for i in range(3)] == [True, 2, 2.5]
    assert [type(parameters.result_scalar(i)) for i in range(3)] == [bool, int, float]


def test_results_keep_their_graph(parameters):
    x = leaf([1.0, 2.0])
    a, b = parameters.result_tensors(x)
    (a.sum() + b.sum()).backward()
    assert x.grad.tolist() == [3.0, 3.0]


# ------------------------------------------------------------- written arguments, no gradient


@pytest.mark.parametrize("op", ["scale_", "set_", "fill_"])
def test_written_arguments_are_noticed(parameters, op):
    x = ones(3)
    version = x._version
    getattr(parameters, op)(x, 4.0)
    assert x.tolist() == [4.0] * 3
    assert x._version == version + 1


def test_written_argument_is_returned_itself(parameters):
    x = ones(2)
    assert parameters.scale_(x, 3.0) is x


@pytest.mark.parametrize("op", ["scale_", "set_", "fill_"])
def test_written_argument_that_was_saved_is_found_out(parameters, op):
    w = leaf([2.0, 2.0])
    x = ones(2)
    y = (w * x).sum()
    getattr(parameters, op)(x, 5.0)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.backward()


@pytest.mark.parametrize("op", ["scale_", "set_", "fill_"])
def test_written_leaf_raises_before_it_is_written(parameters, op):
    x = leaf([1.0, 1.0])
    with pytest.raises(RuntimeError, match="leaf Variable that requires grad"):
        getattr(parameters, op)(x, 2.0)
    assert x.tolist() == [1.0, 1.0]
    with torch.no_grad():
        getattr(parameters, op)(x, 2.0)
    assert x.tolist() == [2.0, 2.0]
    frozen = np.ones(2)
    frozen.flags.writeable = False
    with pytest.warns(UserWarning, match="not writable"):
        x = torch.from_numpy(frozen)
    with pytest.raises(RuntimeError, match="read-only"):
        getattr(parameters, op)(x, 2.0)


@pytest.mark.parametrize("view", [False, True])
@pytest.mark.parametrize("op", ["scale_", "set_", "fill_"])
def test_backward_through_a_written_argument_raises(parameters, op, view):
    w = leaf([1.0, 1.0, 1.0])
    y = w * 2
    target = y[:2] if view else y
    getattr(parameters, op)(target, 2.0)
    with pytest.raises(RuntimeError, match=f"t_params::{op}"):
        y.sum().backward()
    assert w.grad is None


def test_op_without_gradient_raises_in_backward(parameters):
    x = leaf([1.0, 2.0])
    y = parameters.opaque(x)
    assert y.item() == 2
    with pytest.raises(RuntimeError, match="op 't_params::opaque' has no gradient"):
        (y * x.sum()).backward()
    for y in parameters.opaque_list(x):
        with pytest.raises(RuntimeError, match="opaque_list' has no gradient"):
            y.backward()
    (parameters.count(x) * x.sum()).backward()
    assert x.grad.tolist() == [2.0, 2.0]
    assert not parameters.count(x).requires_grad
    with torch.no_grad():
        assert not parameters.opaque(x).requires_grad


# ---------------------------------------------------------------------------- registration


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ('m.def("f", &f, "x, x");', "twice|duplicate|x"),
        ('m.def("f", &f, "x");', "f"),
        ('m.def("f", &f, "x, a=nonsense");', "nonsense"),
        ('m.def("f", &f, "(Tensor x) -> Tensor");', "1 parameters, its function 2"),
        ('m.def("f", &f, "(Tensor x, int a) -> Tensor");', "parameter 1 is 'int'.*float"),
        ('m.def("f", &f, "(Tensor x, Blob a) -> Tensor");', "unknown type 'Blob'"),
        ('m.def("a b", &f, "x, a");', "letters, digits"),
        ('m.def("f", &f, "x, a"); m.def("f", &f, "x, a");', "registered already"),
        (
            'm.def("f", &f, "x, a").description().abi_major = 2;',
            "an op was built against cograd's ABI 2.1, this library has 1",
        ),
        ('m.def("f", &f, "x, a").description().abi_minor = 99;', "ABI 1.99"),
    ],
)
def test_bad_registrations_raise_at_load(body, message):
    code = f"""
    static cograd::Tensor f(const cograd::Tensor& x, double a) {{ return x * a; }}
    COGRAD_LIBRARY(t_bad, m) {{ {body} }}
    """
    with pytest.raises(ImportError, match=message):
        cpp_extension.load_inline("t_bad", code, extra_cflags=["-O0"])


# ---------------------------------------------------------------------------- Function


def test_function_gradients(functions):
    x, y = leaf([1.0, 2.0, -3.0]), leaf([0.5, -1.0, 2.0])
    out = functions.mul_add(x, y, 2.0)
    assert arr(out).tolist() == [2.5, 0.0, -4.0]
    assert out.grad_fn.name() == "MulAddBackward"
    assert gradcheck(functions.mul_add, (x, y))
    assert gradgradcheck(functions.mul_add, (x, y))
    assert gradcheck(functions.exp, (x,))
    assert gradgradcheck(functions.exp, (x,))
    functions.single_gradient(x).sum().backward()
    assert x.grad.tolist() == [2.0] * 3


def test_function_without_gradients_records_nothing(functions):
    assert functions.mul_add(ones(2), ones(2)).grad_fn is None
    with torch.no_grad():
        assert not functions.mul_add(leaf([1.0]), ones(1)).requires_grad
    with torch.inference_mode():
        assert functions.mul_add(leaf([1.0]), ones(1)).is_inference()


@pytest.mark.parametrize("which", [(True, True), (True, False), (False, True)])
def test_needs_input_grad(functions, which):
    x, y = (ones(2).requires_grad_(w) for w in which)
    seen = torch.zeros(3, dtype=torch.float64)
    functions.needs(x, y, seen).sum().backward()
    mask = which[0] + 2 * which[1]
    assert seen.tolist() == [mask, mask, 1]
    assert (x.grad is not None, y.grad is not None) == which


def test_needs_input_grad_of_a_run(functions):
    x, y = leaf([1.0]), leaf([1.0])
    seen = torch.zeros(3, dtype=torch.float64)
    torch.autograd.grad(functions.needs(x, y, seen).sum(), [y])
    assert seen.tolist() == [3, 2, 1]
    with pytest.raises(IndexError, match=r"needs_input_grad\(5\), expected less than 1"):
        functions.needs_out_of_range(x)


@pytest.mark.parametrize("op", ["double_", "double_raw_"])
def test_mark_dirty(functions, op):
    f = getattr(functions, op)
    x = leaf([1.0, 2.0])
    h = x * 3
    version = h._version
    out = f(h)
    assert out is h
    assert h._version == version + 1
    out.sum().backward()
    assert x.grad.tolist() == [6.0, 6.0]
    with pytest.raises(RuntimeError, match="leaf Variable that requires grad"):
        f(x)
    base = x * 1
    part = base[:1]
    f(part)
    x.grad = None
    base.sum().backward()
    assert x.grad.tolist() == [2.0, 1.0]
    w = leaf([1.0, 1.0])
    h = ones(2)
    y = (w * h).sum()
    f(h)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.backward()


def test_dirty_mistakes_raise(functions):
    x = leaf([1.0])
    with pytest.raises(RuntimeError, match="marked as dirty.*not returned"):
        functions.dirty_not_returned(x * 1)
    with pytest.raises(RuntimeError, match="without declaring it"):
        functions.writes_undeclared(x * 1)


def test_non_differentiable_outputs(functions):
    x = leaf([1.0, 5.0, 2.0])
    value, at, rank = functions.largest(x)
    assert (value.requires_grad, at.requires_grad, rank.requires_grad) == (True, False, False)
    assert (value.item(), at.item(), rank.item()) == (5.0, 1, 1.0)
    value.backward()
    assert x.grad.tolist() == [0.0, 1.0, 0.0]


@pytest.mark.parametrize(("op", "expected"), [("two_outputs", 1), ("two_outputs_bare", 0)])
def test_materialize_grads(functions, op, expected):
    x, seen = leaf([1.0, 2.0]), torch.zeros(2, dtype=torch.float64)
    a, b = getattr(functions, op)(x, seen)
    b.sum().backward()
    assert seen.tolist() == [expected, 1]
    assert x.grad.tolist() == [3.0, 3.0]
    a, b = getattr(functions, op)(x, seen)
    (a.sum() + b.sum()).backward()
    assert seen.tolist() == [1, 1]
    assert x.grad.tolist() == [8.0, 8.0]


def test_saved_data_of_every_kind(functions):
    x = leaf([1.0, 2.0])
    out = functions.saved(x)
    for _ in range(2):
        x.grad = None
        out.sum().backward(retain_graph=True)
        assert x.grad.tolist() == [2.0, 2.0]
    assert gradcheck(functions.saved, (x,))
    with pytest.raises(TypeError, match=r"saved_data\['n'\] holds an int, but to_double\("):
        functions.wrong_kind(x).sum().backward()
    with pytest.raises(IndexError, match="saved_data has no 'nowhere'"):
        functions.missing_key(x).sum().backward()


def test_optional_and_list_inputs(functions):
    x, y, z = leaf([1.0, 2.0]), leaf([3.0, 1.0]), leaf([0.5, 0.5])
    assert gradcheck(lambda x, y, z: functions.mixed(2.5, x, y, [z, x, z]), (x, y, z))
    assert gradgradcheck(lambda x, y, z: functions.mixed(2.5, x, y, [z, x, z]), (x, y, z))
    assert gradcheck(lambda x: functions.mixed(2.5, x), (x,))
    assert gradcheck(lambda z: functions.mixed(2.5, x.detach(), None, l=[z]), (z,))
    functions.mixed(1.0, x, y.detach(), [ones(2), z]).sum().backward()
    assert y.grad is None
    assert (x.grad.tolist(), z.grad.tolist()) == ([1.0, 1.0], [2.0, 2.0])
    with pytest.raises(ValueError, match="mixed.*expected 'ok'"):
        functions.mixed(1.0, x, unused="no")


def test_apply_from_cpp(functions):
    x = leaf([1.0, 2.0])
    assert arr(functions.applied(x)).tolist() == [6 + 7 + 3, 12 + 14 + 9]
    assert gradcheck(functions.applied, (x,))


def test_inputs_views_and_outputs(functions):
    x = leaf([[1.0, 2.0], [3.0, 4.0]])
    out = functions.identity(x)
    assert out is not x
    out.sum().backward()
    assert x.grad.tolist() == [[5.0, 5.0], [5.0, 5.0]]
    x.grad = None
    row = functions.first_row(x)
    assert row._is_view()
    row.sum().backward()
    assert x.grad.tolist() == [[7.0, 7.0], [0.0, 0.0]]
    with pytest.raises(RuntimeError, match="custom Function|view"):
        functions.first_row(x * 1).mul_(2)
    y = functions.exp(x)
    with torch.no_grad():
        y.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


@pytest.mark.parametrize("op", ["square", "square_data"])
def test_saved_intermediate_is_poisoned_in_double_backward(functions, op):
    f = getattr(functions, op)
    x = leaf([3.0])
    f(x).sum().backward()
    assert x.grad.item() == 6
    (g,) = torch.autograd.grad(f(x).sum(), x, create_graph=True)
    assert g.item() == 6
    with pytest.raises(RuntimeError, match="intermediate result of forward"):
        g.backward()


def test_once_differentiable_raises_in_double_backward(functions):
    x = leaf([1.0, 2.0])
    assert gradcheck(functions.raw_cube, (x,))
    (g,) = torch.autograd.grad(functions.raw_cube(x).sum(), x, create_graph=True)
    assert g.tolist() == [3.0, 12.0]
    with pytest.raises(RuntimeError, match="RawCube.*once differentiable"):
        g.sum().backward()
    h = x * 1
    (g,) = torch.autograd.grad(functions.raw_cube(h).sum(), h, create_graph=True)
    with pytest.raises(RuntimeError, match="once differentiable"):
        torch.autograd.grad(g.sum(), x)


@pytest.mark.parametrize("op", ["cycle", "saved", "exp", "square_data"])
def test_nothing_leaks(functions, op):
    f = getattr(functions, op)
    released = []

    def run():
        data = np.ones(4)
        x = torch.from_numpy(data).requires_grad_()
        import weakref

        y = f(x)
        released.append(weakref.ref(x))
        released.append(weakref.ref(y))
        del x, y

    assert nodes_of(run) == 0
    assert [r() for r in released] == [None, None]

    def backward():
        x = leaf([1.0, 2.0])
        f(x).sum().backward(retain_graph=True)
        f(x).sum().backward()

    assert nodes_of(backward) == 0


def test_backward_twice_raises(functions):
    out = functions.cycle(leaf([1.0])).sum()
    out.backward()
    with pytest.raises(RuntimeError, match="second time"):
        out.backward()


def test_wrong_gradients_name_the_function(functions):
    x, y = leaf([1.0]), leaf([2.0])
    with pytest.raises(RuntimeError, match=r"TooFew.*incorrect number.*expected 2, got 1"):
        functions.too_few(x, y).backward()
    with pytest.raises(RuntimeError, match=r"TooMany.*position 1.*belongs to no argument"):
        functions.too_many(x).backward()
    with pytest.raises(RuntimeError, match=r"ForANumber.*position 1.*not a tensor"):
        functions.for_a_number(x, 2.0).backward()
    with pytest.raises(RuntimeError, match=r"WrongShape"):
        functions.wrong_shape(leaf([1.0, 2.0])).sum().backward()


def test_wrong_count_names_the_arguments(functions):
    x, y = leaf([1.0]), leaf([2.0])
    arguments = r"one is needed for argument 1 \(Tensor\), argument 2 \(Tensor\)"
    with pytest.raises(RuntimeError, match=arguments):
        functions.too_few(x, y).backward()
    with pytest.raises(RuntimeError, match=r"expected 1, got 2.*argument 1 \(Tensor\) of forward"):
        functions.too_many(x).backward()
    with pytest.raises(RuntimeError, match=r"not a tensor: .*argument 2 \(double\)"):
        functions.for_a_number(x, 2.0).backward()


def test_view_written_in_place_goes_through_backward(functions):
    for write in (functions.double_, functions.double_raw_):
        x = leaf([[1.0, 1.0], [1.0, 1.0]])
        base = x.clone()
        a = base[0]
        c = write(a)
        assert c is a
        (c.sum() + base.sum()).backward()
        assert same(x.grad, [[4, 4], [1, 1]])


def test_view_written_in_place_may_be_any_argument(functions):
    x, factor = leaf([[1.0, 2.0], [3.0, 4.0]]), leaf([10.0, 20.0])
    base = x.clone()
    functions.scale_(factor, base[0])
    base.sum().backward()
    assert same(x.grad, [[10, 20], [1, 1]]) and same(factor.grad, [1, 2])


@pytest.mark.parametrize(
    ("kind", "error"), [("v", ValueError), ("i", IndexError), ("s", RuntimeError)]
)
def test_error_text_that_is_not_utf8_arrives(functions, kind, error):
    with pytest.raises(error, match="gr\ufffd\ufffder"):
        functions.latin(leaf([1.0]), kind)
    with pytest.raises(error, match="gr\ufffd\ufffder"):
        functions.latin_backward(leaf([1.0]), kind).backward()


@pytest.mark.parametrize(
    "backward", ["", "static variable_list grad(AutogradContext*, variable_list g) { return g; }"]
)
def test_forgotten_backward_is_one_error_with_a_sentence(tmp_path, backward):
    source = tmp_path / "forgotten.cpp"
    source.write_text(
        "#include <cograd/extension.h>\n"
        "using namespace cograd; using namespace cograd::autograd;\n"
        "struct F : Function<F> {\n"
        "  static Tensor forward(AutogradContext*, const Tensor& x) { return x * 2; }\n"
        f"  {backward}\n"
        "};\n"
        "Tensor f(const Tensor& x) { return F::apply(x); }\n"
    )
    compiler = next(c for c in ("c++", "g++", "clang++") if shutil.which(c))
    includes = [f"-I{path}" for path in cpp_extension.include_paths()]
    command = [compiler, "-std=c++17", "-fsyntax-only", *includes, str(source)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    errors = [line for line in done.stderr.splitlines() if "error:" in line]
    assert len(errors) == 1 and "this Function has no `static variable_list backward" in errors[0]


def test_threads_share_one_graph(functions):
    """Several threads run backward through the same node at once."""
    x = leaf(np.ones(64))
    out = functions.saved(functions.cycle(x)).sum()
    failures = []

    def work():
        for _ in range(200):
            (g,) = torch.autograd.grad(out, x, retain_graph=True)
            if g.sum().item() != 64 * 4:
                failures.append(g)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not failures


# ---------------------------------------------------------------------------- errors

KINDS = {
    "runtime": (RuntimeError, "told to 1 2.5 True"),
    "value": (ValueError, "told to"),
    "type": (TypeError, "told to"),
    "index": (IndexError, "told to"),
    "not_implemented": (NotImplementedError, "told to"),
    "std_runtime": (RuntimeError, "std text"),
    "invalid_argument": (ValueError, "std text"),
    "domain_error": (ValueError, "std text"),
    "out_of_range": (IndexError, "std text"),
    "range_error": (ValueError, "std text"),
    "bad_alloc": (torch.OutOfMemoryError, "out of memory"),
    "foreign": (RuntimeError, "no std::exception"),
    "op": (RuntimeError, "invalid for input of size 2"),
    "undefined": (RuntimeError, "undefined Tensor"),
    "long": (RuntimeError, "x" * 100000),
}


@pytest.mark.parametrize("where", ["forward", "backward"])
@pytest.mark.parametrize("kind", KINDS)
def test_exceptions_keep_type_and_message(runtime, kind, where):
    expected, text = KINDS[kind]
    x = leaf([1.0])
    with pytest.raises(expected) as info:
        runtime.raises(x, where, kind).backward()
    assert type(info.value) is expected
    assert text in str(info.value)
    assert ("t_runtime::raises" if where == "forward" else "RaisesBackward") in str(info.value)
    with pytest.raises(expected, match="t_runtime::raises_plain"):
        runtime.raises_plain(kind)
    assert torch.is_grad_enabled()
    (x * 2).backward()
    assert x.grad.item() == 2


def test_exceptions_in_threads_arrive(runtime):
    with pytest.raises(IndexError, match="RaisesInThreads.*in a thread"):
        runtime.raises_in_threads(leaf([1.0])).backward()
    for n in (2, 1000):
        with pytest.raises(ValueError, match="item"):
            runtime.parallel_raise(n)


class Special(Exception):
    """An exception with a payload by which it is recognised."""


def raising_graph(error):
    x = leaf([1.0])
    y = x * 2

    def hook(_):
        raise error

    y.register_hook(hook)
    return y.sum()


def test_python_exceptions_pass_through_cpp_unchanged(runtime):
    error = Special("payload", 42)
    with pytest.raises(Special) as info:
        runtime.backward_of(raising_graph(error))
    assert info.value is error
    for kind in (KeyboardInterrupt, StopIteration, SystemExit):
        with pytest.raises(kind):
            runtime.backward_of(raising_graph(kind()))


def test_cpp_can_catch_python_exceptions(runtime):
    assert runtime.swallow(raising_graph(Special("x"))) is True
    assert runtime.swallow((leaf([1.0]) * 2).sum()) is False
    with pytest.raises(ValueError, match=r"instead of: .*Special.*details"):
        runtime.rethrow_other(raising_graph(Special("details")))
    assert runtime.parallel_sum(10) == 45


# ---------------------------------------------------------------------------- autograd from C++


def test_backward_with_the_gil_held(runtime):
    x = leaf([1.0, 2.0])
    assert runtime.call_backward(x).tolist() == [2.0, 4.0]
    seen = []
    y = leaf([3.0])
    y.register_hook(lambda g: seen.append(g.item()))
    runtime.call_backward(y)
    assert seen == [6.0]
    assert runtime.second_derivative(leaf([2.0, 3.0])).tolist() == [12.0, 18.0]


def test_backward_from_cpp_in_many_threads_with_python_functions(runtime):
    class Py(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g * 2 + 0 * ctx.saved_tensors[0]

    def work(_):
        x = leaf(np.ones(8))
        for _ in range(50):
            x.grad = None
            runtime.backward_of(Py.apply(x * 1).sum())
        return x.grad.sum().item()

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(work, range(8))) == [16.0] * 8


def test_hooks_from_cpp(runtime):
    g, seen = runtime.hooks(leaf([1.0, 1.0]))
    assert g.tolist() == [20.0, 20.0]
    assert seen == 2.0
    with pytest.raises(ValueError, match="from the hook"):
        runtime.hook_that_raises(leaf([1.0]))
    x = leaf([1.0])
    runtime.add_hook(x).backward()
    assert x.grad.item() == 6
    assert nodes_of(lambda: runtime.add_hook(leaf([1.0]))) == 0


def test_modes(runtime):
    assert runtime.modes(leaf([1.0])) is True


# ---------------------------------------------------------------------------- threads


def test_parallel_for(runtime):
    for n in (0, 1, 99, 100, 101, 100000):
        assert runtime.parallel_sum(n) == n * (n - 1) // 2
    assert runtime.parallel_nested() is True
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        assert runtime.parallel_sum(100000) == 100000 * 99999 // 2
        with pytest.raises(ValueError, match="item"):
            runtime.parallel_raise(1000)
    finally:
        torch.set_num_threads(before)


def test_own_threads(runtime):
    assert runtime.on_own_thread(ones(3) * 2).tolist() == [4.0] * 3


# ---------------------------------------------------------------------------- tensors


def test_indexing(runtime):
    x = torch.arange(6, dtype=torch.float64).reshape(2, 3)
    n = arr(x)
    expected = [
        n[0],
        n[-1][2],
        n[0, 1:3],
        n[:, 1],
        n[::2],
        n[..., 0],
        n[..., None],
        n[None, 1],
        n[[1, 0]],
        n[:, [2, 0]],
        n[[0, 1], [1, 2]],
        n[n > 2],
        n[[1]],
        n[1, [0, 2]],
        n[-1:],
    ]
    got = runtime.indexed(x)
    assert len(got) == len(expected)
    for i, (a, b) in enumerate(zip(got, expected, strict=True)):
        assert arr(a).tolist() == np.asarray(b).tolist(), i
    assert got[2].data_ptr() == x.data_ptr() + 8
    assert runtime.index_put(x).tolist() == [[5.0, -1.0, -1.0], [5.0, 7.0, 8.0]]
    y = leaf(n + 0.25)
    assert gradcheck(lambda t: [v for v in runtime.indexed(t) if v.numel() > 0], (y,))
    assert gradcheck(runtime.index_put, (y,))


def test_options_of_new_tensors(runtime):
    x = torch.zeros(2, dtype=torch.float64)
    assert runtime.options(x) == [
        "float32[2, 3]",
        "int64[2]",
        "int32[2]",
        "float64[1, 2]",
        "float64[2]",
        "float32[2]",
        "int64[3]",
        "float32[2]",
        "int64[2]",
        "bool[]",
        "float64[]",
        "grad",
        "strided",
        "float32[2]",
        "same",
    ]
    torch.set_default_dtype(torch.float64)
    made = runtime.options(x)
    torch.set_default_dtype(torch.float32)
    assert (made[0], made[7], made[8]) == ("float64[2, 3]", "float64[2]", "int64[2]")


def test_from_blob_calls_its_deleter_once(runtime):
    log = torch.zeros(1, dtype=torch.float64)
    t = runtime.blob(log)
    assert t.tolist() == [[1.0, 2.0], [3.0, 4.0]]
    part = t[1]
    del t
    gc.collect()
    assert log.item() == 0
    del part
    gc.collect()
    assert log.item() == 1


def test_accessors_and_data_pointers(runtime):
    x = torch.arange(6, dtype=torch.float64).reshape(2, 3)
    assert runtime.accessed(x, 1, 2) == 5
    assert runtime.accessed(x.t(), 2, 1) == 5
    with pytest.raises(RuntimeError, match="expected 3 dims but tensor has 2"):
        runtime.accessor_dim(x)
    with pytest.raises(TypeError, match="expected scalar type float32 but found float64"):
        runtime.accessor_type(x)
    with pytest.raises(TypeError, match=r"data_type\(\).*expected scalar type int64"):
        runtime.data_type(x)
    dtypes = (torch.float32, torch.complex64, torch.complex128)
    assert [runtime.dispatched_complex(x.to(t)) for t in dtypes] == [
        "real of 4", "complex of 8", "complex of 16",
    ]  # fmt: skip
    assert [runtime.dispatched(x.to(t)) for t in (torch.float32, torch.float64)] == [
        "float",
        "double",
    ]
    with pytest.raises(NotImplementedError, match="not implemented for 'int64'"):
        runtime.dispatched(x.long())
    assert runtime.versions(x) is True


def test_debug_builds_check_bounds():
    code = """
    double at(const cograd::Tensor& x, int64_t i, int64_t j) {
      return x.accessor<double, 2>()[i][j];
    }
    """
    module = cpp_extension.load_inline(
        "t_bounds", code, functions=["at"], extra_cflags=["-O0", "-DCOGRAD_DEBUG"]
    )
    x = torch.ones(2, 3, dtype=torch.float64)
    assert module.at(x, 1, 2) == 1
    for index in ((2, 0), (0, 3), (-1, 0)):
        with pytest.raises(IndexError, match=r"at.*index -?\d is out of range"):
            module.at(x, *index)


def test_operators_and_calls_by_name(runtime):
    a, b = leaf([1.0, 2.5]), leaf([3.0, 0.5])
    x, y = arr(a), arr(b)
    c = ((x + y * 2 - 1 / x + y) * 2 - 1) / y
    assert np.allclose(arr(runtime.operators(a, b)), -c + (x < y) + (x != y) + x % 2)
    assert gradcheck(runtime.operators, (a, b))
    assert runtime.calls_by_name(a) == 45 + 1
    with pytest.raises(RuntimeError, match="no op 't_runtime::nowhere'"):
        runtime.no_such_op(a)
    with pytest.raises(
        TypeError, match=r"cannot be called with \(Tensor\); expected.*parallel_sum"
    ):
        runtime.wrong_arguments(a)
