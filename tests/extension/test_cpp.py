# SPDX-License-Identifier: BSD-3-Clause
"""The C++ tests of kernels and threads (tests/cpp), linked with the objects of the install."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parents[1]
ROOT = HERE.parent
PROGRAMS = sorted(p.stem for p in (HERE / "cpp").glob("*_test.cpp"))


def installed_build():
    """Returns the build folder of this environment's install; COGRAD_TEST_BUILD overrides it."""
    if named := os.environ.get("COGRAD_TEST_BUILD"):
        return ROOT / named
    sys.path.append(str(ROOT / "tools"))
    try:
        from own_build import own_builds
    finally:
        sys.path.pop()
    return next(iter(own_builds(ROOT, "CMakeFiles/cograd_core.dir")), None)


def cached(build, name):
    """Returns a value of CMake's cache, or ""."""
    for line in (build / "CMakeCache.txt").read_text(encoding="utf-8").splitlines():
        if line.startswith(name + ":"):
            return line.partition("=")[2]
    return ""


@pytest.fixture(scope="module")
def command():
    """Returns the compiler with flags, and what to link; skips if something is missing."""
    if not (ROOT / "csrc").is_dir():
        pytest.skip("csrc/ is not here: not a source checkout")
    build = installed_build()
    if build is None:
        pytest.skip("build/ has no object files of libcograd for this Python: `make install` first")
    compiler = os.environ.get("CXX") or cached(build, "CMAKE_CXX_COMPILER") or "c++"
    if shutil.which(compiler) is None:
        pytest.skip(f"there is no C++ compiler {compiler}")
    # Not what an earlier state of the sources or of their targets has left in the folder.
    commands = json.loads((build / "compile_commands.json").read_text(encoding="utf-8"))
    outputs = [c["output"] for c in commands if c["output"].endswith(".o")]
    objects = [
        str(build / o) for o in outputs if "CMakeFiles/cograd_" in o and (build / o).exists()
    ]
    blas = cached(build, "OpenBLAS32_LIBRARY")
    if not Path(blas).exists():
        pytest.skip(f"the OpenBLAS of the build is gone: {blas}")
    sanitize = cached(build, "COGRAD_SANITIZE")
    flags = [
        "-std=c++20",
        "-O1",
        "-pthread",
        f"-I{ROOT / 'csrc'}",
        f"-I{ROOT / 'csrc' / 'include'}",
    ]
    flags += [f"-fsanitize={sanitize}"] if sanitize else []
    return [compiler, *flags], [*objects, blas, f"-Wl,-rpath,{Path(blas).parent}", "-ldl"]


@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", PROGRAMS)
def test_kernels(command, name, tmp_path):
    compile_, link = command
    program = Path(os.environ.get("COGRAD_TEST_PROGRAMS", tmp_path)) / name  # see levels.py
    source = HERE / "cpp" / f"{name}.cpp"
    if not program.exists():
        # Two steps, as ccache keeps objects but no programs.
        object_file = tmp_path / f"{name}.o"
        for command in (
            [*compile_, "-c", str(source), "-o", str(object_file)],
            [*compile_, str(object_file), *link, "-o", str(program)],
        ):
            built = subprocess.run(command, capture_output=True, text=True, check=False)
            assert built.returncode == 0, built.stderr[-4000:]
    ran = subprocess.run([str(program)], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout[-4000:] + ran.stderr[-2000:]
