# SPDX-License-Identifier: BSD-3-Clause
"""The launcher of ccache knows what precompiled headers need."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

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


@pytest.mark.skipif(
    shutil.which("ccache") is None or shutil.which("g++") is None, reason="needs ccache and g++"
)
def test_a_comment_makes_a_precompiled_header_anew(tmp_path):
    """GCC includes a header once more if it differs from the precompiled one in a comment."""
    header, prefix, unit = tmp_path / "a.h", tmp_path / "pch.hxx", tmp_path / "x.cpp"
    prefix.write_text('#include "a.h"\n')
    unit.write_text('#include "a.h"\nint x = S().v;\n')
    flags = ["g++", f"-I{tmp_path}", "-MD", "-MF", "deps"]
    settings = {k: v for k, v in os.environ.items() if not k.startswith("CCACHE_")}
    settings["CCACHE_DIR"] = str(tmp_path / "cache")

    def run(*command):
        subprocess.run(command, cwd=tmp_path, env=settings, check=True, capture_output=True)

    for comment in ("one", "another comment"):
        header.write_text(f"#pragma once\n// {comment}\nstruct S {{ int v = 1; }};\n")
        for file in (header, prefix, unit):  # ccache passes over files that have just been written
            os.utime(file, (1e9, 1e9))
        run(
            "sh",
            LAUNCHER,
            "ccache",
            *flags,
            "-x",
            "c++-header",
            "-o",
            "pch.hxx.gch",
            "-c",
            "pch.hxx",
        )
        run(*flags, "-include", "pch.hxx", "-o", "x.o", "-c", "x.cpp")
