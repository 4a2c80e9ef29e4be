# SPDX-License-Identifier: BSD-3-Clause
"""Tensors and the sources of load_inline in gdb and lldb."""

import ctypes
import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import cograd as torch
from cograd.commands import main
from cograd.utils import cpp_extension

SCRIPT = Path(torch.__file__).parent / "commands" / "_debugger.py"
PROGRAM = '''
import cograd
from cograd.utils.cpp_extension import load_inline

SOURCE = """
cograd::Tensor inspect(const cograd::Tensor& x) {
  cograd::Tensor none, half = x.to(cograd::kBFloat16), turned = x.t();
  cograd::IntArrayRef sizes = x.sizes();
  return x * 2;
}
"""
ops = load_inline("t_debugged", SOURCE, functions="inspect", extra_cflags=["-g", "-O0"])
if __name__ == "__main__":
    ops.inspect(cograd.arange(6, dtype=cograd.float64).reshape(2, 3).requires_grad_())
'''


@pytest.fixture(scope="module", autouse=True)
def own_objects():
    """Makes the compiler write each object: ccache's may name the folder of another run."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CCACHE_DISABLE", "1")
        yield


def own_describe(x):
    """Returns the debuggers' text about a tensor of this process."""
    spec = importlib.util.spec_from_file_location("t_debugger", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    library = ctypes.CDLL(os.path.join(os.path.dirname(torch._C.__file__), "lib", "libcograd.so"))
    kinds = {"int": ctypes.c_int, "unsigned": ctypes.c_uint, "void*": ctypes.c_void_p}

    def call(name, kind, tensor):
        function = getattr(library, f"cograd_tensor_{name}")
        function.restype, function.argtypes = kinds[kind], [ctypes.c_void_p]
        return function(tensor) or 0

    return module.describe(x, call, ctypes.string_at)


@pytest.fixture(scope="module")
def address():
    if not any(map(shutil.which, ("c++", "g++", "clang++"))):
        pytest.skip("there is no C++ compiler")
    source = "int64_t address(const cograd::Tensor& x) { return (int64_t)x.handle(); }"
    return cpp_extension.load_inline("t_address", source, functions="address").address


def test_all_dtypes_are_described(address):
    for name in "bool uint8 int8 int16 int32 int64 uint16 uint32 uint64".split():
        x = torch.tensor([[1, 0]], dtype=getattr(torch, name))
        shown = "[[True, False]]" if name == "bool" else "[[1, 0]]"
        assert own_describe(address(x)) == f"{name}[1, 2] {shown}"
    for name in "float16 bfloat16 float32 float64".split():
        x = torch.tensor([1.5, float("-inf")], dtype=getattr(torch, name))
        assert own_describe(address(x)) == f"{name}[2] [1.5, -inf]"
    for name in ("complex64", "complex128"):
        x = torch.tensor([1 - 2j], dtype=getattr(torch, name))
        assert own_describe(address(x)) == f"{name}[1] [1-2j]"


def test_strides_sizes_and_flags_are_described(address):
    x = torch.arange(6.0, dtype=torch.float64).reshape(2, 3)
    assert own_describe(address(x.t())) == "float64[3, 2] [[0, 3], [1, 4], [2, 5]]"
    assert own_describe(address(x[1, ::2])) == "float64[2] [3, 5]"
    assert own_describe(address(torch.tensor(2).expand(2))) == "int64[2] [2, 2]"
    assert own_describe(address(x.requires_grad_().sum())) == "float64[] requires_grad 15"
    assert own_describe(address(torch.zeros(0, 3))) == "float32[0, 3] []"
    assert own_describe(address(torch.arange(100))) == "int64[100] [0, 1, 2, ..., 97, 98, 99]"
    assert own_describe(0) == "undefined"


def test_sources_are_kept_where_the_debug_information_says(tmp_path):
    """The directory of compilation in the object is the published one, in all forms of -g."""
    if shutil.which("readelf") is None or not any(map(shutil.which, ("c++", "g++"))):
        pytest.skip("there is no compiler, or binutils are not installed")
    source = "cograd::Tensor f(const cograd::Tensor& x) { return x; }"
    for i, options in enumerate([{"extra_cflags": ["-ggdb3"]}, {"debug": True}, {}]):
        cpp_extension.load_inline(
            f"t_kept{i}", source, functions="f", build_directory=tmp_path / str(i), **options
        )
        built = (tmp_path / str(i) / f"t_kept{i}.so").resolve()
        command = ["readelf", "--debug-dump=info,line,str,line-str", "-W", str(built)]
        dump = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        assert (built.parent / "cpp_sources").read_text().strip() == source
        assert (str(built.parent) in dump) == bool(options)
        assert ".tmp-" not in dump


def test_config_names_the_script(capsys):
    assert main(["config", "--debugger"]) == 0
    assert Path(capsys.readouterr().out.strip()) == SCRIPT


def debugged(tmp_path, command, **env):
    """Runs a debugger on PROGRAM, which was built before; returns what it prints."""
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    everything = {**os.environ, "COGRAD_EXTENSIONS_DIR": str(tmp_path / "cache"), **env}
    build = [sys.executable, "-c", "import program"]
    subprocess.run(build, cwd=tmp_path, env=everything, check=True, capture_output=True)
    done = subprocess.run(
        [*command, sys.executable, str(program)],
        env=everything,
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
        stdin=subprocess.DEVNULL,
    )
    return done.stdout + done.stderr


LOCALS = [
    "none = undefined",
    "half = bfloat16[2, 3] requires_grad [[0, 1, 2], [3, 4, 5]]",
    "turned = float64[3, 2] requires_grad [[0, 3], [1, 4], [2, 5]]",
]


def skip_without(debugger):
    if shutil.which(debugger) is None:
        pytest.skip(f"{debugger} is not installed")
    if not any(map(shutil.which, ("c++", "g++", "clang++"))):
        pytest.skip("there is no C++ compiler")


@pytest.mark.slow
def test_gdb(tmp_path):
    skip_without("gdb")
    commands = [
        "set debuginfod enabled off",
        "set breakpoint pending on",
        f"source {SCRIPT}",
        "break cpp_sources:5",
        "run",
        "info locals",
        "info source",
    ]
    options = [word for c in commands for word in ("-ex", c)]
    out = debugged(tmp_path, ["gdb", "-q", "-nx", "-batch", *options, "--args"])
    if "ptrace" in out.lower() or "Python scripting is not supported" in out:
        pytest.skip("gdb may not trace processes here, or has no Python")
    for line in [*LOCALS, "sizes = [2, 3]", "5\t  return x * 2;"]:
        assert line in out, out


@pytest.mark.slow
def test_lldb(tmp_path):
    skip_without("lldb")
    found = Path("/usr/lib").glob("llvm-*/lib/python3*/dist-packages/lldb/__init__.py")
    folders = [str(p.parents[1]) for p in found]  # where Debian puts lldb's module
    env = {
        "PYTHONPATH": os.pathsep.join([*folders, os.environ.get("PYTHONPATH", "")]),
        # lldb's own Python takes the prefix of the first python3 on the path.
        "PATH": os.pathsep.join(["/usr/bin", os.environ["PATH"]]),
    }
    probe = ["lldb", "--batch", "-o", "script print('python', 'works')"]
    found = subprocess.run(
        probe, capture_output=True, text=True, check=False, env={**os.environ, **env}
    )
    if "python works" not in found.stdout:
        pytest.skip("lldb cannot run Python")
    commands = [
        f"command script import {SCRIPT}",
        "breakpoint set -f cpp_sources -l 5",
        "run",
        "frame variable",
    ]
    options = [word for c in commands for word in ("-o", c)]
    out = debugged(tmp_path, ["lldb", "--batch", "--no-lldbinit", *options, "--"], **env)
    if "personality" in out or "ptrace" in out.lower():
        pytest.skip("lldb may not trace processes here")
    for line in [*LOCALS, "-> 5   \t  return x * 2;"]:
        assert line in out, out
