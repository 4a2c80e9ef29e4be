# SPDX-License-Identifier: BSD-3-Clause
"""torch's C++ names in cograd: extensions written for torch compile unchanged and are right."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import cograd as torch
from cograd._base import registered_ops
from cograd.autograd import Function, gradcheck, gradgradcheck
from cograd.utils import cpp_extension

pytestmark = pytest.mark.skipif(
    not any(map(shutil.which, ("c++", "g++", "clang++"))), reason="there is no C++ compiler"
)

HERE = Path(__file__).parents[1] / "torch_compat"
OPS = ("fused", "dispatched", "functions", "names")
COMPAT = Path(cpp_extension.include_paths()[0]) / "cograd" / "torch_compat"


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    folder = tmp_path_factory.mktemp("compat")
    before = os.environ.get("COGRAD_EXTENSIONS_DIR")
    os.environ["COGRAD_EXTENSIONS_DIR"] = str(folder)
    yield folder
    if before is None:
        del os.environ["COGRAD_EXTENSIONS_DIR"]
    else:
        os.environ["COGRAD_EXTENSIONS_DIR"] = before


@pytest.fixture(scope="module")
def ops(cache):
    """Returns the ops of four files in one shared object, which is also an importable module."""
    sources = [str(HERE / f"{name}.cpp") for name in OPS]
    cpp_extension.load("compat_ops", sources, with_torch_compat=True)
    return torch.ops.compat


@pytest.fixture(scope="module")
def names(ops):
    return torch.ops.compat_names


@pytest.fixture(scope="module")
def cell(cache):
    return cpp_extension.load("compat_cell", [str(HERE / "cell.cpp")], with_torch_compat=True)


def rand(*shape, grad=True, dtype=torch.float64):
    return torch.randn(*shape, dtype=dtype, requires_grad=grad)


# ---------------------------------------------------------------------------- the cell


def cell_function(cell):
    class Cell(Function):
        @staticmethod
        def forward(ctx, x, weight, bias, h, c):
            new_h, *kept = cell.forward(x, weight, bias, h, c)
            ctx.save_for_backward(c, *kept, weight)
            return new_h, kept[0]

        @staticmethod
        def backward(ctx, grad_h, grad_c):
            return tuple(cell.backward(grad_h, grad_c, *ctx.saved_tensors))

    return Cell


def cell_formula(x, weight, bias, h, c):
    forget, output, candidate = (torch.cat([x, h], 1) @ weight.t() + bias).chunk(3, 1)
    forget = forget.sigmoid()
    new_c = forget * c + (1 - forget) * candidate.tanh()
    return output.sigmoid() * new_c, new_c


def test_cell_is_the_formula_and_its_gradient_is_right(cell):
    args = (rand(3, 5), rand(12, 9), rand(12), rand(3, 4), rand(3, 4))
    function = cell_function(cell)
    for got, expected in zip(function.apply(*args), cell_formula(*args)):
        torch.testing.assert_close(got, expected)
    assert gradcheck(function.apply, args)
    got = torch.autograd.grad(function.apply(*args)[0].sum(), args)
    expected = torch.autograd.grad(cell_formula(*args)[0].sum(), args)
    for a, b in zip(got, expected):
        torch.testing.assert_close(a, b)


def test_cell_checks_its_arguments(cell):
    args = [rand(3, 5), rand(9, 12).t(), rand(12), rand(3, 4), rand(3, 4)]
    with pytest.raises(RuntimeError, match="weight must be contiguous"):
        cell.forward(*args)
    with pytest.raises(RuntimeError, match="x must be a CUDA tensor"):
        cell.needs_cuda(args[0])
    with pytest.raises(TypeError):
        cell.forward(1, 2)
    assert cell.sum_of([1.0, 2.5], {"a": 1}) == 4.5


# ---------------------------------------------------------------------------- ops


def test_ops_with_cpu_kernels(ops):
    for dtype in (torch.float32, torch.float64):
        a, b = rand(4, 5, grad=False, dtype=dtype), rand(5, 4, grad=False, dtype=dtype).t()
        torch.testing.assert_close(ops.fused_madd(a, b, 3.5), a * b + 3.5)
        torch.testing.assert_close(ops.fused_madd(a, b=b), a * b + 1)
        torch.testing.assert_close(ops.product(a, b), a * b)
        torch.testing.assert_close(ops.weighted([a, b], [2.0, -1.0]), 2 * a - b)
    big = rand(100_000, grad=False)
    torch.testing.assert_close(ops.fused_madd(big, big, 0.5), big * big + 0.5)


def test_ops_that_write_count_versions_and_keep_gradients_right(ops):
    a, b, out = (rand(6, grad=False, dtype=torch.float32) for _ in range(3))
    assert ops.add_into(a, b, out) is None
    torch.testing.assert_close(out, a + b)
    assert out._version == 1
    expected = out * 3
    assert ops.scaled_(out, 3.0) is out
    torch.testing.assert_close(out, expected)
    w = torch.ones(6, requires_grad=True)
    y = (w * out).sum()
    ops.add_into(a, b, out)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.backward()
    with pytest.raises(RuntimeError, match="leaf Variable that requires grad.*add_into"):
        ops.add_into(a, b, w)
    with torch.no_grad():
        ops.add_into(a, b, w)


def test_errors_name_the_op(ops):
    with pytest.raises(RuntimeError, match=r"fused_madd.*Expected a.sizes\(\) == b.sizes\(\)"):
        ops.fused_madd(torch.ones(2), torch.ones(3))
    with pytest.raises(TypeError, match="expected one dtype, got Float and Double"):
        ops.fused_madd(torch.ones(2), torch.ones(2, dtype=torch.float64))
    with pytest.raises(NotImplementedError, match='"fused_madd" not implemented for .Long.'):
        ops.fused_madd(torch.ones(2).long(), torch.ones(2).long())
    with pytest.raises(TypeError, match="fused_madd"):
        ops.fused_madd(torch.ones(2))
    with pytest.raises(NotImplementedError, match="without_kernel.*no kernel was registered"):
        ops.without_kernel(torch.ones(2))


def test_gradient_registered_from_python(ops):
    a, b = rand(3, 4), rand(3, 4)
    with pytest.raises(RuntimeError, match="has no gradient"):
        ops.fused_madd(a, b, 1.0).sum().backward()

    def backward(ctx, grad):
        a, b = ctx.saved_tensors
        grad_a = ops.product(grad, b) if ctx.needs_input_grad[0] else None
        grad_b = ops.product(grad, a) if ctx.needs_input_grad[1] else None
        return grad_a, grad_b, None

    def setup_context(ctx, inputs, output):
        a, b, c = inputs
        assert isinstance(c, float)
        ctx.save_for_backward(
            a if ctx.needs_input_grad[1] else None, b if ctx.needs_input_grad[0] else None
        )

    def product_backward(ctx, grad):
        a, b = ctx.saved_tensors
        return ops.product(grad, b), ops.product(grad, a)

    def keep(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    # Gradients may arrive with other strides.
    torch.library.register_autograd("compat::fused_madd", backward, setup_context=setup_context)
    torch.library.register_autograd("compat::product", product_backward, setup_context=keep)
    try:
        op = torch.ops.compat.fused_madd
        assert op is op.default
        torch.testing.assert_close(op(a, b, 2.0), a * b + 2)
        assert gradcheck(op, (a, b, 2.0))
        assert gradcheck(lambda x: op(x, b.detach()), (a,))  # the default of c is an input too
        assert gradgradcheck(op, (a, b, 2.0))
        assert op(a, b).requires_grad
        with torch.no_grad():
            assert not op(a, b).requires_grad
        assert not op(a.detach(), b.detach()).requires_grad
        with pytest.raises(TypeError, match="fused_madd"):
            op(a)
    finally:
        for name in ("fused_madd", "product"):
            registered_ops.remove(registered_ops.find(f"compat::{name}"))
    with pytest.raises(RuntimeError, match="has its own gradient"):
        torch.library.register_autograd("compat::waves", backward)
    with pytest.raises(RuntimeError, match="non-functional operator"):
        torch.library.register_autograd("compat::add_into", backward)
    for name in ("waves", "add_into"):
        registered_ops.remove(registered_ops.find(f"compat::{name}"))


# ---------------------------------------------------------------------------- dispatch


def test_kernels_for_the_cpu_and_for_autograd(ops):
    x = rand(3, 4)
    s, c = ops.waves(x, 2.0)
    torch.testing.assert_close(s, 2 * x.sin())
    torch.testing.assert_close(c, 2 * x.cos())
    assert s.grad_fn.name() == "WavesBackward"
    assert gradcheck(lambda x: ops.waves(x, 2.0), (x,))
    before = ops.cpu_calls()
    with torch.no_grad():
        assert not ops.waves(x, 2.0)[0].requires_grad
    assert ops.cpu_calls() == before + 1


def test_overloads_compositions_and_the_older_registration(ops):
    x = rand(5)
    one, zero = torch.ones(5, dtype=x.dtype), torch.zeros(5, dtype=x.dtype)
    (g,) = ops.waves.backward(x.detach(), one, zero)
    assert ops.waves.default is ops.waves
    with pytest.raises(AttributeError):
        ops.waves.forward
    torch.testing.assert_close(g, x.cos())
    assert gradcheck(ops.twice, (x,))
    assert gradcheck(ops.squared, (x,))
    assert gradcheck(lambda x: ops.thrice(x, x), (x,))
    torch.testing.assert_close(ops.thrice(x, None), 3 * x)


# ---------------------------------------------------------------------------- Functions


def test_functions(ops):
    x, w, b = rand(3, 4), rand(2, 4), rand(2)
    torch.testing.assert_close(ops.affine(x, w, b), x @ w.t() + b)
    torch.testing.assert_close(ops.affine(x, w, None), x @ w.t())
    assert gradcheck(ops.affine, (x, w, b)) and gradgradcheck(ops.affine, (x, w, b))
    assert gradcheck(lambda x, w: ops.affine(x, w, None), (x, w))
    assert gradcheck(lambda x: ops.scale(x, 5.5), (x,))
    assert gradgradcheck(lambda x: ops.scale(x * x, 5.5), (x,))
    assert ops.node_name(ops.scale(x, 5.5)) == "ScaleBackward"
    assert ops.node_name(x) == "leaf"
    assert ops.slope_at(3.0) == pytest.approx(33.0)


def test_function_in_place(ops):
    x = rand(4)
    y = x * 1
    out, signs = ops.doubled_(y)
    assert out is y and not signs.requires_grad
    torch.testing.assert_close(out, 2 * x)
    out.sum().backward()
    torch.testing.assert_close(x.grad, torch.full_like(x, 2.0))


def test_gradients_inside_cpp(ops):
    x = rand(4)
    torch.testing.assert_close(ops.penalty(x), (9 * x**4).sum())
    assert gradcheck(ops.penalty, (x,))


# ---------------------------------------------------------------------------- names


def test_dispatch_macros(names):
    both = {"float32": "Float", "float64": "Double", "float16": "Half", "bfloat16": "BFloat16"}
    both |= {"uint8": "Byte", "int8": "Char", "int16": "Short", "int32": "Int", "int64": "Long"}
    for dtype, name in both.items():
        assert names.dispatched(getattr(torch, dtype)) == name * 2
    assert names.dispatched(torch.bool) == "Bool"
    assert names.floats_only(torch.ones(1, dtype=torch.float64)).item() == 8
    with pytest.raises(NotImplementedError, match='"floats_only" not implemented for .Half.'):
        names.floats_only(torch.ones(1, dtype=torch.float16))


def test_accessors_loops_and_halves(names):
    x = torch.arange(12.0).view(4, 3).t()
    torch.testing.assert_close(names.sums(x), x.sum(0))
    assert names.sums(x.int()).dtype == torch.int32
    long = rand(12_345, grad=False)
    assert names.reduced(long) == pytest.approx(long.sum().item())
    for dtype in (torch.float16, torch.bfloat16):
        assert names.halves(torch.ones(5, dtype=dtype)).tolist() == [10.0] * 5
    with pytest.raises(RuntimeError, match="accessor"):
        names.sums(torch.ones(2, 2, 2))


@pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128])
def test_complex_kernels(names, dtype):
    z = torch.tensor([1 + 2j, -0.5j, 3.0], dtype=dtype)
    torch.testing.assert_close(names.waved(z), z.exp() * z + 1)
    torch.testing.assert_close(names.lengths(z), z.abs())
    with pytest.raises(NotImplementedError, match="\"lengths\" not implemented for 'Float'"):
        names.lengths(torch.ones(3))


def test_kernels_of_real_and_complex_types(names):
    x = torch.linspace(-1, 1, 5)
    with pytest.raises(NotImplementedError, match="\"waved\" not implemented for 'Long'"):
        names.waved(torch.ones(3, dtype=torch.int64))
    assert names.waved(x.to(torch.complex64)).real.tolist() == pytest.approx(
        (x.exp() * x + 1).tolist()
    )


def test_indexing_and_functions(names):
    x = torch.arange(12.0).view(3, 4)
    got = names.indexed(x)
    assert x[0].tolist() == [7.0, 7.0, 2.0, 3.0]
    torch.testing.assert_close(got, torch.stack([x[..., 0], x[:, -1]]))
    x = rand(2, 3, grad=False)
    expected = x.relu() + x.softmax(-1) + x.clamp(-0.5, 0.5) + x.max(1, keepdim=True)[0]
    expected = (
        expected + torch.where(x > 0, x, torch.zeros_like(x)) + torch.arange(0, 3).view(1, -1)
    )
    torch.testing.assert_close(names.many(x), expected + x + torch.tensor([1.0, 2.0, 3.0]))


def test_texts(names):
    x = torch.ones(2, 3)
    assert names.described(x) == "[2, 3] Float cpu CPUFloatType Int 2 n 00"
    assert names.described(x.int(), torch.int64, 1.5, name="é").endswith("CPUIntType Long 1.5 é 00")


@pytest.mark.parametrize(
    ("how", "error", "message"),
    [
        ("value", ValueError, "a value"),
        ("type", TypeError, "a type"),
        ("index", IndexError, "an index"),
        ("missing", NotImplementedError, "missing"),
        ("plain", RuntimeError, r"Expected how.empty\(\) to be true, but got false"),
        ("error", RuntimeError, "an error 1"),
        ("assert", RuntimeError, r"how.empty\(\) INTERNAL ASSERT FAILED at .*names.cpp.* why"),
        ("equal", RuntimeError, r"Check failed: 1 \+ 1 == 3 \(2 vs. 3\)"),
        ("std", IndexError, "std"),
    ],
)
def test_checks_become_python_exceptions(names, how, error, message):
    with pytest.raises(error, match=message):
        names.fails(how)


def test_warnings(names):
    with pytest.warns(UserWarning, match="warned: caught"):
        names.fails("nothing")


# ---------------------------------------------------------------------------- what is refused


def test_wrong_registrations_are_refused_when_loaded(cache):
    with pytest.raises(ImportError) as e:
        cpp_extension.load("compat_refused", [str(HERE / "refused.cpp")], with_torch_compat=True)
    text = str(e.value)
    assert "refused::other_type" in text and "'n' is float in the schema" in text
    assert "refused::fewer" in text and "1 parameters, the C++ function 2" in text
    assert "refused::unknown" in text and "type Quaternion" in text
    assert "refused::again" in text and "defines it twice" in text


def compiler(*arguments, **kwargs):
    flags = [
        "-std=c++17",
        "-fsyntax-only",
        "-w",
        "-DCOGRAD_TORCH_COMPAT",
        "-DTORCH_EXTENSION_NAME=x",
    ]
    folders = cpp_extension.include_paths(with_torch_compat=True)
    command = [shutil.which("c++") or "g++", *flags, *(f"-I{f}" for f in folders), *arguments]
    return subprocess.run(command, capture_output=True, text=True, **kwargs)


def test_what_is_missing_is_named_by_the_compiler():
    done = compiler(str(HERE / "missing.cpp"))
    assert done.returncode != 0
    errors = "\n".join(line for line in done.stderr.splitlines() if "error:" in line)
    for name in (
        "fft_fft", "kComplexHalf", "ChannelsLast", "XPU",
        "unsafeGetTensorImpl", "Linear", "mutable_grad", "class_", "fallback", "Teapot",
    ):  # fmt: skip
        assert re.search(rf"\b{name}\b", errors), f"{name} is not named in:\n{errors}"


def shims():
    for path in sorted(COMPAT.rglob("*.h")):
        header = path.relative_to(COMPAT).as_posix()
        if not header.startswith("impl/"):
            yield header, path.read_text()


def test_headers_that_are_not_offered_say_so():
    refused = [(h, t) for h, t in shims() if "#error" in t]
    assert len(refused) > 10
    for header, text in refused:
        assert re.search(rf'#error[\s\\]*"cograd: <{re.escape(header)}> \S', text)
    done = compiler("-x", "c++", "-", input="#include <ATen/cuda/CUDAEvent.h>\n")
    assert done.returncode != 0 and "cograd::cuda::Kernel" in done.stderr


def test_all_other_headers_compile_together_and_the_small_ones_alone():
    offered = [h for h, t in shims() if "#error" not in t and "python" not in h]
    offered = [h for h in offered if "pybind" not in h and "Exceptions" not in h]
    assert len(offered) > 60
    text = "".join(f"#include <{h}>\n" for h in offered)
    done = compiler("-Wall", "-x", "c++", "-", input=text)
    assert done.returncode == 0, done.stderr
    for header in ("c10/util/Exception.h", "ATen/Dispatch.h", "torch/library.h"):
        done = compiler("-x", "c++", "-", input=f"#include <{header}>\n")
        assert done.returncode == 0, done.stderr


def test_cograds_headers_first_is_an_error_not_a_surprise():
    text = "#include <cograd/extension.h>\n#include <torch/extension.h>\n"
    done = compiler("-UCOGRAD_TORCH_COMPAT", "-x", "c++", "-", input=text)
    assert done.returncode != 0 and "come before <cograd/extension.h>" in done.stderr


IMPORTED = """
import importlib.util as u
import sys
import cograd
spec = u.spec_from_file_location("compat_ops", sys.argv[1])
u.module_from_spec(spec)
print(cograd.ops.compat.twice(cograd.ones(1)).item())
"""


def test_the_module_can_be_imported(ops, cache):
    (path,) = (p for p in cache.rglob("compat_ops*.so") if not p.is_symlink())
    command = [sys.executable, "-c", IMPORTED, str(path)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.stdout.strip() == "2.0", done.stderr
