# SPDX-License-Identifier: BSD-3-Clause
"""tools/build_progress.py: what it shows of a build, on a terminal and elsewhere."""

import importlib.util
import io
import os
import pty
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

TOOL = Path(__file__).resolve().parents[2] / "tools" / "build_progress.py"

pytestmark = pytest.mark.skipif(not TOOL.exists(), reason="no source checkout")


@pytest.fixture(scope="module")
def tool():
    spec = importlib.util.spec_from_file_location("build_progress", TOOL)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def call(*command, **options):
    """Runs the tool with its output in a pipe; returns its status and its text."""
    done = subprocess.run(
        [sys.executable, str(TOOL), *map(str, command)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        **options,
    )
    return done.returncode, done.stdout


def script(text):
    return [sys.executable, "-c", text]


# ---------------------------------------------------------------------------- CMake and Ninja

LISTS = """
cmake_minimum_required(VERSION 3.20)
project(tiny LANGUAGES CXX)
message(STATUS "a status of CMake")
message(WARNING "a warning of CMake")
add_library(tiny STATIC a.cpp b.cpp)
target_compile_options(tiny PRIVATE -Wall)
"""


@pytest.fixture(scope="module")
def cmake(tmp_path_factory):
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    cmake, ninja = (shutil.which(name, path=path) for name in ("cmake", "ninja"))
    if cmake is None or ninja is None or shutil.which("c++") is None:
        pytest.skip("CMake, Ninja or a C++ compiler is not installed")
    folder = tmp_path_factory.mktemp("tiny")
    (folder / "CMakeLists.txt").write_text(LISTS)
    (folder / "a.cpp").write_text("int a() { return 1; }\n")
    (folder / "b.cpp").write_text("int b() { return 2; }\n")
    options = ["-G", "Ninja", f"-DCMAKE_MAKE_PROGRAM={ninja}", "-B", folder / "build"]
    status, text = call(cmake, "-S", folder, *options)
    assert status == 0, text
    assert "a warning of CMake" in text
    assert "a status of CMake" not in text
    return folder, [cmake, "--build", folder / "build"]


def test_a_build_with_ninja(cmake):
    folder, build = cmake
    status, text = call(*build)
    assert (status, bool(re.fullmatch(r"build: 3 files, \d+ s\n", text))) == (0, True), text
    assert call(*build) == (0, "")  # nothing to do
    (folder / "b.cpp").write_text("int b() { int unused; return 2; }\n")
    status, text = call(*build)
    assert status == 0
    assert "warning: unused variable" in text
    assert re.search(r"^build: 2 files, \d+ s$", text, re.M), text
    assert "Building CXX" not in text
    (folder / "b.cpp").write_text("int b() { return two; }\n")
    status, text = call(*build)
    assert status != 0
    assert "FAILED: " in text
    assert "was not declared in this scope" in text
    assert re.search(r"^build: failed after \d+ s$", text, re.M), text
    (folder / "b.cpp").write_text("int b() { return 2; }\n")
    status, text = call("--all", *build)
    assert status == 0
    assert "Building CXX object CMakeFiles/tiny.dir/b.cpp.o" in text


def test_a_terminal_shows_one_line_that_is_rewritten(cmake):
    folder, build = cmake
    (folder / "a.cpp").write_text("int a() { return 3; }\n")
    ours, theirs = pty.openpty()
    command = [sys.executable, str(TOOL), *map(str, build)]
    child = subprocess.Popen(command, stdout=theirs, stderr=theirs)
    os.close(theirs)
    seen = b""
    while True:
        try:
            data = os.read(ours, 4096)
        except OSError:  # how Linux reports that no one has the other side open
            break
        if not data:
            break
        seen += data
    os.close(ours)
    assert child.wait() == 0, seen
    text = seen.decode()
    assert re.search(r"\r\x1b\[K1 of 2 files, \d+ s: Building CXX object", text), text
    assert re.search(r"\r\x1b\[Kbuild: 2 files, \d+ s\r\n$", text), text
    assert text.count("\n") == 1


# ---------------------------------------------------------------------------- lines


class Terminal(io.StringIO):
    def isatty(self):
        return True


def said(tool, *lines, status=0, out=None):
    out = out or io.StringIO()
    progress = tool.Progress(out)
    for line in lines:
        progress.line(line)
    progress.end(status)
    return out.getvalue()


def test_what_cmake_does_again_is_no_file_of_the_build(tool):
    again = ["[0/2] Re-checking globbed directories...", "[1/2] Re-running CMake...", "-- Done"]
    assert said(tool, *again, "ninja: no work to do.") == ""
    text = said(tool, *again, "[1/9] Building a.o", "-- Installing: x", "\x1b[32m*** Made x")
    assert text == "build: 9 files, 0 s\n"


def test_errors_of_cmake_run_to_the_next_status(tool):
    lines = ["CMake Error at CMakeLists.txt:3 (project):", "  no compiler", "", "-- Incomplete"]
    text = said(tool, "-- Begun", *lines, "left over", status=1)
    assert text.startswith("\n".join(lines[:3]) + "\n")
    # The hidden output appears, because no file was built.
    assert text.endswith("-- Begun\n-- Incomplete\nleft over\nbuild: failed after 0 s\n")


def test_make_counts_in_percent(tool):
    assert said(tool, "[ 50%] Building a.o", "a.cpp:1: warning: b") == (
        "a.cpp:1: warning: b\nbuild: done, 0 s\n"
    )


def test_a_line_of_the_compiler_removes_the_progress_line(tool):
    lines = ["[1/2] Building a.o", "-- Up-to-date: b", "-- Up-to-date: c", "a.cpp:1: warning: b"]
    text = said(tool, *lines, out=Terminal())
    assert text.count("Building a.o") == 1  # not drawn again where nothing is new
    assert "Building a.o\r\x1b[Ka.cpp:1: warning: b\n" in text


def test_long_lines_are_cut_to_the_terminal(tool, monkeypatch):
    monkeypatch.setenv("COLUMNS", "20")
    text = said(tool, "[1/2] Building " + "a" * 50, out=Terminal())
    assert "\r\x1b[K1 of 2 files, 0 s: \r" in text


def test_a_line_a_minute_elsewhere(tool, monkeypatch, capfd):
    monkeypatch.setattr(tool, "SECONDS_BETWEEN_LINES", 1.0)
    slow = "import time; print('[1/2] a', flush=True); time.sleep(3); print('[2/2] b')"
    assert tool.follow(script(slow)) == 0
    *lines, last = capfd.readouterr().out.splitlines()
    states = [re.fullmatch(r"build: (.*), (\d+) s", line).groups() for line in lines]
    seen = {state for state, _ in states}
    assert "1 of 2 files" in seen <= {"configuring", "1 of 2 files", "2 of 2 files"}
    total = int(re.fullmatch(r"build: 2 files, (\d+) s", last)[1])
    assert len(states) <= total + 1  # no two within a second


@pytest.mark.parametrize(
    "seconds,text", [(0.4, "0 s"), (59, "59 s"), (60, "1 min 00 s"), (754.6, "12 min 35 s")]
)
def test_durations(tool, seconds, text):
    assert tool.duration(seconds) == text


# ---------------------------------------------------------------------------- the process


def test_status_and_output_of_a_command_that_fails():
    failing = "import sys; print('one'); print('two', file=sys.stderr); sys.exit(3)"
    assert call(*script(failing)) == (3, "one\ntwo\nbuild: failed after 0 s\n")
    status, text = call(*script("print('no newline', end=''); exit(1)"))
    assert (status, text.splitlines()[0]) == (1, "no newline")
    killed = "import os, signal; os.kill(os.getpid(), signal.SIGTERM)"
    assert call(*script(killed))[0] == 128 + signal.SIGTERM
    assert call(*script("print('quiet')")) == (0, "")
    assert call(*script("print(b'\\xff')"), env=os.environ | {"LC_ALL": "C"})[0] == 0
    assert call()[0] == 2


def test_ninja_is_told_how_to_count_and_the_rest_is_inherited():
    said = "import os; print(os.environ['NINJA_STATUS'], os.environ['X']); exit(1)"
    env = os.environ | {"NINJA_STATUS": "%e", "X": "1"}
    assert call(*script(said), env=env)[1].startswith("[%f/%t]  1\n")


def test_an_interrupt_ends_the_build(tmp_path):
    mark = tmp_path / "ended"
    slow = f"""
import pathlib, time
print('[1/2] a', flush=True)
try:
    pathlib.Path({str(tmp_path / "begun")!r}).touch()
    time.sleep(60)
except KeyboardInterrupt:
    pathlib.Path({str(mark)!r}).touch()
"""
    child = subprocess.Popen([sys.executable, str(TOOL), *script(slow)], start_new_session=True)
    while not (tmp_path / "begun").exists():
        time.sleep(0.05)
    child.send_signal(signal.SIGINT)
    assert child.wait(timeout=30) == 130
    assert mark.exists()


# ---------------------------------------------------------------------------- tools/install.py

PROJECT = """
[build-system]
requires = ["scikit-build-core"]
build-backend = "scikit_build_core.build"
[project]
name = "tiny"
version = "1.0"
[tool.scikit-build]
build-dir = "build/{wheel_tag}"
"""
MODULE = """
cmake_minimum_required(VERSION 3.20)
project(tiny LANGUAGES CXX)
add_library(tiny SHARED a.cpp)
target_compile_options(tiny PRIVATE -Wall)
file(WRITE "${CMAKE_BINARY_DIR}/told.txt" "${TOLD}")
install(TARGETS tiny DESTINATION tiny)
install(FILES "${CMAKE_BINARY_DIR}/told.txt" DESTINATION tiny)
"""


def test_install_builds_with_settings_and_shows_warnings(tmp_path, cmake):
    pytest.importorskip("scikit_build_core")
    project = tmp_path / "project"
    (project / "tools").mkdir(parents=True)
    for name in ("install.py", "build_progress.py"):
        shutil.copy(TOOL.parent / name, project / "tools")
    (project / "pyproject.toml").write_text(PROJECT)
    (project / "CMakeLists.txt").write_text(MODULE)
    (project / "a.cpp").write_text("int a() { int unused; return 1; }\n")
    command = [sys.executable, str(project / "tools" / "install.py")]
    command += ["--config-settings=cmake.define.TOLD=a=b", "-q", "--no-index"]

    def install(folder):
        done = subprocess.run(
            [*command, "--target", str(tmp_path / folder)],
            cwd=tmp_path,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        return done.returncode, done.stdout

    status, text = install("first")
    assert status == 0, text
    assert "warning: unused variable" in text
    assert re.search(r"^build: 2 files, \d+ s$", text, re.M), text
    assert "-- " not in text
    assert (tmp_path / "first" / "tiny" / "told.txt").read_text() == "a=b"
    status, text = install("second")
    assert (status, "build:" in text) == (0, False), text  # nothing to compile
    assert (tmp_path / "second" / "tiny" / "libtiny.so").exists()
    (project / "a.cpp").write_text("int a() { return one; }\n")
    status, text = install("third")
    assert status != 0
    assert "was not declared in this scope" in text
    assert not (tmp_path / "third").exists()
