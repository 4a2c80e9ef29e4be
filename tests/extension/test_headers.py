# SPDX-License-Identifier: BSD-3-Clause
"""The public C++ and C headers: each one compiles alone, parses quickly, is self-contained."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from cograd.utils import cpp_extension

CXX = next(filter(None, map(shutil.which, ("c++", "g++", "clang++"))), None)
CLANGS = ["clang++", *(f"clang++-{n}" for n in range(40, 12, -1))]
CLANG = next(filter(None, map(shutil.which, CLANGS)), None)
CC = next(filter(None, map(shutil.which, ("cc", "gcc", "clang"))), None)
pytestmark = pytest.mark.skipif(CXX is None, reason="there is no C++ compiler")
ROOT = Path(__file__).parents[2]
INCLUDE = Path(cpp_extension.include_paths()[0])
# python.h needs pybind11; a separate test below covers it.
HEADERS = sorted(p.name for p in (INCLUDE / "cograd").glob("*.h") if p.name != "python.h")
WARNINGS = ["-Wall", "-Wextra", "-Wpedantic", "-Wshadow", "-Wconversion", "-Werror"]
MAX_LINES = 35_000
# Relative to the compiler's memory for <string> alone: 2.07 with g++ 12. Seconds are measured by
# `python -m benchmarks extension`.
MAX_MEMORY_RATIO = 2.3


def compile_(source, *flags, compiler=CXX):
    result = subprocess.run(
        [compiler, *flags, f"-I{INCLUDE}", str(source)], capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stderr[:4000]
    return result.stdout


def including(folder, *headers, name="source.cpp"):
    path = folder / name
    path.write_text("".join(f"#include <{h}>\n" for h in headers))
    return path


# A process's peak includes that of the process that starts it, so a small one does.
MEASURE = """
import os, sys
if not (pid := os.fork()):
    os.execvp(sys.argv[1], sys.argv[1:])
_, status, usage = os.wait4(pid, 0)
assert status == 0
print(usage.ru_maxrss)
"""


def peak_memory(*command):
    """Returns the peak memory of a command in KiB: how much is parsed, on any machine."""
    measure = [sys.executable, "-I", "-S", "-c", MEASURE, *command]
    return int(subprocess.run(measure, stdout=subprocess.PIPE, check=True).stdout)


def test_there_are_headers():
    assert {"extension.h", "c_api.h", "tensor.h", "function.h", "library.h"} <= set(HEADERS)


@pytest.mark.parametrize("standard", ["c++17", "c++20"])
def test_all_compile(tmp_path, standard):
    """In one unit, each twice, the last name first: extension.h would bring most others."""
    names = [f"cograd/{h}" for h in reversed(HEADERS)]
    source = including(tmp_path, *names, *names)
    compile_(source, f"-std={standard}", *WARNINGS, "-fsyntax-only")


# Uses the templates: a header that is only parsed may still be wrong for its users.
USES = """
#include <cograd/class.h>
#include <cograd/extension.h>
using cograd::Tensor;
using cograd::autograd::AutogradContext;
using cograd::autograd::variable_list;
struct Two : cograd::autograd::Function<Two> {
  static variable_list forward(AutogradContext* ctx, const Tensor& x, const variable_list& more,
                               double a) {
    ctx->save_for_backward({x});
    ctx->saved_data["a"] = a;
    ctx->saved_data["all"] = std::vector<Tensor>{x};
    return {x * a, more[0]};
  }
  static variable_list backward(AutogradContext* ctx, variable_list g) {
    const auto saved = ctx->get_saved_variables();
    return {g[0] * saved[0] * ctx->saved_data["a"].to_double(), g.back(), Tensor()};
  }
  static variable_list jvp(AutogradContext*, variable_list t) { return {t[0], t[1]}; }
  static std::pair<variable_list, int64_t> vmap(const cograd::VmapInfo&, const cograd::InDims&,
                                                const Tensor& x, const variable_list& more,
                                                double a) {
    return {Two::apply(x, more, a), 0};
  }
};
static variable_list lists(const variable_list& l, cograd::TensorList m) { return {l[0], m[0]}; }
struct Counter {
  explicit Counter(int64_t k) : n(k) {}
  variable_list get() const { return {}; }
  int64_t n = 0;
};
COGRAD_LIBRARY(t_uses, m) {
  m.def<Two>("two", "x, more, a");
  m.def("lists", &lists, "l, m");
  m.class_<Counter>("Counter").def(cograd::init<int64_t>(), "k").def("get", &Counter::get);
}
"""


@pytest.mark.parametrize("standard", ["c++17", "c++20"])
@pytest.mark.parametrize("compiler", ["default", "clang"])
def test_templates_compile(tmp_path, compiler, standard):
    if compiler == "clang" and CLANG is None:
        pytest.skip("there is no clang++ on the path")
    source = tmp_path / "uses.cpp"
    source.write_text(USES)
    flags = [f"-std={standard}", *WARNINGS, "-fsyntax-only"]
    compile_(source, *flags, compiler=CXX if compiler == "default" else CLANG)


@pytest.mark.skipif(CLANG is None, reason="there is no clang++ on the path")
@pytest.mark.parametrize("standard", ["c++17", "c++20"])
def test_all_compile_with_clang(tmp_path, standard):
    names = [f"cograd/{h}" for h in reversed(HEADERS)]
    source = including(tmp_path, *names, *names)
    compile_(source, f"-std={standard}", *WARNINGS, "-fsyntax-only", compiler=CLANG)


@pytest.mark.nightly
@pytest.mark.parametrize("standard", ["c++17", "c++20"])
@pytest.mark.parametrize("header", HEADERS)
def test_compiles_alone(tmp_path, header, standard):
    source = including(tmp_path, f"cograd/{header}", f"cograd/{header}")
    compile_(source, f"-std={standard}", *WARNINGS, "-fsyntax-only")


@pytest.mark.skipif(CC is None, reason="there is no C compiler")
@pytest.mark.parametrize("standard", ["c11", "gnu17"])
def test_c_header_is_c(tmp_path, standard):
    source = including(tmp_path, "cograd/c_devices.h", name="source.c")
    compile_(source, f"-std={standard}", *WARNINGS, "-fsyntax-only", compiler=CC)


@pytest.mark.parametrize("compiler", ["default", "clang"])
def test_python_header_compiles_alone(tmp_path, compiler):
    if compiler == "clang" and CLANG is None:
        pytest.skip("there is no clang++ on the path")
    pybind11 = pytest.importorskip("pybind11")
    source = including(tmp_path, "cograd/python.h")
    from cograd.utils.cpp_extension import _compiler

    folders = [f"-isystem{d}" for d in [pybind11.get_include(), *_compiler.include_dirs()]]
    flags = ["-std=c++17", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", *folders]
    compile_(source, *flags, compiler=CXX if compiler == "default" else CLANG)


def test_preprocessed_size(tmp_path):
    """Counts lines that are not blank and not markers of the preprocessor."""
    source = including(tmp_path, "cograd/extension.h")
    for standard in ("c++17", "c++20"):
        lines = compile_(source, f"-std={standard}", "-E", "-P").count("\n")
        assert lines <= MAX_LINES, standard


def test_memory_to_parse(tmp_path):
    flags = ["-std=c++17", "-fsyntax-only", f"-I{INCLUDE}"]
    string, header = (
        peak_memory(CXX, *flags, str(including(tmp_path, name, name=f"{i}.cpp")))
        for i, name in enumerate(["string", "cograd/extension.h"])
    )
    assert string < 100_000, "measured with another process's peak"
    assert header <= MAX_MEMORY_RATIO * string, (header, string)


def test_headers_include_no_internals(tmp_path):
    source = including(tmp_path, "cograd/extension.h", "cograd/c_api.h")
    own = {
        Path(line).resolve().relative_to(INCLUDE.resolve())
        for line in re.findall(r'^# \d+ "([^"]+)"', compile_(source, "-std=c++20", "-E"), re.M)
        if Path(line).resolve().is_relative_to(INCLUDE.resolve())
    }
    assert own
    assert all(p.parts[0] == "cograd" for p in own)
    for header in (INCLUDE / "cograd").rglob("*"):
        if header.suffix in (".h", ".inc", ".def"):
            for name in re.findall(r'#include "([^"]+)"', header.read_text()):
                assert name.startswith("cograd/"), (header, name)
                assert (INCLUDE / name).exists(), (header, name)


def test_c_interface_has_no_cpp_types():
    """Exported functions accept C-API objects, numbers and spans, and never throw."""
    text = (INCLUDE / "cograd/c_api.h").read_text()
    assert "std::" not in text
    functions = re.findall(r"COGRAD_C_API[^;]*;", text)
    assert len(functions) > 60
    for f in functions:
        assert "COGRAD_NOEXCEPT" in f, f


def test_nothing_is_exported_by_an_extension(tmp_path):
    """An extension compiled as the docs say exports no symbols of cograd's headers."""
    source = tmp_path / "op.cpp"
    source.write_text(
        "#include <cograd/extension.h>\nusing namespace cograd;\n"
        "static Tensor f(const Tensor& x) { return x * 2; }\n"
        'COGRAD_LIBRARY(t_hidden, m) { m.def("f", &f, "x"); }\n'
    )
    made = tmp_path / "op.so"
    compile_(source, "-std=c++20", "-O1", "-fPIC", "-shared", "-fvisibility=hidden", "-o", made)
    out = subprocess.run(
        ["nm", "-D", "--defined-only", "-C", str(made)], capture_output=True, text=True, check=True
    ).stdout
    assert "cograd" not in out, out


@pytest.mark.skipif(not (ROOT / "tools").is_dir(), reason="not in a source tree")
def test_generated_headers_are_up_to_date():
    result = subprocess.run(
        [sys.executable, "tools/gen_headers.py", "--check"],
        cwd=ROOT,
        env=os.environ,
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stdout + result.stderr
