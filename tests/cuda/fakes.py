# SPDX-License-Identifier: BSD-3-Clause
"""Builds the fake CUDA driver and compiler, and runs programs on them."""

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
SOURCES = HERE / "fake"
TEXT = HERE.parents[1] / "csrc" / "cuda" / "text"
CXX = os.environ.get("CXX", "g++")


# True on a machine with a GPU whose own driver and compiler are to be tested.
REAL = os.environ.get("COGRAD_CUDA_TESTS") == "real"


def why_not():
    """Returns why the fakes cannot be built here, or None."""
    if REAL:
        return "the program makes the fake driver fail, or counts what it does"
    if not sys.platform.startswith("linux"):
        return "the fake driver needs Linux"
    return None if shutil.which(CXX) else f"there is no compiler {CXX}"


def folder():
    """Returns the folder of the libraries, which are built again when their sources change.

    It has its own copies of the twin's headers, since the checkout that built it may be gone.
    """
    text = b"".join(p.read_bytes() for p in sorted(SOURCES.iterdir()))
    name = hashlib.sha256(Path(__file__).read_bytes() + text + CXX.encode()).hexdigest()[:16]
    made = Path(tempfile.gettempdir()) / f"cograd-fakes-{os.getuid()}-{name}"
    if not (made / "ready").exists():
        with tempfile.TemporaryDirectory(dir=tempfile.gettempdir()) as new:
            for header in ("host.h", "plain.h", "library.h"):
                shutil.copy(SOURCES / header, new)
            for source in ("driver", "nvrtc", "cufft", "cusolver", "cudnn", "nccl"):
                place = f'-DCOGRAD_TWIN_FOLDER="{made}"'
                subprocess.run(
                    [CXX, "-std=c++20", "-O1", "-shared", "-fPIC", place]
                    + [str(SOURCES / f"{source}.cpp"), "-o", f"{new}/{source}.so", "-ldl"],
                    check=True,
                )
            made.mkdir(exist_ok=True)
            for path in Path(new).iterdir():  # renamed, since another process may do the same
                os.replace(path, made / path.name)
            (made / "ready").touch()
    return made


def environment(**more):
    """Returns the variables by which cograd finds the fakes; those of the GPU if it is REAL."""
    if REAL:
        return {**os.environ, **{name: str(value) for name, value in more.items()}}
    at = folder()
    return {
        **os.environ,
        "COGRAD_CUDA_DRIVER": str(at / "driver.so"),
        "COGRAD_NVRTC": str(at / "nvrtc.so"),
        "COGRAD_CUBLASLT": "none",
        "COGRAD_COMPILE_THREAD": "0",  # tests choose when to compile
        "COGRAD_CUDNN": "none",
        "COGRAD_CUFFT": str(at / "cufft.so"),
        "COGRAD_CUSOLVER": str(at / "cusolver.so"),
        "COGRAD_CUBLAS": str(at / "cusolver.so"),  # which has the functions of both
        "COGRAD_NCCL": str(at / "nccl.so"),
        "COGRAD_KERNEL_CACHE": os.environ.get("COGRAD_KERNEL_CACHE", str(at / "kernels")),
        **{name: str(value) for name, value in more.items()},
    }


def nvrtc_path():
    """Returns the path of NVIDIA's compiler in this environment, or None."""
    own = os.environ.get("COGRAD_NVRTC_FOR_TESTS")
    if own:
        return own
    for folder in sys.path:
        for name in ("cu13", "cuda_nvrtc"):
            found = sorted(Path(folder).glob(f"nvidia/{name}/lib/libnvrtc.so.1?"))
            if found:
                return str(found[-1])
    return None


PREAMBLE = """
import ctypes, os, cograd as torch
from cograd import _C
torch.cuda.set_fallback("silent")
if os.path.exists(os.environ.get("COGRAD_CUDA_DRIVER", "")):  # a GPU's own driver has none of it
    fake = ctypes.CDLL(os.environ["COGRAD_CUDA_DRIVER"])
    fake.fake_cuda_fail.argtypes = [ctypes.c_char_p, ctypes.c_int64, ctypes.c_int]
    fake.fake_cuda_calls.restype = fake.fake_cuda_used.restype = ctypes.c_int64
    fake.fake_cuda_graphs.restype = ctypes.c_int64

def raises(kind, text, f, *args, **kwargs):
    try:
        f(*args, **kwargs)
    except kind as e:
        assert text in str(e), f"{text!r} is not in {e}"
        return e
    raise AssertionError(f"nothing was raised; expected {kind.__name__}: {text}")

def fails(symbol, code, kind, text, f, *args, calls=1):
    # The next `calls` calls of a function return the code. Nothing that f allocates is lost.
    before = torch.cuda.memory_allocated()
    fake.fake_cuda_fail(symbol, 1 if calls == 1 else -calls, code)
    e = raises(kind, text, f, *args)
    e.__traceback__ = None
    assert torch.cuda.memory_allocated() == before, symbol
    return e
"""

# The start of programs that capture graphs.
GRAPHS = """
torch.cuda.set_fallback("error")
cuda = torch.cuda
def captured(f, **options):
    g = cuda.CUDAGraph()
    with cuda.graph(g, **options):
        out = f()
    return g, out

"""


def run(program, timeout=120, **variables):
    """Runs a program on the fake driver in a process of its own; returns what it prints."""
    done = subprocess.run(
        [sys.executable, "-c", PREAMBLE + program],
        env=environment(**variables),
        capture_output=True,
        text=True,
        timeout=timeout,
        cwd=HERE,
    )
    assert done.returncode == 0, f"exit {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout
