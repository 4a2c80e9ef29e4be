# SPDX-License-Identifier: BSD-3-Clause
"""python -m cograd COMMAND, and the output of show_config()."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import cograd
from cograd.commands import COMMANDS, main, module_name


def cograd_command(*arguments, **env):
    return subprocess.run(
        [sys.executable, "-m", "cograd", *arguments],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **env},
    )


def test_every_command_is_a_module_with_main():
    for name in COMMANDS:
        assert callable(import_module(module_name(name)).main)


def test_help_and_unknown_commands(capsys):
    assert main(["--help"]) == 0
    shown = capsys.readouterr().out
    assert all(name in shown for name in COMMANDS)
    assert main([]) == 2
    assert main(["nonsense"]) == 2
    assert "no command 'nonsense'" in capsys.readouterr().err


@pytest.mark.parametrize("option", ["--version", "-V"])
def test_version(option, capsys):
    assert main([option]) == 0
    assert capsys.readouterr().out == f"cograd {cograd.__version__}\n"
    result = cograd_command(option)
    assert result.returncode == 0 and result.stdout == f"cograd {cograd.__version__}\n"


def test_config_command_honours_the_level():
    result = cograd_command("config", "--json", COGRAD_ISA="base", COGRAD_NUM_THREADS="3")
    assert result.returncode == 0, result.stderr
    told = json.loads(result.stdout)
    assert told["simd"]["chosen"] == "base"
    assert told["simd"]["chosen"] in told["simd"]["built"]
    assert told["threads"]["cograd"] == 3
    assert told["variables"]["COGRAD_ISA"] == "base"


PROGRAM = """
#include <cograd/extension.h>
#include <cstdio>
int main() { std::printf("%g\\n", cograd::tensor({1.0, 2.0}).sum().item<double>()); }
"""


def test_config_prints_what_a_compiler_needs(tmp_path):
    """The flags compile, link and run a program, as $(...) in a shell passes them."""
    compiler = shutil.which("c++") or shutil.which("g++")
    if compiler is None:
        pytest.skip("there is no C++ compiler")
    (tmp_path / "program.cpp").write_text(PROGRAM)
    config = f"{shlex.quote(sys.executable)} -m cograd config"
    script = (
        f"c++ $({config} --cflags) -c program.cpp -o program.o && "
        f"c++ program.o $({config} --ldflags) -o program && ./program"
    )
    command = ["sh", "-c", script]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "3\n"


def test_config_prints_directories(capsys):
    def told(*options):
        assert main(["config", *options]) == 0
        return capsys.readouterr().out.splitlines()

    includes, libdir, cmakedir = told("--cmakedir", "--includes", "--libdir")
    assert includes == f"-I{told('--includedir')[0]}"
    assert os.path.exists(os.path.join(libdir, "libcograd.so"))
    assert cmakedir == os.path.join(cograd.utils.cmake_prefix_path, "cograd")
    assert told("--cmake_dir") == told("--cmake-dir") == [cmakedir]
    assert told("--include_dir") == told("--includedir")
    assert told("--version") == [cograd.__version__]
    assert "torch_compat" in told("--includes", "--with-torch-compat")[0]
    assert "-DCOGRAD_TORCH_COMPAT=1" in told("--cflags", "--with-torch-compat")[0]
    for wrong in (["--json", "--libdir"], ["--with-torch-compat"]):
        with pytest.raises(SystemExit):
            main(["config", *wrong])


def test_cmake_finds_cograd_by_the_directory(tmp_path, capsys):
    if shutil.which("cmake") is None:
        pytest.skip("cmake is not installed")
    assert main(["config", "--cmakedir"]) == 0
    folder = capsys.readouterr().out.strip()
    if not os.path.exists(os.path.join(folder, "cogradConfig.cmake")):
        pytest.skip("cograd is not installed, only built")
    lists = ["cmake_minimum_required(VERSION 3.20)", "project(p NONE)"]
    lists.append("find_package(cograd CONFIG REQUIRED)\n")
    (tmp_path / "CMakeLists.txt").write_text("\n".join(lists))
    for i, variable in enumerate(["cograd_DIR", "cograd_ROOT", "CMAKE_PREFIX_PATH"]):
        command = ["cmake", "-S", tmp_path, "-B", tmp_path / str(i), f"-D{variable}={folder}"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr


def test_a_reader_that_stops_is_no_error():
    """`python -m cograd config | head` stops reading like this."""
    reading, writing = os.pipe()
    os.close(reading)
    command = [sys.executable, "-m", "cograd", "config"]
    result = subprocess.run(command, stdout=writing, stderr=subprocess.PIPE, check=False)
    os.close(writing)
    assert result.returncode == 1 and result.stderr == b""


def test_show_config(capsys):
    assert cograd.show_config() is None
    shown = capsys.readouterr().out
    assert shown.rstrip("\n") == cograd.__config__.show()
    told = cograd.show_config(mode="dicts")
    assert told["cograd"]["version"] == cograd.__version__
    assert os.path.samefile(
        told["cograd"]["library"],
        os.path.join(os.path.dirname(cograd._C.__file__), "lib", "libcograd.so"),
    )
    assert told["blas"]["configuration"].startswith("OpenBLAS")
    assert told["blas"]["core"] in shown
    assert f"{cograd.get_num_threads()} of" in cograd.__config__.parallel_info()
    with pytest.raises(ValueError, match="'stdout' or 'dicts'"):
        cograd.show_config("yaml")


def test_docs_of_a_name(capsys):
    assert main(["docs", "relu"]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("cograd.relu(input")
    assert "cograd.nn.functional.relu(" in shown or "cograd.Tensor.relu" in shown
    assert main(["docs", "torch.nn.Linear"]) == 0
    assert "cograd.nn.Linear(in_features: int," in capsys.readouterr().out
    assert main(["docs", "Tensor.add_"]) == 0
    assert "other" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "page"),
    [
        (["ODE"], "docs/tutorials/fit_ode.md"),
        (["slow"], "docs/tutorials/why_slow.md"),
        (["save", "model"], "docs/tutorials/save_and_resume.md"),
        (["nan"], "docs/tutorials/find_nan.md"),
        (["in-place"], "docs/inplace.md"),
    ],
)
def test_docs_of_words(words, page, capsys):
    """The page that fits best comes first, with its sections."""
    assert main(["docs", *words]) == 0
    shown = capsys.readouterr().out
    assert re.findall(r"\((docs/\S+)\)", shown)[0] == page
    assert "\n    - " in shown


def test_docs_lists_all_pages_and_says_if_nothing_fits(capsys):
    assert main(["docs"]) == 0
    assert "Why is it slow?" in capsys.readouterr().out
    assert main(["docs", "zebra"]) == 1
    assert "nothing about 'zebra'" in capsys.readouterr().out


def test_docs_have_web_addresses_if_the_package_has_one(monkeypatch, capsys):
    from importlib import metadata
    from types import SimpleNamespace

    from cograd._base.docs import address

    urls = SimpleNamespace(get_all=lambda _: ["Homepage, https://h", "Documentation, https://d/x/"])
    monkeypatch.setattr(metadata, "metadata", lambda _: urls)
    monkeypatch.setattr("cograd.commands.docs.address", address.__wrapped__)
    assert main(["docs", "ODE"]) == 0
    assert "(https://d/x/tutorials/fit_ode.html)" in capsys.readouterr().out


def test_the_index_is_that_of_the_docs():
    tool = Path(__file__).resolve().parents[2] / "tools" / "gen_docs_index.py"
    if not tool.exists():
        pytest.skip("not run from a source checkout")
    done = subprocess.run(
        [sys.executable, str(tool), "--check"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
