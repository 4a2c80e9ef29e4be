# SPDX-License-Identifier: BSD-3-Clause
"""The launcher of ccache removes a precompiled header before it is written anew."""

import subprocess
from pathlib import Path

LAUNCHER = Path(__file__).parents[2] / "cmake" / "ccache.sh"


def launch(folder, *arguments):
    """Runs the launcher with a shell that prints in place of ccache."""
    command = ["sh", LAUNCHER, "sh", "-c", 'echo "$CCACHE_SLOPPINESS" "$@"', "sh", *arguments]
    return subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True).stdout


def test_an_old_precompiled_header_is_removed(tmp_path):
    """ccache would read it in place of the headers, and miss that these have changed."""
    old = tmp_path / "a b.hxx.gch"
    old.write_text("old")
    text = launch(tmp_path, "g++", "-x", "c++-header", "-o", old.name, "-c", "a.cxx")
    assert text == "pch_defines,time_macros g++ -x c++-header -o a b.hxx.gch -c a.cxx\n"
    assert not old.exists()


def test_files_that_use_it_leave_it(tmp_path):
    header = tmp_path / "a.hxx.gch"
    header.write_text("kept")
    launch(tmp_path, "g++", "-include", "a.hxx", "-o", "x.o", "-c", "x.cpp")
    assert header.read_text() == "kept"
