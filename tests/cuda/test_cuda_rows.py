# SPDX-License-Identifier: BSD-3-Clause
"""The kernels' text of elementwise rows: compiled by g++, it computes what the CPU's loops do.

rows/check.cpp makes the text and the arguments as libcograd_cuda.so does, and needs no GPU. The
nightly part compiles every row by NVRTC.
"""

import ctypes
import hashlib
import os
import re
import subprocess
import sysconfig
from pathlib import Path

import fakes
import pytest

import cograd

ROOT = Path(__file__).resolve().parents[2]
CSRC = ROOT / "csrc"
KERNELS = CSRC / "kernels"
LIBRARY = Path(cograd.__file__).parent / "lib" / "libcograd.so"
PARTS = 8

why = fakes.why_not()
if not (CSRC / "cuda").is_dir() or not LIBRARY.exists():
    why = "not run from a source checkout"
pytestmark = pytest.mark.skipif(why is not None, reason=str(why))

ENVIRONMENT = {
    **os.environ,
    "COGRAD_ISA": "base",  # the same bits on every CPU
    "COGRAD_CUDA_TEXT": ":".join(
        str(p)
        for p in (
            CSRC / "cuda/text",
            CSRC / "cuda/args",
            KERNELS / "elementwise",
            KERNELS / "optim",
        )
    ),
    "LD_LIBRARY_PATH": str(Path(sysconfig.get_path("platlib")) / "scipy_openblas32/lib"),
}


def run(command, **options):
    """Runs a command and returns what it prints; fails with its output."""
    done = subprocess.run(
        [str(c) for c in command], env=ENVIRONMENT, capture_output=True, text=True, **options
    )
    assert done.returncode == 0, f"{command[0]}: {done.stdout[-4000:]}\n{done.stderr[-4000:]}"
    return done.stdout


def compiled(command, output, *inputs):
    """Runs a compiler if the output is not there; its name depends on the inputs."""
    digest = hashlib.sha256(repr(command).encode())
    for path in inputs:
        digest.update(path.read_bytes())
    target = fakes.folder() / f"{digest.hexdigest()[:16]}-{output}"
    if not target.exists():
        draft = target.with_suffix(f".{os.getpid()}")
        run([*command, "-o", draft])
        os.replace(draft, target)
    return target


@pytest.fixture(scope="module")
def check():
    """Returns the program that makes and runs rows."""
    names = ["jit/rows", "jit/row_text", "jit/text", "jit/folders", "slots/nest", "slots/loop_args"]
    sources = [Path(__file__).parent / "rows/check.cpp"]
    sources += [CSRC / "cuda" / f"{name}.cpp" for name in names]
    inputs = [*sources, *sorted((Path(__file__).parent / "rows").glob("*.h")), LIBRARY]
    inputs += [*sorted((CSRC / "cuda").rglob("*.h")), KERNELS / "elementwise/elementwise.def"]
    command = [fakes.CXX, "-std=c++20", "-O0", "-DCOGRAD_BUILDING"]
    command += [f"-I{CSRC}", f"-I{CSRC / 'include'}", *sources, LIBRARY, "-ldl"]
    command += ["-Wl,--allow-shlib-undefined", f"-Wl,-rpath,{LIBRARY.parent}"]
    return compiled(command, "check", *inputs)


def rows(check):
    """Returns (index, name, dtype, kernel or not) of every row."""
    lines = [line.split() for line in run([check, "list"]).splitlines()]
    return [(int(i), name, dtype, has == "yes") for i, name, dtype, _, has, _ in lines]


def compare(check, chosen, tmp_path):
    """Compiles rows in one translation unit and compares them with the CPU's loops."""
    ids = [str(i) for i in chosen]
    source = tmp_path / "rows.cpp"
    source.write_text(run([check, "emit", *ids]))
    library = tmp_path / "rows.so"
    header = fakes.SOURCES / "host.h"
    command = [fakes.CXX, "-std=c++20", "-O0", "-shared", "-fPIC", "-fvisibility=hidden"]
    run([*command, "-include", header, source, "-o", library])
    ran = run([check, "run", library, *ids]).split()
    assert int(ran[0]) > 0
    return int(ran[0])


def test_rows_of_float32(check, tmp_path):
    chosen = [i for i, _, dtype, has in rows(check) if has and dtype == "float32"]
    assert compare(check, chosen, tmp_path) > 300


def test_a_part_of_the_rows_of_other_dtypes(check, tmp_path):
    others = [i for i, _, dtype, has in rows(check) if has and dtype != "float32"]
    assert compare(check, others[::6], tmp_path) > 200


@pytest.mark.nightly
@pytest.mark.parametrize("part", range(PARTS))
def test_all_rows(check, tmp_path, part):
    chosen = [i for i, _, dtype, has in rows(check) if has and dtype != "float32"]
    compare(check, chosen[part::PARTS], tmp_path)


def test_every_row_has_a_kernel(check):
    assert not [name for _, name, _, has in rows(check) if not has]


class Nvrtc:
    """NVRTC by ctypes; a test of its own text needs no GPU."""

    def __init__(self, path):
        self.library = ctypes.CDLL(path)

    def compile(self, text, arch):
        """Returns the log, and whether there is a cubin."""
        program, size = ctypes.c_void_p(), ctypes.c_size_t()
        call = self.library
        call.nvrtcCreateProgram(ctypes.byref(program), text.encode(), b"row", 0, None, None)
        options = [b"-std=c++20", b"-default-device", f"-arch={arch}".encode(), b"-Xptxas=-v"]
        options.append(b"-diag-suppress=186")
        array = (ctypes.c_char_p * len(options))(*options)
        result = call.nvrtcCompileProgram(program, len(options), array)
        call.nvrtcGetProgramLogSize(program, ctypes.byref(size))
        log = ctypes.create_string_buffer(size.value)
        call.nvrtcGetProgramLog(program, log)
        call.nvrtcDestroyProgram(ctypes.byref(program))
        return log.value.decode(), result == 0


# Local memory that these need: arrays of the C library's own functions, and stacks of calls.
STACKS = re.compile(
    "gamma|zeta|bessel|airy|erf|ndtr|i0|i1|chebyshev|hermite|laguerre|legendre|sin|cos|tan|sinc"
    "|pow|exp|log|sigmoid|silu|optim"
)


@pytest.mark.nightly
@pytest.mark.parametrize("arch", ["sm_75", "sm_80", "sm_90", "sm_100", "sm_120"])
def test_nvrtc_compiles_rows(check, arch):
    path = fakes.nvrtc_path()
    if path is None:
        pytest.skip("the wheel nvidia-cuda-nvrtc is not installed")
    nvrtc = Nvrtc(path)
    faults = []
    every = int(os.environ.get("COGRAD_EVERY_ROW", 6 if arch == "sm_90" else 24))
    for i, name, dtype, has in rows(check)[::every]:
        for driver in "01" if has else "":
            log, good = nvrtc.compile(run([check, "program", i, driver]), arch)
            stack = re.search(r"([1-9]\d*) bytes stack frame", log)
            if not good or "warning" in log:
                faults.append(f"{name} {dtype} {driver}: {log[:600]}")
            elif stack and not STACKS.search(name):
                faults.append(f"{name} {dtype} {driver}: {stack[0]}")
    assert not faults, "\n".join(faults)
