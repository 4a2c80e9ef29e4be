# SPDX-License-Identifier: BSD-3-Clause
"""Measures building and calling ops written in C++, from one source with another namespace."""

# mypy: ignore-errors
from __future__ import annotations

import importlib
import os
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager

from .case import bench, group

group("extension", "C++ extensions")

ONE_OP = """
NS::Tensor axpby(const NS::Tensor& x, const NS::Tensor& y, double a) { return x * a + y; }
"""
FUNCTION = """
struct Cube : NS::autograd::Function<Cube> {
  static NS::Tensor forward(NS::autograd::AutogradContext* ctx, const NS::Tensor& x) {
    ctx->save_for_backward({x});
    return x * x * x;
  }
  static NS::autograd::variable_list backward(NS::autograd::AutogradContext* ctx,
                                              NS::autograd::variable_list grads) {
    NS::Tensor x = ctx->get_saved_variables()[0];
    return {grads[0] * 3 * x * x};
  }
};
NS::Tensor cube(const NS::Tensor& x) { return Cube::apply(x); }
NS::Tensor same(const NS::Tensor& x) { return x; }
"""
MODULE = """
#include <HEADER>
NS::Tensor axpby(const NS::Tensor& x, const NS::Tensor& y, double a) { return x * a + y; }
PYBIND11_MODULE(NAME_EXTENSION_NAME, m) { m.def("axpby", &axpby, "a x + y"); }
"""


def source(torch, text, tag=""):
    """Returns the source for one of the libraries; the tag makes it new to the cache."""
    own = torch.__name__ == "cograd"
    header = "cograd/python.h" if own else "torch/extension.h"
    text = text.replace("HEADER", header).replace("NAME_", "COGRAD_" if own else "TORCH_")
    return f"// {tag}\n" + text.replace("NS::", f"{torch.__name__}::")


def build(torch, name, text, functions=None):
    """Compiles, loads and returns the module."""
    extension = importlib.import_module(f"{torch.__name__}.utils.cpp_extension")
    return extension.load_inline(name, text, functions=functions)


@contextmanager
def empty_cache():
    """Puts both libraries' caches into a new directory."""
    with tempfile.TemporaryDirectory() as folder:
        for name in ("TORCH_EXTENSIONS_DIR", "COGRAD_EXTENSIONS_DIR"):
            os.environ[name] = folder
        yield folder


def elapsed(function, *args):
    """Runs once and returns (seconds, result)."""
    start = time.perf_counter()
    result = function(*args)
    return time.perf_counter() - start, result


@bench("extension", name="load_inline of one op", own_process=True, rounds=2)
def one_op(torch):
    with empty_cache():
        seconds, module = elapsed(build, torch, "one", source(torch, ONE_OP), ["axpby"])
        return {"time": seconds, "module bytes": os.path.getsize(module.__file__)}


@bench("extension", name="load_inline of a Function, three ops", own_process=True, rounds=2)
def three_ops(torch):
    text = source(torch, FUNCTION + ONE_OP)
    with empty_cache():
        seconds, _ = elapsed(build, torch, "three", text, ["cube", "same", "axpby"])
        return {"time": seconds}


@bench("extension", name="load_inline of a pybind11 module", own_process=True, rounds=2)
def pybind11_module(torch):
    with empty_cache():
        first, _ = elapsed(build, torch, "bound", source(torch, MODULE, "1"))
        later, _ = elapsed(build, torch, "bound_too", source(torch, MODULE, "2"))
        return {"first time": first, "later time": later}


@bench("extension", name="load_inline, cached, new process", own_process=True, rounds=3)
def cached(torch):
    code = (
        f"import sys, time, {torch.__name__} as torch\n"
        "from benchmarks.extension import ONE_OP, build, source\n"
        "text = source(torch, ONE_OP)\n"
        "start = time.perf_counter()\n"
        "build(torch, 'one', text, ['axpby'])\n"
        "print(time.perf_counter() - start)\n"
    )
    with empty_cache():
        times = []
        for _ in range(3):
            out = subprocess.run(
                [sys.executable, "-c", code], check=True, capture_output=True, text=True
            ).stdout
            times.append(float(out.splitlines()[-1]))
        return {"time": min(times[1:])}


@bench("extension", name="C++ Function, 4 elements, with backward", target=6)
def function_call(torch):
    f = build(torch, "bench_function", source(torch, FUNCTION), ["cube", "same"]).cube
    x = torch.rand(4, requires_grad=True)
    g = torch.ones(4)
    return "f(x).backward(g)", vars()


@bench("extension", name="C++ op that returns its argument")
def op_call(torch):
    f = build(torch, "bench_function", source(torch, FUNCTION), ["cube", "same"]).same
    x = torch.rand(4)
    return "f(x)", vars()
