# SPDX-License-Identifier: BSD-3-Clause
"""Loading extensions: errors of libraries and modules, reloads, forks, changing files."""

import glob
import json
import os
import shutil
import subprocess
import sys
import sysconfig
import textwrap
import time
from pathlib import Path

import pytest
from conftest import leaf, ones

import cograd as torch
from cograd import library
from cograd.utils import cpp_extension
from cograd.utils.cpp_extension import _build, _compiler

CXX = next(filter(None, map(shutil.which, ("c++", "g++", "clang++"))), None)
pytestmark = pytest.mark.skipif(CXX is None, reason="there is no C++ compiler")


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """Returns an empty cache directory of this test."""
    path = tmp_path / "cache"
    monkeypatch.setenv("COGRAD_EXTENSIONS_DIR", str(path))
    return path


def write(path, text):
    path.write_text(textwrap.dedent(text))
    return path


def run_python(code, *args, **kwargs):
    result = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code), *map(str, args)],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        **kwargs,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


def test_nullable_in_the_schema_needs_a_nullable_parameter(cache, tmp_path):
    text = """
    #include <cograd/extension.h>
    int64_t plain(const cograd::Tensor&, int64_t n) { return n; }
    COGRAD_LIBRARY(t_calls_null, m) { m.def("plain", &plain, "(Tensor x, int? n=None) -> int"); }
    """
    with pytest.raises(ImportError, match=r"t_calls_null::plain.*'int\?'.*None"):
        cpp_extension.load("t_calls_null", write(tmp_path / "a.cpp", text))
    with pytest.raises(AttributeError):
        _ = torch.ops.t_calls_null.plain


# ---------------------------------------------------------------------------- errors while loading

THROWING = """
#include <cograd/extension.h>
using namespace cograd;
int64_t f() { return 1; }
COGRAD_LIBRARY(t_calls_throw, m) {
  m.def("f", &f);
  COGRAD_CHECK(false, "cannot start (yet)");
}
COGRAD_LIBRARY_FRAGMENT(t_calls_throw, m) {
  (void)m;
  throw 5;
}
"""


def test_exception_in_a_library_block(cache, tmp_path):
    for _ in range(2):  # the second time from the cache
        with pytest.raises(ImportError) as info:
            cpp_extension.load("t_calls_throw", write(tmp_path / "a.cpp", THROWING))
        text = str(info.value)
        assert "t_calls_throw::COGRAD_LIBRARY" in text
        assert "cannot start 'yet'" in text
        assert "no std::exception" in text
    good = THROWING.replace("COGRAD_CHECK(false", "COGRAD_CHECK(true").replace("throw 5;", "")
    assert cpp_extension.load("t_calls_throw", write(tmp_path / "a.cpp", good)).f() == 1


def build_module(folder, name, text, include=None):
    """Builds a pybind11 module without cograd.utils.cpp_extension; tests import it in a process."""
    pybind11 = _compiler.pybind11_include()
    if pybind11 is None:
        pytest.skip("pybind11 is not installed")
    source = write(folder / f"{name}.cpp", text)
    (lib,) = cpp_extension.library_paths()[:1]
    flags = ["-std=c++17", "-O0", "-shared", "-fPIC", "-fvisibility=hidden"]
    flags += [f"-I{include or cpp_extension.include_paths()[0]}", f"-isystem{pybind11}"]
    flags += [f"-isystem{sysconfig.get_paths()['include']}", f"-L{lib}", f"-Wl,-rpath,{lib}"]
    flags += _compiler.openblas_flags()
    subprocess.run(
        [CXX, *flags, str(source), "-lcograd", "-o", str(folder / f"{name}.so")], check=True
    )


IMPORT = """
import sys, cograd
sys.path.insert(0, sys.argv[1])
for _ in range(2):
    try:
        module = __import__(sys.argv[2])
    except ImportError as e:
        print("ImportError:", e)
    else:
        print(module.n(cograd.ones(3)))
"""
MODULE = """
#include <cograd/python.h>
PYBIND11_MODULE(NAME, m) { m.def("n", [](const cograd::Tensor& t) { return t.numel(); }); }
"""


@pytest.mark.parametrize(("major", "minor"), [(0, 1), (1, 0)])
def test_plain_import_checks_the_abi(tmp_path, major, minor):
    ours = torch._C._abi_version()
    theirs = (ours[0] + major, ours[1] + minor)
    include = tmp_path / "include"
    shutil.copytree(cpp_extension.include_paths()[0], include)
    header = include / "cograd" / "c_api.h"
    text = header.read_text()
    for word, old, new in zip(("MAJOR", "MINOR"), ours, theirs):
        assert text.count(f"COGRAD_ABI_{word} {old}\n") == 1
        text = text.replace(f"COGRAD_ABI_{word} {old}\n", f"COGRAD_ABI_{word} {new}\n")
    header.write_text(text)
    build_module(tmp_path, "t_newer", MODULE.replace("NAME", "t_newer"), include)
    lines = run_python(IMPORT, tmp_path, "t_newer").splitlines()
    assert len(lines) == 2
    for line in lines:
        assert line.startswith("ImportError: ")
        assert f"built for cograd's ABI {theirs[0]}.{theirs[1]}" in line
        assert f"has ABI {ours[0]}.{ours[1]}" in line
        assert "rebuild it" in line


def test_plain_import_reports_refused_ops(tmp_path):
    blocks = """
    #include <cograd/python.h>
    int64_t f(int64_t x) { return x; }
    COGRAD_LIBRARY(t_refused_one, m) {
      m.def("good", &f);
      m.def("bad", &f, "(Nonsense x) -> int");
    }
    COGRAD_LIBRARY(t_refused_two, m) {
      (void)m;
      throw std::runtime_error("no such device");
    }
    """
    build_module(tmp_path, "t_refused", blocks + MODULE.replace("NAME", "t_refused"))
    lines = run_python(IMPORT, tmp_path, "t_refused").splitlines()
    assert len(lines) == 2
    for line in lines:
        assert line.startswith("ImportError: ")
        assert "t_refused_one::bad" in line and "Nonsense" in line
        assert "t_refused_two::COGRAD_LIBRARY" in line and "no such device" in line


def test_plain_import_allows_errors_that_were_handled(tmp_path):
    block = """
    #include <cograd/python.h>
    int64_t f(int64_t x) { return x; }
    COGRAD_LIBRARY(t_probing, m) {
      try {
        cograd::Op("t_nowhere::op").call<cograd::Tensor>(1.0);
      } catch (const std::exception&) {
        m.def("f", &f);
      }
    }
    """
    build_module(tmp_path, "t_probing", block + MODULE.replace("NAME", "t_probing"))
    code = IMPORT + "print(cograd.ops.t_probing.f(7))"
    assert run_python(code, tmp_path, "t_probing").split() == ["3", "3", "7"]


# ---------------------------------------------------------------------------- reloads, forks, times

FILL = """
cograd::Tensor f(const cograd::Tensor& x%s) {
  cograd::Tensor y = cograd::empty_like(x);
  y.fill_(%s);
  return y;
}
"""


def test_reload_after_register_autograd(cache):
    def load(extra, value):
        return cpp_extension.load_inline("t_reload", FILL % (extra, value), functions=["f"])

    load("", "1")
    library.register_autograd("t_reload::f", lambda ctx, g: g * 7)
    op = torch.ops.t_reload.f
    for value in (2, 3):
        load("", value)
        assert torch.ops.t_reload.f(ones(1)).item() == value
        x = leaf([1.0])
        y = torch.ops.t_reload.f(x)
        y.backward()
        assert (y.item(), x.grad.item()) == (value, 7.0)
        assert op(ones(1)).item() == value, "who holds the op gets the new one"
    load(", double by", "by")
    assert torch.ops.t_reload.f(ones(1), by=5.0).item() == 5
    assert list(torch.ops.t_reload.f.__signature__.parameters) == ["x", "by"]
    cpp_extension.load_inline("t_reload", FILL.replace(" f(", " g(") % ("", "4"), functions=["g"])
    with pytest.raises(AttributeError, match="t_reload::f"):
        _ = torch.ops.t_reload.f


def test_reload_with_a_gradient_of_its_own(cache):
    cpp_extension.load_inline("t_regrad", FILL % ("", "1"), functions=["f"])
    library.register_autograd("t_regrad::f", lambda ctx, g: g * 7)
    own = """
    struct F : cograd::autograd::Function<F> {
      static cograd::Tensor forward(cograd::autograd::AutogradContext*, const cograd::Tensor& x) {
        return x * 2;
      }
      static cograd::autograd::variable_list backward(cograd::autograd::AutogradContext*,
                                                      cograd::autograd::variable_list g) {
        return {g[0] * 2};
      }
    };
    COGRAD_LIBRARY(t_regrad, m) { m.def<F>("f"); }
    """
    with pytest.warns(RuntimeWarning, match="t_regrad::f was reloaded.*has its own gradient"):
        cpp_extension.load_inline("t_regrad", own)
    x = leaf([1.0])
    torch.ops.t_regrad.f(x).backward()
    assert x.grad.item() == 2


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_child_forked_while_another_thread_builds(tmp_path):
    code = """
    import os, sys, threading, time, warnings
    warnings.simplefilter("ignore")
    from cograd.utils.cpp_extension._cache import BuildLock
    path = sys.argv[1]
    held, done = threading.Event(), threading.Event()
    def hold():
        with BuildLock(path):
            held.set()
            done.wait()
    thread = threading.Thread(target=hold)
    thread.start()
    held.wait()
    pid = os.fork()
    if pid == 0:
        with BuildLock(path):
            os._exit(7)
    time.sleep(0.2)
    assert os.waitpid(pid, os.WNOHANG) == (0, 0), "the child did not wait for the parent"
    done.set()
    thread.join()
    end = time.monotonic() + 10
    while time.monotonic() < end:
        found, status = os.waitpid(pid, os.WNOHANG)
        if found == pid:
            print(os.waitstatus_to_exitcode(status))
            break
        time.sleep(0.02)
    else:
        os.kill(pid, 9)
        os.waitpid(pid, 0)
        print("blocked")
    """
    assert run_python(code, tmp_path / "lock").strip() == "7"


def test_header_from_the_future_is_cached(cache, tmp_path):
    header = write(tmp_path / "value.h", "#define VALUE 1\n")
    later = time.time() + 86400
    os.utime(header, (later, later))
    text = f'#include "{header}"\nint64_t f() {{ return VALUE; }}'

    def load():
        value = cpp_extension.load_inline("t_future", text, functions=["f"]).f()
        (path,) = glob.glob(str(cache / "t_future" / "*" / "build.json"))
        return value, json.loads(Path(path).read_text())

    value, record = load()
    assert (value, record["volatile"]) == (1, False)
    assert load() == (1, record), "it was built again"
    header.write_text("#define VALUE 2\n")
    os.utime(header, (later, later))
    assert cpp_extension.load_inline("t_future", text, functions=["f"]).f() == 2


def test_file_written_during_the_build_is_noticed_whatever_its_time(tmp_path):
    path = write(tmp_path / "a.h", "")
    for moved in (86400, -86400, 0):
        time.sleep(0.05)  # file systems store coarse times
        start = time.time()
        time.sleep(0.05)
        path.write_text("1")
        if moved:
            os.utime(path, (start + moved, start + moved))
        assert _build._changed_since(start, str(path))
        time.sleep(0.05)
        assert not _build._changed_since(time.time(), str(path))
    path.unlink()
    assert _build._changed_since(0.0, str(path))
