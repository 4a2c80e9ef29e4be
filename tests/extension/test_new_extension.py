# SPDX-License-Identifier: BSD-3-Clause
"""`python -m cograd new-extension`: the packages build, and their own tests pass."""

import importlib.util
import os
import re
import shutil
import subprocess
import sys
import zipfile
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import pytest

import cograd
from cograd.commands import main
from cograd.commands.new_extension import refusal

KINDS = ["setuptools", "cmake", "c"]
BUILD = ["--no-build-isolation", "--no-deps", "--no-index", "-q"]


def run(*command, **kwargs):
    done = subprocess.run(
        [str(c) for c in command], capture_output=True, text=True, check=False, **kwargs
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def skip_without(kind):
    if not any(map(shutil.which, ("c++", "g++", "clang++"))):
        pytest.skip("there is no C++ compiler")
    needed = ["pip", "scikit_build_core" if kind == "cmake" else "setuptools"]
    for module in needed:
        try:
            version(module)  # find_spec would load setuptools's distutils
        except PackageNotFoundError:
            pytest.skip(f"{module} is not installed")
    if kind == "cmake":
        if not (Path(cograd.utils.cmake_prefix_path) / "cograd" / "cogradConfig.cmake").exists():
            pytest.skip("cograd is not installed, only built")
    elif (
        tuple(map(int, version("setuptools").split(".")[:2])) < (70, 1)
        and importlib.util.find_spec("wheel") is None
    ):
        pytest.skip("setuptools is older than 70.1, and wheel is not installed")


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_package_builds_and_passes_its_tests(kind, here, capsys):
    skip_without(kind)
    name = f"t_new_{kind}"
    assert main(["new-extension", name, f"--{kind}"]) == 0
    said = capsys.readouterr().out
    assert f"cd {name}" in said
    steps = said.split(f"cd {name}")[1].splitlines()[1:4]
    assert "--no-build-isolation" in steps[1]  # pip would look for cograd in the package index
    project = here / name
    readme = (project / "README.md").read_text()
    assert all(f"    {step.strip()}\n" in readme for step in steps)
    pip = [sys.executable, "-m", "pip"]
    env = {**os.environ, "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    run(*pip, "wheel", *BUILD, "-w", "dist", ".", cwd=project, env=env)
    (wheel,) = (project / "dist").glob("*.whl")
    assert wheel.name.startswith(f"{name}-0.1.0-py3-none-linux_")
    assert f"{name}/_ops.so" in zipfile.ZipFile(wheel).namelist()
    run(*pip, "install", *BUILD, "--target", here / "site", wheel, env=env)
    env["PYTHONPATH"] = os.pathsep.join([str(here / "site"), env.get("PYTHONPATH", "")])
    out = run(sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", cwd=project, env=env)
    assert "3 passed" in out


def test_cmake_says_what_to_pass(here):
    if shutil.which("cmake") is None:
        pytest.skip("cmake is not installed")
    assert main(["new-extension", "t_cmake", "--cmake"]) == 0
    command = ["cmake", "-S", "t_cmake", "-B", "build", "-DCMAKE_FIND_USE_CMAKE_SYSTEM_PATH=OFF"]
    env = {k: v for k, v in os.environ.items() if "cograd" not in k and k != "CMAKE_PREFIX_PATH"}
    env["PATH"] = "/usr/bin:/bin"  # CMake searches beside the programs of PATH
    if shutil.which("cmake", path=env["PATH"]) is None:
        command[0] = shutil.which("cmake")
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=env)
    assert done.returncode != 0
    assert "python -m cograd config --cmakedir" in done.stderr


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("my-ops", "is not an identifier.*'my_ops' would be one"),
        ("3d", "is not an identifier"),
        ("", "is not an identifier"),
        ("a/b", "is not an identifier"),
        ("ops_", "is not an identifier"),
        ("_my_ops", "is not an identifier.*'my_ops' would be one"),
        ("größe", "is not an identifier"),
        ("lambda", "keyword of Python"),
        ("match", "keyword of Python"),
        ("namespace", "meaning in C or C"),
        ("cograd", "hide the module cograd"),
        ("numpy", "hide the module numpy"),
        ("NumPy", "hide the module numpy"),
        ("torch", "hide the module torch"),
        ("json", "hide the module json"),
        ("pytest", "hide a module that is there already, .*pytest"),
    ],
)
def test_names_that_cannot_be_used(name, reason, here, capsys):
    assert main(["new-extension", name]) == 1
    error = capsys.readouterr().err
    assert re.search(reason, error), error
    assert list(here.iterdir()) == []


def test_nothing_is_overwritten(here, capsys):
    (here / "taken").mkdir()
    (here / "taken" / "mine.txt").write_text("mine")
    (here / "link").symlink_to("nowhere")
    (here / "file").write_text("mine")
    for name in ("taken", "link", "file"):
        assert main(["new-extension", name]) == 1
        assert f"{here / name} exists; nothing was written" in capsys.readouterr().err
    assert sorted(p.name for p in here.iterdir()) == ["file", "link", "taken"]
    assert [p.name for p in (here / "taken").iterdir()] == ["mine.txt"]
    assert refusal("fine") == ""


def test_a_folder_that_cannot_be_written(here, capsys):
    if os.geteuid() == 0:
        pytest.skip("root may write everywhere")
    here.chmod(0o500)
    assert main(["new-extension", "t_denied"]) == 1
    assert "Permission denied" in capsys.readouterr().err
    here.chmod(0o700)


def test_kinds_exclude_one_another(here, capsys):
    with pytest.raises(SystemExit):
        main(["new-extension", "t_both", "--c", "--cmake"])
    assert "not allowed with" in capsys.readouterr().err


@pytest.mark.parametrize("kind", KINDS)
def test_no_mark_is_left(kind, here):
    assert main(["new-extension", "t_marks", f"--{kind}"]) == 0
    for path in (here / "t_marks").rglob("*"):
        if path.is_file():
            assert "@NAME@" not in path.name
            words = path.read_text().replace("actions/checkout@", "")
            assert not [w for w in words.split() if w.count("@") > 1], path
            if path.suffix == ".py":
                compile(path.read_text(), str(path), "exec")
