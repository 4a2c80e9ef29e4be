# SPDX-License-Identifier: BSD-3-Clause
"""cograd.backends: choice of libraries, their results, threads and forks; torch's switches."""

import importlib
import os
import subprocess
import sys

import numpy as np
import pytest

import cograd
from cograd import _C, backends

needs_onednn = pytest.mark.skipif(
    not backends.onednn.is_available(), reason="onednn-cpu-gomp is not installed"
)
needs_mkl = pytest.mark.skipif(not backends.mkl.is_available(), reason="mkl is not installed")

# input, weight, stride, padding, dilation, groups
CONVOLUTIONS = [
    ((2, 3, 17, 15), (8, 3, 7, 7), 2, 3, 1, 1),
    ((5, 32, 9, 9), (48, 32, 3, 3), 1, 1, 1, 1),
    ((3, 40, 4, 4), (40, 1, 3, 3), 1, 1, 1, 40),
    ((2, 12, 11), (18, 4, 3), 2, 1, 2, 3),
    ((1, 64, 20, 20), (64, 64, 3, 3), 1, 1, 1, 1),
    ((2, 5, 6, 7, 5), (6, 5, 3, 2, 3), 1, 1, 1, 1),
    ((9, 33, 5, 5), (70, 33, 1, 1), 1, 0, 1, 1),
]


def convolve(size, kernel, stride, padding, dilation, groups, bias):
    """Returns values and gradients of one convolution."""
    cograd.manual_seed(0)
    x = cograd.randn(size, requires_grad=True)
    w = cograd.randn(kernel, requires_grad=True)
    b = cograd.randn(kernel[0]) if bias else None
    f = {3: cograd.conv1d, 4: cograd.conv2d, 5: cograd.conv3d}[len(size)]
    y = f(x, w, b, stride, padding, dilation, groups)
    return [y, *cograd.autograd.grad(y, (x, w), cograd.randn(y.shape))]


@needs_onednn
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("case", CONVOLUTIONS, ids=str)
def test_onednn_convolves(case, bias):
    expected = convolve(*case, bias)
    with backends.use(convolution="onednn"):
        found = convolve(*case, bias)
        again = convolve(*case, bias)
    for a, b, c in zip(found, expected, again, strict=True):
        scale = float(b.detach().abs().max())
        np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), atol=3e-6 * scale)
        assert cograd.equal(a, c)


@needs_onednn
def test_onednn_gives_the_same_bits_on_any_number_of_threads():
    before = cograd.get_num_threads()
    results = []
    try:
        with backends.use(convolution="onednn", matmul="onednn"):
            for threads in (1, 3):
                cograd.set_num_threads(threads)
                results.append([*convolve(*CONVOLUTIONS[1], True), *products(cograd.float32)])
    finally:
        cograd.set_num_threads(before)
    for a, b in zip(*results, strict=True):
        assert cograd.equal(a, b)


@needs_onednn
def test_onednn_leaves_other_dtypes_and_empty_batches_to_cograd():
    with backends.use(convolution="onednn"):
        x = cograd.randn(2, 3, 8, 8, dtype=cograd.float64)
        w = cograd.randn(4, 3, 3, 3, dtype=cograd.float64)
        y = cograd.conv2d(x, w)
        assert cograd.conv2d(cograd.zeros(0, 3, 8, 8), w.float()).shape == (0, 4, 6, 6)
        # oneDNN has no padding that gives this output.
        z = cograd.conv_transpose2d(
            x.float(), w.float().mT.reshape(3, 4, 3, 3), dilation=3, stride=2, output_padding=2
        )
    assert cograd.equal(y, cograd.conv2d(x, w))
    expected = cograd.conv_transpose2d(
        x.float(), w.float().mT.reshape(3, 4, 3, 3), dilation=3, stride=2, output_padding=2
    )
    np.testing.assert_allclose(z.numpy(), expected.numpy(), atol=1e-4)


def products(dtype):
    cograd.manual_seed(1)
    a, b = cograd.randn(150, 260, dtype=dtype), cograd.randn(260, 170, dtype=dtype)
    v = cograd.randn(260, dtype=dtype)
    batch = cograd.randn(9, 40, 30, dtype=dtype)
    return [a @ b, b.mT @ a.mT, a @ v, batch @ batch.mT, cograd.addmm(a @ b, a, b, alpha=2)]


@pytest.mark.parametrize(
    "library",
    [
        "openblas",
        pytest.param("mkl", marks=needs_mkl),
        pytest.param("onednn", marks=needs_onednn),
    ],
)
@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "complex128", "bfloat16"])
def test_products(library, dtype):
    expected = products(getattr(cograd, dtype))
    with backends.use(matmul=library):
        found = products(getattr(cograd, dtype))
    wide = cograd.complex128 if dtype.startswith("complex") else cograd.float64
    eps = {"float64": 1e-15, "complex128": 1e-15, "bfloat16": 8e-3}.get(dtype, 4e-7)
    for a, b in zip(found, expected, strict=True):
        a, b = a.to(wide).numpy(), b.to(wide).numpy()
        np.testing.assert_allclose(a, b, atol=20 * eps * abs(b).max())


def test_openblas_computes_real_products_on_request():
    cograd.manual_seed(1)
    a, b = cograd.randn(200, 300), cograd.randn(300, 100)
    own = a @ b
    with backends.use(matmul="openblas"):
        assert backends.get_library("matmul") == "openblas"
        found = [a @ b for _ in range(2)]
    assert cograd.equal(*found) and not cograd.equal(found[0], own)
    assert cograd.equal(a @ b, own)


CHILD = """
import os, sys
import cograd
for name in ("matmul", "convolution"):
    try:
        cograd.backends.set_library(name, sys.argv[1])
    except ValueError:
        assert sys.argv[1] == "mkl"
cograd.set_num_threads(2)
x, w = cograd.randn(8, 32, 28, 28), cograd.randn(32, 32, 3, 3)
a = cograd.randn(500, 500)
first = cograd.conv2d(x, w), a @ a
child = os.fork()
again = cograd.conv2d(x, w), a @ a
assert all(map(cograd.equal, first, again))
if child == 0:
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
print(len(os.listdir("/proc/self/task")))
"""


@pytest.mark.parametrize(
    "library", [pytest.param("mkl", marks=needs_mkl), pytest.param("onednn", marks=needs_onednn)]
)
def test_a_forked_child_computes_and_no_other_threads_exist(library):
    run = [sys.executable, "-c", CHILD, library]
    done = subprocess.run(run, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) <= 2


def test_the_default_is_what_is_always_there():
    assert (backends.get_library("matmul"), backends.get_library("convolution")) == ("own", "own")
    assert not backends.mkl.enabled
    assert not backends.mkldnn.enabled
    assert "OpenBLAS" in backends.openblas.version()
    assert backends.show().startswith("matmul: own (available: openblas")


@pytest.mark.parametrize(
    ("operation", "library", "message"),
    [
        ("sort", "own", "operation is 'sort', expected 'matmul' or 'convolution'"),
        ("convolution", "mkl", "library of 'convolution' is 'mkl', expected 'own' or 'onednn'"),
    ],
)
def test_wrong_choices(operation, library, message):
    with pytest.raises(ValueError, match=message):
        backends.set_library(operation, library)


MISSING = """
import sys
from cograd import backends
from cograd.backends import _library
name, operation = sys.argv[1:]
_library._candidates = lambda name: iter(["libnothing-of-this-name.so"])
module = getattr(backends, name)
assert not module.is_available()
try:
    module.version()
except RuntimeError as error:
    print(error)
before = backends.get_library(operation)
try:
    module.enabled = True
except RuntimeError as error:
    print(error)
assert backends.get_library(operation) == before
"""


@pytest.mark.parametrize(("name", "operation"), [("mkl", "matmul"), ("onednn", "convolution")])
def test_a_missing_library_says_how_to_install_it(name, operation):
    run = [sys.executable, "-c", MISSING, name, operation]
    done = subprocess.run(run, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    for line in done.stdout.splitlines():
        assert line.endswith(f"is not installed; install it with: pip install cograd[{name}]")
    assert len(done.stdout.splitlines()) == 2


BROKEN = """
import sys
from cograd import _C
try:
    _C._load_backend(sys.argv[1], sys.argv[2])
except RuntimeError as error:
    print(error)
assert not _C._is_backend_loaded(sys.argv[1])
try:
    _C._choose_backend("matmul", sys.argv[1])
except RuntimeError as error:
    print(error)
"""


@pytest.mark.parametrize("name", ["mkl", "onednn"])
@pytest.mark.parametrize("broken", ["text", "another library"])
def test_a_broken_library_is_an_error(name, broken, tmp_path):
    path = tmp_path / "libbroken.so"
    path.write_text("not a library")
    file = str(path) if broken == "text" else _C.__file__
    run = [sys.executable, "-c", BROKEN, name, file]
    done = subprocess.run(run, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    first, second = done.stdout.splitlines()
    title = "MKL" if name == "mkl" else "oneDNN"
    expected = (
        f"cannot load {title} from"
        if broken == "text"
        else f"is not a version of {title} that cograd supports"
    )
    assert expected in first
    assert second == f"backends: {name} is not loaded"


def test_what_is_built_in_is_not_loaded():
    with pytest.raises(ValueError, match="openblas is part of cograd"):
        _C._load_backend("openblas", os.devnull)


def test_switches_without_effect_are_kept():
    cudnn = importlib.import_module("cograd.backends.cudnn")
    assert cudnn is backends.cudnn
    cudnn.benchmark = True
    with cudnn.flags(enabled=False, deterministic=True):
        assert (cudnn.enabled, cudnn.benchmark, cudnn.benchmark_limit) == (False, False, 10)
    assert (cudnn.enabled, cudnn.benchmark, cudnn.benchmark_limit) == (True, True, 10)
    cudnn.benchmark = False
    backends.cuda.matmul.allow_tf32 = True
    with backends.cuda.sdp_kernel(enable_flash=False):
        assert not backends.cuda.flash_sdp_enabled()
    assert backends.cuda.flash_sdp_enabled()
    with backends.mkldnn.flags(enabled=False, deterministic=True):
        assert backends.mkldnn.deterministic
    assert not backends.mkldnn.deterministic
    with (
        backends.opt_einsum.flags(strategy="greedy"),
        backends.mkl.verbose(backends.mkl.VERBOSE_ON),
    ):
        assert backends.opt_einsum.strategy == "greedy"
    with backends.nnpack.flags(enabled=True):
        assert backends.nnpack.enabled
    assert not any(
        module.is_available()
        for module in (cudnn, backends.mps, backends.nnpack, backends.openmp, backends.opt_einsum)
    )
    assert not backends.mps.is_built()
    assert backends.cpu.get_cpu_capability() in ("DEFAULT", "AVX2", "AVX512")


@needs_onednn
def test_onednn_is_switched_like_torchs():
    with backends.mkldnn.flags(enabled=True):
        assert backends.get_library("convolution") == "onednn"
    assert backends.get_library("convolution") == "own"
    backends.onednn.enabled = True
    backends.set_library("matmul", "onednn")
    backends.onednn.enabled = False
    assert (backends.get_library("matmul"), backends.get_library("convolution")) == ("own", "own")
