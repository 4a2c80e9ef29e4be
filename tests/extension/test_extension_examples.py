# SPDX-License-Identifier: BSD-3-Clause
"""examples/extensions, each built and run; with COGRAD_WHEEL, from that wheel in a clean venv."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import cograd

EXAMPLES = Path(__file__).parents[2] / "examples" / "extensions"
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not EXAMPLES.is_dir(), reason="not in a source tree"),
    pytest.mark.skipif(
        not any(map(shutil.which, ("c++", "g++", "clang++"))), reason="there is no C++ compiler"
    ),
]
BUILD_TOOLS = ["setuptools>=64", "wheel", "scikit-build-core>=0.10", "cmake>=3.26", "ninja"]


def run(*command, **kwargs):
    result = subprocess.run(
        [str(c) for c in command], capture_output=True, text=True, check=False, **kwargs
    )
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


class Environment:
    """A Python that has cograd, and the ways to run programs in it."""

    def __init__(self, python, folder, clean):
        self.python = python
        self.clean = clean
        self.folder = folder
        self.env = dict(os.environ)
        self.env["COGRAD_EXTENSIONS_DIR"] = str(folder / "cache")
        self.env["PATH"] = f"{Path(python).parent}{os.pathsep}{self.env['PATH']}"
        if clean:
            self.env.pop("PYTHONPATH", None)
            self.env.pop("LD_LIBRARY_PATH", None)

    def __call__(self, *args, **kwargs):
        return run(self.python, *args, env=self.env, **kwargs)

    def has(self, *modules):
        code = "; ".join(f"import {m}" for m in modules)
        command = [str(self.python), "-c", code]
        return (
            subprocess.run(command, capture_output=True, check=False, env=self.env).returncode == 0
        )

    def prefix(self):
        """Returns what an installed cograd adds to CMAKE_PREFIX_PATH; skips if it is only built."""
        path = Path(self("-c", "import cograd; print(cograd.utils.cmake_prefix_path)").strip())
        if not (path / "cograd" / "cogradConfig.cmake").exists():
            pytest.skip("cograd is not installed, only built")
        return path


@pytest.fixture(scope="module")
def environment(tmp_path_factory):
    folder = tmp_path_factory.mktemp("examples")
    wheels = os.environ.get("COGRAD_WHEEL")
    if not wheels:
        return Environment(sys.executable, folder, clean=False)
    tag = f"cp{sys.version_info[0]}{sys.version_info[1]}-"
    (wheel,) = [w for w in Path(wheels).resolve().glob("cograd-*.whl") if tag in w.name]
    run(sys.executable, "-m", "venv", folder / "venv")
    made = Environment(folder / "venv" / "bin" / "python", folder, clean=True)
    made("-m", "pip", "install", "-q", wheel, "numpy", *BUILD_TOOLS)
    return made


def copied(environment, name):
    """Returns a copy of the example, so that building leaves nothing in the source tree."""
    path = environment.folder / "copies" / name
    if not path.exists():
        shutil.copytree(EXAMPLES / name, path)
    return path


@pytest.mark.parametrize("name", ["inline", "setuptools", "cmake", "c", "standalone", "trained"])
def test_readme_is_short(name):
    lines = (EXAMPLES / name / "README.md").read_text().splitlines()
    assert 5 <= len(lines) <= 14


def test_inline(environment):
    out = environment("resample.py", cwd=copied(environment, "inline"))
    assert "gradients: ok" in out


def test_c(environment):
    folder = copied(environment, "c")
    assert "soft_dtw: ok" in environment("check.py", cwd=folder)
    assert "gradient: [2.0, 4.0, 6.0]" in environment("from_ctypes.py", cwd=folder)


def test_c_program(environment):
    """The program uses the interface in strict C11, in a process without Python."""
    compiler = shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        pytest.skip("there is no C compiler gcc or clang")
    folder = copied(environment, "c")
    code = "import cograd, scipy_openblas32 as b; print(cograd._C.__file__, b.get_lib_dir())"
    module, blas = environment("-c", code).split()
    package = Path(environment("-c", "import cograd; print(cograd.__file__)").strip()).parent
    lib = Path(module).parent / "lib"
    flags = ["-std=c11", "-Wall", "-Wextra", "-Wpedantic", "-Werror", f"-I{package / 'include'}"]
    link = [f"-L{lib}", "-lcograd", "-lm", f"-Wl,-rpath,{lib}", f"-Wl,-rpath-link,{blas}"]
    sources = ["program.c", "soft_dtw.c"]
    run(compiler, *flags, *sources, *link, "-o", "program", cwd=folder)
    assert "gradient: error" in run(folder / "program")


def installed_package(environment, name):
    """Builds and installs an example's package; returns the environment to import it with."""
    folder = copied(environment, name)
    target = environment.folder / "site" / name
    flags = ["--no-build-isolation", "--no-deps", "--no-index", "--target", target]
    environment("-m", "pip", "install", "-q", *flags, folder)
    env = dict(environment.env)
    env["PYTHONPATH"] = os.pathsep.join([str(target), env.get("PYTHONPATH", "")])
    check = environment.folder / f"check_{name}.py"
    shutil.copy(folder / "check.py", check)
    return run(environment.python, check, env=env)


def test_setuptools(environment):
    command = "setuptools.command.bdist_wheel"  # part of setuptools since 70.1
    if not environment.has("setuptools", "pip") or not (
        environment.has("wheel") or environment.has(command)
    ):
        pytest.skip("setuptools, wheel or pip is not installed")
    assert "rms_norm: ok" in installed_package(environment, "setuptools")


def test_cmake(environment):
    if not environment.has("scikit_build_core", "pip"):
        pytest.skip("scikit-build-core or pip is not installed")
    environment.prefix()
    assert "rk4: ok" in installed_package(environment, "cmake")


def test_standalone(environment):
    if shutil.which("cmake", path=environment.env["PATH"]) is None:
        pytest.skip("cmake is not installed")
    folder, prefix = copied(environment, "standalone"), environment.prefix()
    env = environment.env
    run("cmake", "-S", ".", "-B", "build", f"-DCMAKE_PREFIX_PATH={prefix}", cwd=folder, env=env)
    run("cmake", "--build", "build", cwd=folder, env=env)
    assert "standalone: ok" in run("build/train", cwd=folder, env=env)


def test_trained(environment):
    if shutil.which("cmake", path=environment.env["PATH"]) is None:
        pytest.skip("cmake is not installed")
    folder, prefix = copied(environment, "trained"), environment.prefix()
    env = environment.env
    environment("train.py", cwd=folder)
    run("cmake", "-S", ".", "-B", "build", f"-Dcograd_DIR={prefix / 'cograd'}", cwd=folder, env=env)
    run("cmake", "--build", "build", cwd=folder, env=env)
    assert "trained: ok" in run("build/predict", "spirals.safetensors", cwd=folder, env=env)


def test_no_file_of_the_examples_is_unlisted():
    """The examples import only cograd and nothing that a clean environment lacks."""
    for path in EXAMPLES.rglob("*.py"):
        for line in path.read_text().splitlines():
            if line.startswith(("import ", "from ")):
                top = line.split()[1].split(".")[0]
                known = {"cograd", "setuptools", "rms_norm", "rk4", "pathlib", "math", "ctypes"}
                assert top in known | {"__future__"}, (path, line)
    assert cograd.__version__
