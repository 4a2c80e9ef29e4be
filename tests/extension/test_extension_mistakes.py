# SPDX-License-Identifier: BSD-3-Clause
"""Checks that mistakes in C++ ops raise errors that say what was expected and what there is."""

import shutil
import subprocess
from pathlib import Path

import pytest
from conftest import leaf, ones

import cograd as torch
from cograd.testing import check
from cograd.utils import cpp_extension

CXX = next(filter(None, map(shutil.which, ("c++", "g++", "clang++"))), None)
pytestmark = pytest.mark.skipif(CXX is None, reason="there is no C++ compiler")
SOURCE = Path(__file__).parents[1] / "extensions" / "mistakes.cpp"


@pytest.fixture(scope="module")
def ops():
    return cpp_extension.load("t_mistakes", SOURCE)


NOTHING_SAVED = r"it has no tensors; call ctx->save_for_backward\(\{...\}\) in forward"
BACKWARD = {
    "saved": (IndexError, r"get_saved_variables\(\): there is no element \[1\]: " + NOTHING_SAVED),
    "one_saved": (IndexError, r"there is no element \[1\]: it has float64\[2, 3\]"),
    "saved_front": (IndexError, NOTHING_SAVED),
    "saved_back": (IndexError, NOTHING_SAVED),
    "saved_list": (IndexError, NOTHING_SAVED),
    "grads": (
        IndexError,
        r"the gradients, one for each output of forward: there is no element \[2\]: it has "
        r"float64\[2, 3\], float64\[2, 3\]",
    ),
    "needs": (IndexError, "9"),
    "name": (IndexError, r"saved_data has no 'b'; it has: 'a', 'tensors'"),
    "name_at": (IndexError, r"saved_data has no 'b'; it has: 'a', 'tensors'"),
    "name_tensor": (IndexError, r"saved_data has no 'b'; it has: 'a', 'tensors'"),
    "kind": (
        TypeError,
        r"saved_data\['a'\] holds a double, but to_tensor\(\) needs a Tensor: read it by "
        r"to_double\(\), or store a Tensor in forward",
    ),
    "kind_at": (TypeError, r"saved_data\['tensors'\] holds a list of Tensors, but to_string\(\)"),
    "kind_set": (TypeError, r"saved_data\['a'\] holds a string, but to_int\(\) needs an int: read"),
    "kind_none": (TypeError, r"saved_data\['a'\] holds None, .* a double: test is_none\(\) before"),
    "kind_list": (
        IndexError,
        r"there is no element \[2\]: it has float64\[2, 3\], float64\[2, 3\]",
    ),
}


@pytest.mark.parametrize("what", BACKWARD)
def test_mistakes_in_backward(ops, what):
    kind, text = BACKWARD[what]
    ops.set(what)
    x = leaf([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    y, z = ops.mistake(x, 2.0)
    with pytest.raises(kind, match=text):
        (y.sum() + z.sum()).backward()
    ops.set("")
    y, z = ops.mistake(x, 2.0)
    (y.sum() + z.sum()).backward()
    assert x.grad.tolist() == [[3.0] * 3] * 2


def test_mistakes_in_jvp(ops):
    x = ones(2)
    run = lambda: torch.func.jvp(lambda x: tuple(ops.mistake(x, 2.0)), (x,), (x,))[1]
    ops.set("tangents")
    text = r"the tangents, one for each argument of forward: there is no element \[2\]: it has "
    with pytest.raises(IndexError, match=text + r"float64\[2\], "):
        run()
    ops.set("jvp_saved")
    with pytest.raises(IndexError, match=NOTHING_SAVED):
        run()
    ops.set("")
    assert run()[0].tolist() == [2.0, 2.0]


@pytest.mark.parametrize(
    "what",
    ["save", "save_for_forward", "dirty", "non_differentiable", "materialize", "needs", "saved"],
)
def test_a_context_outside_of_a_call(ops, what):
    if what == "materialize":  # has no result and no effect
        ops.outside(what, ones(2))
        return
    text = NOTHING_SAVED if what == "saved" else "ctx is NULL"
    with pytest.raises((TypeError, IndexError), match=text):
        ops.outside(what, ones(2))


MISUSES = {
    "sizes": (IndexError, "ArrayRef: index 5, expected less than 2"),
    "sizes_front": (IndexError, "ArrayRef: index 0, expected less than 0"),
    "sizes_back": (IndexError, "ArrayRef: index 0, expected less than 0"),
    "slice": (IndexError, "slice of 5 elements from 1 on, but it has 2"),
    "list": (IndexError, "index 3, expected less than 1"),
    "size": (IndexError, "Dimension out of range"),
    "stride": (IndexError, "Dimension out of range"),
    "accessor_size": (IndexError, "index 2, expected less than 2"),
    "accessor_dims": (RuntimeError, "expected 3 dims but tensor has 2"),
    "accessor_type": (TypeError, "expected scalar type float32 but found float64"),
    "grad": (IndexError, r"the gradients of inputs: there is no element \[1\]"),
    "grad_undefined": (TypeError, r"got no tensor \(None\) for roots\[0\]"),
    "undefined_op": (TypeError, r"add\(\): cannot be called with"),
    "undefined_method": (TypeError, r"sum\(\): cannot be called with"),
    "undefined_size": (RuntimeError, "undefined Tensor"),
    "undefined_data": (RuntimeError, "undefined Tensor"),
    "undefined_copy": (TypeError, r"copy_\(\): cannot be called with"),
    "undefined_item": (RuntimeError, "undefined Tensor"),
    "undefined_index": (RuntimeError, "undefined Tensor"),
    "undefined_in_list": (TypeError, "element 1 of tensors is None"),
    "undefined_backward": (RuntimeError, "undefined Tensor"),
    "item": (RuntimeError, "a Tensor with 6 elements"),
    "index": (IndexError, "index 7 is out of bounds"),
    "hook": (RuntimeError, "undefined Tensor"),
    "no_op": (RuntimeError, "there is no op 't_mistakes::nothing'"),
    "too_few": (TypeError, r"cannot be called with \(Tensor\)"),
    "result_kind": (TypeError, "an op returned a result of kind .*, but its type must be int"),
    "parallel": (ValueError, "thrown by a worker"),
}


@pytest.mark.parametrize("what", MISUSES)
def test_misuses_raise(ops, what):
    kind, text = MISUSES[what]
    x = leaf([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    with pytest.raises(kind, match=text):
        ops.misuse(what, x, [x])
    assert ops.misuse("", x, [x]).tolist() == x.tolist()


def test_undefined_results_are_none(ops):
    assert ops.undefined(ones(2), 0) is None
    assert ops.undefined(ones(2), 1).tolist() == [1, 1]
    first, second = ops.half_undefined(ones(2))
    assert first.tolist() == [1, 1] and second is None


def test_wrong_rules_are_found(ops):
    report = check(
        ops.wrong_rules, torch.rand(2, 3), raise_exception=False, skip=("leaks", "threads")
    )
    assert {r.check for r in report.failures} == {
        "forward_mode",
        "mixed_modes",
        "vmap",
        "batched_derivatives",
    }


def test_a_function_that_runs_on_batches_passes(ops):
    report = check(ops.on_batches, (torch.rand(2, 3), torch.rand(2, 3)), skip=("leaks", "threads"))
    assert report["batched_derivatives"].detail.startswith("10 nestings"), report


def test_rules_of_a_compiled_function_must_work(ops):
    """An exception of a jvp or vmap that the Function defines is a fault, not a refusal."""
    options = {"raise_exception": False, "skip": ("leaks", "threads")}
    report = check(ops.no_tangents, torch.rand(3), **options)
    assert report["forward_mode"].outcome == "fail", report
    assert "jvp returned 0 tangents, expected 1" in report["forward_mode"].detail
    report = check(ops.first_dim, torch.rand(3), **options)
    assert report["vmap"].outcome == "fail", report
    assert "expected 2 samples there" in report["vmap"].detail


def test_writes_that_a_compiled_op_declares_are_no_fault(ops):
    x, y = torch.rand(2, 3), torch.rand(2, 3)
    assert check(ops.double_, (x, y), skip=("leaks", "threads"))["writes"].outcome == "pass"
    by_name = check(ops.double_, (), kwargs={"y": y, "x": x}, only="writes")
    assert by_name["writes"].outcome == "pass"


# ---------------------------------------------------------------------- what a compiler says

FUNCTION = """
#include <cograd/extension.h>
using cograd::Tensor;
using cograd::autograd::AutogradContext;
using cograd::autograd::variable_list;
struct F : cograd::autograd::Function<F> {
  FORWARD { return x; }
  static variable_list backward(AutogradContext*, variable_list grads) { return grads; }
};
Tensor f(const Tensor& x) { return F::apply(ARGUMENTS); }
"""
WRONG_FORWARDS = {
    "not static": ("Tensor forward(AutogradContext*, Tensor x)", "x", "forward is not static"),
    "no ctx": ("static Tensor forward(const Tensor& x)", "x", "ctx is missing"),
    "const, not static": ("Tensor forward(const Tensor& x) const", "x", "forward is not static"),
    "other arguments": (
        "static Tensor forward(AutogradContext*, Tensor x, int)",
        "x",
        "the arguments of apply do not fit",
    ),
}


def errors_of(code, folder, compiler=CXX):
    source = folder / "wrong.cpp"
    source.write_text(code)
    command = [compiler, "-std=c++20", "-fsyntax-only", f"-I{cpp_extension.include_paths()[0]}"]
    done = subprocess.run([*command, str(source)], capture_output=True, text=True, check=False)
    return done.stderr


CLANGS = ["clang++", *(f"clang++-{n}" for n in range(40, 12, -1))]
CLANG = next(filter(None, map(shutil.which, CLANGS)), None)
COMPILERS = pytest.mark.parametrize(
    "compiler",
    [
        CXX,
        pytest.param(CLANG, marks=pytest.mark.skipif(CLANG is None, reason="there is no clang++")),
    ],
    ids=["default", "clang"],
)


@COMPILERS
@pytest.mark.parametrize("what", WRONG_FORWARDS)
def test_a_wrong_forward_is_named(tmp_path, what, compiler):
    forward, arguments, text = WRONG_FORWARDS[what]
    code = FUNCTION.replace("FORWARD", forward).replace("ARGUMENTS", arguments)
    output = errors_of(code, tmp_path, compiler)
    first = next(line for line in output.splitlines() if "error:" in line)
    assert "static" in first and text in first, first


def test_a_right_forward_compiles(tmp_path):
    code = FUNCTION.replace("FORWARD", "static Tensor forward(AutogradContext*, Tensor x)")
    assert errors_of(code.replace("ARGUMENTS", "x"), tmp_path) == ""


HINTS = {
    "a static_assert": (
        FUNCTION.replace("FORWARD", "static Tensor forward(const Tensor& x)")
        .replace("ARGUMENTS", "x")
        .replace("using cograd::autograd::variable_list;", "")
        .replace("variable_list", "std::vector<Tensor>"),
        [],
    ),
    "relu": (
        "using namespace cograd;\nTensor relu(const Tensor& x) { return x; }\n"
        "Tensor f(const Tensor& x) { return relu(x); }",
        ["'relu' is also cograd::relu: rename yours"],
    ),
    "Scalar": (
        "using namespace cograd;\nstruct Scalar {};\nTensor f(Scalar s, Tensor x) { return x; }",
        ["'Scalar' is also cograd::Scalar: rename yours"],
    ),
    "Op": (
        "using namespace cograd;\nstruct Op {};\nTensor f(Tensor x) { Op op; return x; }",
        ["'Op' is also cograd::Op: rename yours"],
    ),
}


@COMPILERS
@pytest.mark.parametrize("what", HINTS)
def test_hints(tmp_path, what, compiler):
    from cograd.utils.cpp_extension import _messages

    code, expected = HINTS[what]
    text = errors_of(f"#include <cograd/extension.h>\n{code}", tmp_path, compiler)
    assert "error:" in text
    found = _messages._hints(None, text)
    assert len(found) == len(expected), found
    for hint, start in zip(found, expected):
        assert hint.startswith(start)


MAP = "#include <map>\nusing cograd::Tensor;\n"


def test_a_parameter_that_an_op_cannot_take_is_named(tmp_path):
    """The hint names op and parameter, for a function, a struct and a library of the user's."""
    function = MAP + "Tensor f(const Tensor& x, const std::map<int, int>& table) { return x; }"
    struct = """
    struct Look : cograd::autograd::Function<Look> {
      static Tensor forward(cograd::autograd::AutogradContext* ctx, const Tensor& x,
                            std::map<int, int> table) { return x; }
      static cograd::autograd::variable_list backward(
          cograd::autograd::AutogradContext* ctx, cograd::autograd::variable_list g) { return g; }
    };
    """
    library = 'COGRAD_LIBRARY(bad_map, m) { m.def("look", &f, "x, table"); }'
    for name, code, functions, op in (
        ("bad_f", function, ["f"], "f"),
        ("bad_struct", MAP + struct, ["Look"], "Look"),
        ("bad_map", function + "\n" + library, None, "look"),
    ):
        with pytest.raises(RuntimeError) as raised:
            cpp_extension.load_inline(
                name, code, functions=functions, build_directory=str(tmp_path / name)
            )
        hint = [x for x in str(raised.value).splitlines() if x.startswith("hint:")]
        assert len(hint) == 1, str(raised.value)
        assert f"parameter 'table' of op {op!r} has the type" in hint[0]
        assert "std::map<int, int>" in hint[0]


REGISTERED = {
    "a name that is not there": (
        "Tensor reach(const Tensor& x) { return x; }",
        "raech",
        "functions names 'raech', but the sources do not declare it: did you mean 'reach'?",
    ),
    "a struct without its base": (
        "struct Reach { static Tensor forward(const Tensor& x) { return x; } };",
        "Reach",
        "Reach is a struct that does not derive from cograd::autograd::Function<Reach>: only "
        "functions and such structs are ops",
    ),
    "an overloaded function": (
        "Tensor f(const Tensor& x) { return x; }\n"
        "Tensor f(const Tensor& x, double a) { return x * a; }",
        "f",
        "f is overloaded: give each function a name of its own",
    ),
    "a template": (
        "template <class T>\nT f(const T& x) { return x; }",
        "f",
        "f is a template: write a function for the types that the op takes",
    ),
    "a name of cograd": (
        "using namespace cograd;\nTensor relu(const Tensor& x) { return x.clamp_min(0); }",
        "relu",
        "'relu' is also cograd::relu: rename yours, or name what you use of cograd instead of "
        "`using namespace cograd;`",
    ),
    "a text in C": (
        "Tensor f(const Tensor& x, const char* mode) { return x; }",
        "f",
        "parameter 'mode' of op 'f' has the type const char*, which an op cannot take",
    ),
    "a missing header": (
        "Tensor f(const Tensor& x) { std::map<int, int> m; return x; }",
        "f",
        "include the standard header that declares std::map: <cmath>, <algorithm>, <memory> and "
        "the like are not among cograd's headers",
    ),
    "a missing directory": (
        "#include <not/there.hpp>\nTensor f(const Tensor& x) { return x; }",
        "f",
        "add the directory that contains it to extra_include_paths",
    ),
}


@COMPILERS
def test_hints_of_load_inline(tmp_path, monkeypatch, compiler):
    monkeypatch.setenv("CXX", compiler)
    for i, (what, (code, function, expected)) in enumerate(REGISTERED.items()):
        with pytest.raises(RuntimeError) as raised:
            cpp_extension.load_inline(
                f"registered_{i}",
                f"using cograd::Tensor;\n{code}",
                functions=function,
                build_directory=str(tmp_path / str(i)),
            )
        lines = str(raised.value).splitlines()
        hints = [line.removeprefix("hint: ") for line in lines if line.startswith("hint: ")]
        assert hints == [expected], (what, str(raised.value))


@COMPILERS
def test_an_assertion_is_shown_once_and_whole(tmp_path, monkeypatch, compiler):
    monkeypatch.setenv("CXX", compiler)
    code = """
    using cograd::Tensor;
    using namespace cograd::autograd;
    struct Reach : Function<Reach> {
      static Tensor forward(AutogradContext* ctx, const Tensor& x) { return x; }
      static variable_list backward(AutogradContext* ctx, variable_list g) { return g; }
      static Tensor jvp(AutogradContext* ctx, Tensor t) { return t; }
    };
    """
    with pytest.raises(RuntimeError) as raised:
        cpp_extension.load_inline(
            "asserted", code, functions="Reach", build_directory=str(tmp_path)
        )
    text = str(raised.value)
    said = "jvp must be `static variable_list jvp(AutogradContext* ctx, variable_list tangents)`, "
    assert text.count(said + "which returns one tangent per output of forward") == 1, text
    assert text.count("error:") == 1, text
