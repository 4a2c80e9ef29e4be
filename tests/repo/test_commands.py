# SPDX-License-Identifier: BSD-3-Clause
"""python -m cograd COMMAND, and the output of show_config()."""

import json
import os
import subprocess
import sys
from importlib import import_module

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


def test_config_command_honours_the_level():
    result = cograd_command("config", "--json", COGRAD_ISA="base", COGRAD_NUM_THREADS="3")
    assert result.returncode == 0, result.stderr
    told = json.loads(result.stdout)
    assert told["simd"]["chosen"] == "base"
    assert told["simd"]["chosen"] in told["simd"]["built"]
    assert told["threads"]["cograd"] == 3
    assert told["variables"]["COGRAD_ISA"] == "base"


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
