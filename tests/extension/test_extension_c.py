# SPDX-License-Identifier: BSD-3-Clause
"""Ops in plain C (tests/extensions/plain.c), and the C interface from other languages."""

import ctypes
import gc
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import leaf, ones

import cograd as torch
from cograd.autograd import gradcheck, gradgradcheck
from cograd.utils import cpp_extension

pytestmark = pytest.mark.skipif(
    not any(map(shutil.which, ("cc", "gcc", "clang"))), reason="there is no C compiler"
)
HERE = Path(__file__).parents[1]
EXAMPLES = HERE.parent / "examples" / "extensions"


@pytest.fixture(scope="module")
def plain():
    return cpp_extension.load("t_plain", HERE / "extensions" / "plain.c")


def test_gradient_written_in_c(plain):
    x = leaf([1.0, -2.0, 0.5])
    y = plain.cube(x, scale=2.0)
    assert y.tolist() == [2.0, -16.0, 0.25]
    assert y.grad_fn.name() == "CubeBackward"
    assert gradcheck(lambda t: plain.cube(t, 1.5), (x,))
    assert gradgradcheck(lambda t: plain.cube(t, 1.5), (x,))
    assert plain.cube.__doc__.startswith("cube(x: Tensor, scale: float = 1.0) -> Tensor\n")
    assert "third power" in plain.cube.__doc__


def test_state_is_freed_with_the_graph(plain):
    before = plain.live_states()
    y = plain.cube(leaf([1.0]))
    assert plain.live_states() == before + 1
    y.backward()
    del y
    gc.collect()
    assert plain.live_states() == before
    plain.cube(ones(1))
    assert plain.live_states() == before
    with pytest.raises(ValueError):
        plain.cube(leaf([1.0]), -1.0)
    assert plain.live_states() == before


def test_lists_and_several_results(plain):
    x, y = leaf([1.0, 2.0]), leaf([3.0, 5.0])
    total, difference = plain.pair([x, y])
    assert (total.tolist(), difference.tolist()) == ([4.0, 7.0], [-2.0, -3.0])
    assert (total.requires_grad, difference.requires_grad) == (True, False)
    assert gradcheck(lambda x, y: plain.pair([x, y])[0], (x, y))
    total, _ = plain.pair([x.detach(), y])
    total.sum().backward()
    assert x.grad is None
    assert y.grad.tolist() == [1.0, 1.0]


def test_written_argument_with_a_gradient(plain):
    x = leaf([1.0, 2.0])
    h = x * 1
    version = h._version
    assert plain.twice_(h) is h
    assert h._version == version + 1
    h.sum().backward()
    assert x.grad.tolist() == [2.0, 2.0]
    with pytest.raises(RuntimeError, match="leaf Variable that requires grad"):
        plain.twice_(x)
    assert x.tolist() == [1.0, 2.0]


@pytest.mark.parametrize(
    ("how", "expected", "message"),
    [
        (1, RuntimeError, "t_plain::fail.*failed as told with 1"),
        (2, ValueError, "failed as told with 2"),
        (3, TypeError, "failed as told with 3"),
        (4, IndexError, "failed as told with 4"),
        (5, NotImplementedError, "failed as told with 5"),
        (7, RuntimeError, "t_plain::fail.*status 12345.*no error"),
        (8, RuntimeError, "no op 'no_such_op'"),
    ],
)
def test_errors(plain, how, expected, message):
    with pytest.raises(expected, match=message) as info:
        plain.fail(how)
    assert type(info.value) is expected


def test_errors_name_the_op(plain):
    with pytest.raises(TypeError, match=r"cube\(\): expected float64, got dtype 8"):
        plain.cube(torch.ones(2))
    with pytest.raises(ValueError, match=r"t_plain::cube\(\): scale is -1, expected 0 or more"):
        plain.cube(ones(1), -1.0)
    with pytest.raises(TypeError, match="cube"):
        plain.cube("x")


# ---------------------------------------------------------------------------- other languages


def library():
    """Returns libcograd loaded by ctypes."""
    lib = ctypes.CDLL(str(Path(cpp_extension.library_paths()[0]) / "libcograd.so"))
    lib.cograd_last_error.restype = ctypes.c_char_p
    lib.cograd_version.restype = ctypes.c_char_p
    return lib


def test_ctypes_reads_the_version():
    lib = library()
    major, minor = ctypes.c_int32(), ctypes.c_int32()
    lib.cograd_abi_version(ctypes.byref(major), ctypes.byref(minor))
    assert (major.value, minor.value) == torch._C._abi_version()
    assert lib.cograd_version().decode() == torch.__version__.split("+")[0]


def test_errors_do_not_unwind_through_ctypes():
    lib = library()
    out = ctypes.c_void_p()
    sizes = (ctypes.c_int64 * 1)(-1)
    assert lib.cograd_tensor_empty(9, 1, sizes, ctypes.byref(out)) != 0
    assert b"empty" in lib.cograd_last_error()
    assert lib.cograd_tensor_empty(99, 0, None, ctypes.byref(out)) == 3
    assert b"dtype 99" in lib.cograd_last_error()
    op = ctypes.c_void_p()
    assert lib.cograd_op_find(b"nowhere", 7, ctypes.byref(op)) == 1
    assert b"no op 'nowhere'" in lib.cograd_last_error()
    lib.cograd_fail(2, b"%s and %d", b"text", 7)
    assert lib.cograd_last_error() == b"text and 7"


def run(*command, **kwargs):
    result = subprocess.run(command, capture_output=True, text=True, check=False, **kwargs)
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


@pytest.mark.skipif(not EXAMPLES.is_dir(), reason="not in a source tree")
def test_ctypes_example():
    out = run(sys.executable, str(EXAMPLES / "c" / "from_ctypes.py"))
    assert "gradient: [2.0, 4.0, 6.0]" in out


@pytest.mark.skipif(not EXAMPLES.is_dir(), reason="not in a source tree")
def test_op_in_rust(tmp_path):
    if (
        shutil.which("rustc") is None
        or subprocess.run(["rustc", "--version"], capture_output=True, check=False).returncode != 0
    ):
        pytest.skip("rustc does not run")
    made = tmp_path / "t_rustc.so"
    flags = ["--edition=2021", "--crate-type=cdylib", "-O", "-ldylib=cograd"]
    flags += [f"-Lnative={cpp_extension.library_paths()[0]}"]
    flags += ["-Clink-arg=-Wl,--allow-shlib-undefined"]
    run("rustc", *flags, "-o", str(made), str(EXAMPLES / "c" / "scale.rs"))
    torch.ops.load_library(made)
    op = torch.ops.t_rustc.scale
    x = leaf([1.0, 2.0, -3.0])
    assert op(x, 2.5).tolist() == [2.5, 5.0, -7.5]
    assert gradcheck(lambda t: op(t, 2.5), (x,))
    assert "written in Rust" in op.__doc__
