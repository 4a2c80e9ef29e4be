# SPDX-License-Identifier: BSD-3-Clause
"""cograd.utils.cpp_extension with setuptools and CMake."""

import ctypes
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import cograd
from cograd.utils import cpp_extension

pytestmark = [
    pytest.mark.skipif(
        not any(map(shutil.which, ("c++", "g++", "clang++"))), reason="there is no C++ compiler"
    ),
]
EXPORT = '__attribute__((visibility("default")))'
SOURCE = """
#include "value.h"
extern "C" __attribute__((visibility("default"))) int answer() { return VALUE + EXTRA + other(); }
"""
SETUP = """
from setuptools import setup
from cograd.utils.cpp_extension import BuildExtension, CppExtension

setup(
    name="demo_package",
    version="1.0",
    packages=["demo_package"],
    ext_modules=[
        CppExtension(
            "demo_package._ops",
            ["src/a.cpp", "src/b.cpp"],
            include_dirs=["include"],
            define_macros=[("EXTRA", "1")],
            extra_compile_args={"cxx": ["-O1"], "nvcc": ["-x"]},
        ),
        *OTHER,
    ],
    cmdclass={"build_ext": COMMAND},
)
"""


@pytest.fixture
def project(tmp_path, monkeypatch):
    """Returns a function that writes a project with a setup.py and runs one of its commands."""
    pytest.importorskip("setuptools")
    monkeypatch.setenv("COGRAD_EXTENSIONS_DIR", str(tmp_path / "cache"))
    folder = tmp_path / "project"
    for path, text in {
        "src/a.cpp": "int other();\n" + SOURCE,
        "src/b.cpp": "int other() { return 10; }\n",
        "include/value.h": "#define VALUE 100\n",
        "demo_package/__init__.py": "",
    }.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)

    def run(*command, other="[]", build="BuildExtension", check=True):
        text = SETUP.replace("*OTHER", f"*{other}").replace("COMMAND", build)
        (folder / "setup.py").write_text(text)
        result = subprocess.run(
            [sys.executable, "setup.py", *command],
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
        )
        assert not check or result.returncode == 0, result.stdout + result.stderr
        return folder if check else result

    return run


def test_build_ext_in_place(project):
    folder = project("build_ext", "--inplace")
    (built,) = (folder / "demo_package").glob("*.so")
    assert built.name == "_ops.so", "there is no Python in it, so no ABI tag"
    assert ctypes.CDLL(str(built)).answer() == 111
    assert os.access(built, os.X_OK)
    (folder / "include" / "value.h").write_text("#define VALUE 200\n")
    project("build_ext", "--inplace")
    copy = shutil.copy(built, folder / "again.so")
    assert ctypes.CDLL(str(copy)).answer() == 211


def test_python_abi_suffix_can_be_chosen(project):
    build = "BuildExtension.with_options(no_python_abi_suffix=False, use_ninja=True)"
    folder = project("build_ext", "--inplace", build=build)
    (built,) = (folder / "demo_package").glob("*.so")
    assert built.name.startswith("_ops.c")


def test_library_is_found_without_importing_cograd_first(project):
    if shutil.which("readelf") is None:
        pytest.skip("binutils are not installed")
    folder = project("build_ext", "--inplace")
    out = subprocess.run(
        ["readelf", "-d", str(folder / "demo_package/_ops.so")],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert "$ORIGIN/../cograd/lib" in out


def test_foreign_extensions_still_build(project, tmp_path):
    other = '[__import__("setuptools").Extension("demo_package.plain", ["src/plain.c"])]'
    (tmp_path / "project/src/plain.c").write_text(
        "#include <Python.h>\n"
        'static struct PyModuleDef d = {PyModuleDef_HEAD_INIT, "plain", 0, -1};\n'
        "PyMODINIT_FUNC PyInit_plain(void) { return PyModule_Create(&d); }\n"
    )
    folder = project("build_ext", "--inplace", other=other)
    assert len(list((folder / "demo_package").glob("*.so"))) == 2


def test_compile_error_stops_setup(project, tmp_path):
    (tmp_path / "project/include/value.h").write_text("#define VALUE nothing\n")
    result = project("build_ext", "--inplace", check=False)
    assert result.returncode != 0
    assert "'nothing' was not declared" in result.stderr


def test_wheel_fits_every_python(project):
    commands = pytest.importorskip("setuptools.command")
    path = Path(commands.__path__[0])
    if not (path / "bdist_wheel.py").exists():
        pytest.importorskip("wheel")
    folder = project("bdist_wheel")
    (wheel,) = (folder / "dist").glob("*.whl")
    assert "-py3-none-" in wheel.name
    names = zipfile.ZipFile(wheel).namelist()
    assert "demo_package/_ops.so" in names


def test_extension_takes_the_arguments_of_setuptools():
    setuptools = pytest.importorskip("setuptools")
    extension = cpp_extension.CppExtension(
        "a.b", ["x.cpp"], include_dirs=["i"], libraries=["m"], py_limited_api=True, debug=True
    )
    assert isinstance(extension, setuptools.Extension)
    assert extension.language == "c++"
    assert extension.include_dirs == ["i"]


# ---------------------------------------------------------------------------- CMake

LISTS = """
cmake_minimum_required(VERSION 3.20)
project(demo LANGUAGES C CXX)
find_package(cograd CONFIG REQUIRED)
cograd_add_extension(demo_ops ops.cpp)
cograd_add_extension(demo_c NAME other ops.c)
add_executable(program program.cpp)
target_link_libraries(program PRIVATE cograd::cograd)
"""
PROGRAM = """
#include <cograd/c_api.h>
#include <cstdio>
int main() {
  int32_t major, minor;
  cograd_abi_version(&major, &minor);
  std::printf("%d.%d\\n", major, minor);
}
"""


@pytest.fixture
def installed():
    """Returns the directory that an installed cograd adds to CMAKE_PREFIX_PATH."""
    path = Path(cograd.utils.cmake_prefix_path)
    if shutil.which("cmake") is None:
        pytest.skip("cmake is not installed")
    if not (path / "cograd" / "cogradConfig.cmake").exists():
        pytest.skip("cograd is not installed, only built")
    return path


def test_find_package(tmp_path, installed):
    (tmp_path / "CMakeLists.txt").write_text(LISTS)
    (tmp_path / "program.cpp").write_text(PROGRAM)
    (tmp_path / "ops.cpp").write_text(f'extern "C" {EXPORT} int answer() {{ return 3; }}\n')
    (tmp_path / "ops.c").write_text(f"{EXPORT} int answer(void) {{ return 4; }}\n")
    build = tmp_path / "build"
    for command in (
        ["cmake", "-S", tmp_path, "-B", build, f"-DCMAKE_PREFIX_PATH={installed}"],
        ["cmake", "--build", build],
    ):
        result = subprocess.run(command, capture_output=True, text=True, check=False)
        assert result.returncode == 0, result.stdout + result.stderr
    assert ctypes.CDLL(str(build / "demo_ops.so")).answer() == 3
    assert ctypes.CDLL(str(build / "other.so")).answer() == 4
    out = subprocess.run([build / "program"], capture_output=True, text=True, check=True).stdout
    major, minor = cograd._C._abi_version()
    assert out == f"{major}.{minor}\n"


def test_scikit_build_core_finds_it(tmp_path, installed):
    """scikit-build-core adds site-packages to CMAKE_PREFIX_PATH."""
    (tmp_path / "CMakeLists.txt").write_text(LISTS.partition("cograd_add")[0])
    site_packages = Path(cograd.__file__).parent.parent
    command = [
        "cmake",
        "-S",
        tmp_path,
        "-B",
        tmp_path / "b",
        f"-DCMAKE_PREFIX_PATH={site_packages}",
    ]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr


def test_builds_do_not_import_the_package():
    """scikit-build-core imports entry points: a broken installation must not stop it."""
    from importlib.metadata import distribution

    points = distribution("cograd").entry_points
    assert [e.name for e in points if e.group.startswith("cmake")] == []


def test_a_wheel_by_an_old_setuptools_says_what_is_missing(monkeypatch):
    """Setuptools before 70.1 has no bdist_wheel; it says "invalid command" only."""
    import importlib.util

    from cograd.utils.cpp_extension import _setuptools

    monkeypatch.setattr(sys, "argv", ["setup.py", "bdist_wheel"])
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    monkeypatch.setattr(_setuptools.setuptools, "__version__", "68.2.0")
    with pytest.raises(RuntimeError, match=r"setuptools 70\.1 or later.*68\.2\.0 is installed"):
        _setuptools.CppExtension("m._ops", ["m.cpp"])
    monkeypatch.setattr(_setuptools.setuptools, "__version__", "70.1.0.post2")
    _setuptools.CppExtension("m._ops", ["m.cpp"])
    monkeypatch.setattr(_setuptools.setuptools, "__version__", "68.2.0")
    monkeypatch.setattr(sys, "argv", ["setup.py", "build_ext"])
    _setuptools.CppExtension("m._ops", ["m.cpp"])
