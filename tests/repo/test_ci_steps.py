# SPDX-License-Identifier: BSD-3-Clause
""".ci/steps.sh: which steps run, in a small repository with a .ci/run of its own."""

import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
STEPS = ROOT / ".ci" / "steps.sh"
TAG = f"cp{sys.version_info[0]}{sys.version_info[1]}"

pytestmark = pytest.mark.skipif(
    not STEPS.exists() or shutil.which("git") is None or shutil.which("bash") is None,
    reason="no source checkout, or no git or bash",
)

RUN = """#!/usr/bin/env bash
set -euo pipefail
cd "$(dirname "$0")/.."
closing='the end'
. .ci/steps.sh
say() { echo "ran $1"; [ ! -e "fail-$1" ]; }
edit() { echo "ran edit"; [ ! -e edited ] || date +%s%N >code/a.cpp; }
step first
echo "ran first"
step build "say build" code
step docs "say docs" docs '*.md'
also=${ALSO:-} step both "say both" . ':!docs' ':!*/test_*' and tests/test_one
step always "say always"
step edit "edit" code
"""
# Stands for an environment's Python, of which the hash reads version and packages; the real pip
# would take seconds.
PYTHON = """#!/bin/sh
case "$*" in *freeze*) cat "$(dirname "$0")/packages" ;; *) echo "Python 3.11.7" ;; esac
"""


class Checkout:
    def __init__(self, folder, cache):
        self.folder, self.cache = folder, cache
        python = folder / ".venv" / "bin" / "python"
        python.parent.mkdir(parents=True)
        python.write_text(PYTHON)
        python.chmod(0o755)
        self.packages("ruff==1")

    def packages(self, text):
        (self.folder / ".venv" / "bin" / "packages").write_text(text + "\n")

    def git(self, *arguments):
        identity = ["-c", "user.name=t", "-c", "user.email=t@localhost"]
        command = ["git", *identity, "-c", "commit.gpgsign=false", *arguments]
        subprocess.run(command, cwd=self.folder, check=True, capture_output=True)

    def write(self, name, text):
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def call(self, **variables):
        env = {k: v for k, v in os.environ.items() if k not in ("ONLY", "SKIP", "PYTEST_ARGS")}
        env |= {"COGRAD_CI_CACHE": str(self.cache), "CXX": "true", **variables}
        command = ["bash", str(self.folder / ".ci" / "run")]
        return subprocess.run(command, env=env, capture_output=True, text=True, check=False)

    def ran(self, **variables):
        """Runs .ci/run; returns the steps that ran, in order."""
        result = self.call(**variables)
        assert result.returncode == 0, result.stdout + result.stderr
        return re.findall(r"^ran (\w+)$", result.stdout, re.M)


EVERY = ["first", "build", "docs", "both", "always", "edit"]
UNCHANGED = ["first", "always"]


@pytest.fixture
def checkout(tmp_path):
    made = Checkout(tmp_path / "one", tmp_path / "cache")
    made.write(".ci/run", RUN)
    made.write(".ci/steps.sh", STEPS.read_text())
    made.write(".gitignore", "/.venv\n/ignored\n")
    for name in ("code/a.cpp", "code/b.cpp", "docs/a.md", "README.md", "other", "tests/test_one"):
        made.write(name, name)
    made.git("init", "-q")
    made.git("add", "-A")
    made.git("commit", "-qm", "all: begin it")
    return made


def test_a_step_runs_until_it_has_passed(checkout):
    assert checkout.ran() == EVERY
    result = checkout.call()
    assert re.findall(r"^ran (\w+)$", result.stdout, re.M) == UNCHANGED
    today = time.strftime("%Y-%m-%d")
    assert re.search(rf"^ +-   build: unchanged since it passed on {today}$", result.stdout, re.M)
    assert re.search(r"^ +\d+s  always$", result.stdout, re.M)
    assert result.stdout.endswith("in all\nthe end\n")


def test_a_change_runs_what_depends_on_it(checkout):
    checkout.ran()
    for name, runs in {
        "code/a.cpp": ["build", "both", "edit"],  # tracked
        "code/new.cpp": ["build", "both", "edit"],  # not tracked and not ignored
        "docs/a.md": ["docs"],
        "README.md": ["docs", "both"],
        "other": ["both"],
        "tests/shared": ["both"],
        "tests/test_one": ["both"],
        "tests/test_two": [],
        "ignored": [],
        ".git/description": [],
    }.items():
        checkout.write(name, "changed")
        assert checkout.ran() == [n for n in EVERY if n in UNCHANGED or n in runs], name
    (checkout.folder / "code/b.cpp").rename(checkout.folder / "code/c.cpp")
    assert "build" in checkout.ran()
    (checkout.folder / "code/c.cpp").unlink()
    assert "build" in checkout.ran()
    (checkout.folder / "code/a.cpp").chmod(0o755)
    assert "build" in checkout.ran()
    assert checkout.ran() == UNCHANGED


def test_another_checkout_with_the_same_files_has_the_same_records(checkout, tmp_path):
    checkout.ran()
    before = (checkout.folder / "code/a.cpp").read_text()
    checkout.write("code/a.cpp", "changed")
    assert "build" in checkout.ran()
    checkout.write("code/a.cpp", before)
    assert checkout.ran() == UNCHANGED  # this has passed, if not last
    checkout.write("code/a.cpp", "changed")
    checkout.git("commit", "-qam", "code: change it")
    subprocess.run(["git", "clone", "-q", str(checkout.folder), str(tmp_path / "two")], check=True)
    other = Checkout(tmp_path / "two", checkout.cache)
    assert other.ran() == UNCHANGED
    assert checkout.ran(COGRAD_CI_CACHE=str(tmp_path / "third")) == EVERY  # another machine


def test_only_what_passed_is_recorded(checkout):
    checkout.write("fail-both", "")
    result = checkout.call()
    assert result.returncode == 1
    assert re.search(r"^ +\d+s  both \(FAILED\)$", result.stdout, re.M)
    assert "always" not in result.stdout
    assert re.findall(r"^ran (\w+)$", checkout.call().stdout, re.M) == ["first", "both"]
    (checkout.folder / "fail-both").unlink()
    assert checkout.ran() == ["first", "both", "always", "edit"]


def test_files_that_change_while_a_step_runs_have_not_passed(checkout):
    checkout.write("edited", "")
    checkout.ran()
    assert checkout.ran() == EVERY[:2] + EVERY[3:]
    assert "edit" in checkout.ran()


def test_commands_tools_and_variables_count(checkout):
    checkout.ran()
    checkout.packages("ruff==2")
    assert checkout.ran() == EVERY
    assert checkout.ran(PYTEST_ARGS="-k one") == EVERY
    assert checkout.ran(CXXFLAGS="-O1") == EVERY
    assert checkout.ran(COGRAD_ISA="base") == EVERY
    assert checkout.ran(ALSO="what a step adds") == ["first", "both", "always"]
    assert checkout.ran(EDITOR="ed", COGRAD_SUBJECTS_SINCE="HEAD") == UNCHANGED
    checkout.write(".ci/run", RUN.replace('echo "ran $1"', 'echo "ran $1" && true'))
    assert checkout.ran() == [n for n in EVERY if n != "edit"]  # which is another function
    checkout.write(".ci/steps.sh", STEPS.read_text() + "# changed\n")
    assert checkout.ran() == EVERY


def test_records_end_after_30_days(checkout):
    checkout.ran()
    (record,) = [p for p in checkout.cache.iterdir() if p.read_text().endswith(" build\n")]
    day = 86400
    for age, runs in ((29 * day, False), (31 * day, True)):
        record.write_text(f"{int(time.time()) - age} build\n")
        assert ("build" in checkout.ran()) == runs
    record.write_text("no number\n")
    assert "build" in checkout.ran()
    old = checkout.cache / "old"
    old.touch()
    os.utime(old, (0, 0))
    checkout.write("code/a.cpp", "changed")
    checkout.ran()
    assert not old.exists()


def test_without_a_cache_every_step_runs(checkout):
    for _ in range(2):
        assert checkout.ran(COGRAD_CI_CACHE="") == EVERY
    assert not checkout.cache.exists()
    (checkout.folder / "file").touch()
    result = checkout.call(COGRAD_CI_CACHE=str(checkout.folder / "file" / "cache"))
    assert result.returncode == 0
    assert "the pass of build is not recorded" in result.stdout


def test_the_default_cache_is_in_the_users_folder(checkout, tmp_path):
    variables = {"XDG_CACHE_HOME": str(tmp_path / "xdg")}
    without = ("COGRAD_CI_CACHE", "ONLY", "SKIP")
    env = {k: v for k, v in os.environ.items() if k not in without} | variables
    subprocess.run(["bash", str(checkout.folder / ".ci" / "run")], env=env, check=True)
    assert len(list((tmp_path / "xdg" / "cograd-ci").iterdir())) == 4


def test_no_repository_no_records(checkout):
    shutil.rmtree(checkout.folder / ".git")
    env = {"GIT_CEILING_DIRECTORIES": str(checkout.folder.parent)}
    for _ in range(2):
        assert checkout.ran(**env) == EVERY


def test_only_and_skip(checkout):
    assert checkout.ran(ONLY="build d*") == ["first", "build", "docs"]
    assert checkout.ran(SKIP="always edit") == ["first", "both"]  # the others have passed
    assert checkout.ran(ONLY="always docs", SKIP="d*") == ["first", "always"]
    result = checkout.call(ONLY="biuld")
    assert result.returncode == 2
    assert result.stdout.endswith("no step is called biuld\n")


def test_an_input_without_files_is_an_error(checkout):
    checkout.write(".ci/run", RUN.replace('"say build" code', '"say build" coed'))
    result = checkout.call()
    assert result.returncode == 1
    assert "step build: no file matches its input coed" in result.stderr


@pytest.mark.parametrize("minutes,seconds,told", [(1, 73, True), (1, 71, False), ("", 9999, False)])
def test_a_run_that_takes_20_percent_more_says_so(checkout, minutes, seconds, told):
    late = RUN.replace("closing=", f"minutes={minutes}\nclosing=") + f"SECONDS={seconds}\n"
    checkout.write(".ci/run", late)
    result = checkout.call()
    assert result.returncode == 0
    assert (f"This took 1 minutes; {checkout.folder}/.ci/run promises 1." in result.stdout) == told


def test_the_inputs_of_this_project_exist():
    """Every path in .ci/run matches a file, because .ci/run stops at one that does not."""
    if not (ROOT / ".git").exists():
        pytest.skip("no git checkout")
    script = """
        set -u; cd "$1"; step() { shift; [ $# -lt 2 ] || { shift; printf '%s\\n' "$@"; }; }
        make() { :; }; other_pythons() { echo 3.10; }; python_of() { echo true; }; log=''
        eval "$(sed -e '/^set -/d' -e '/^cd /d' -e '/^log=/d' -e '/steps.sh$/d' .ci/run)"
    """
    command = ["bash", "-c", script, "bash", str(ROOT)]
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    inputs = set(result.stdout.split("\n")) - {""}
    assert {".", "csrc", "*.md", "docs"} <= inputs
    for name in inputs:
        if not name.startswith(":!") and name != "and":
            listed = subprocess.run(
                ["git", "ls-files", "-co", "--exclude-standard", "--", name],
                cwd=ROOT,
                capture_output=True,
                text=True,
                check=True,
            )
            assert listed.stdout, name


def test_other_pythons_link_the_library_of_the_own_build(checkout, tmp_path):
    """The newest folder may be that of another Python, and incomplete."""
    meta = tmp_path / "site" / "cograd-0.1.dist-info"
    meta.mkdir(parents=True)
    (meta / "METADATA").write_text("Metadata-Version: 2.1\nName: cograd\nVersion: 0.1\n")
    (meta / "WHEEL").write_text("Wheel-Version: 1.0\nTag: cp311-cp311-linux_x86_64\n")
    for tag in ("cp311-cp311-linux_x86_64", "cp310-cp310-linux_x86_64"):
        checkout.write(f"build/{tag}/cograd/lib/libcograd.so", "")
        time.sleep(0.01)
    python = checkout.folder / ".venv" / "bin" / "python"
    python.write_text(f'#!/bin/sh\nPYTHONPATH={tmp_path / "site"} exec {sys.executable} "$@"\n')
    script = "trap - EXIT; . .ci/steps.sh; trap - EXIT; own_libcograd"
    command = ["bash", "-c", script]
    done = subprocess.run(command, cwd=checkout.folder, capture_output=True, text=True, check=True)
    assert done.stdout == "build/cp311-cp311-linux_x86_64/cograd/lib/libcograd.so\n"


# ---------------------------------------------------------------------------- clang-tidy


@pytest.fixture
def lint(tmp_path, monkeypatch):
    """Sets up tools/lint.py on a small repository; its clang-tidy records what it checks."""
    spec = importlib.util.spec_from_file_location("lint_tool", ROOT / "tools" / "lint.py")
    tool = importlib.util.module_from_spec(spec)
    monkeypatch.syspath_prepend(ROOT / "tools")  # lint.py imports its neighbours
    spec.loader.exec_module(tool)
    build = tmp_path / "build" / f"{TAG}-{TAG}-linux"
    for name in ("csrc/tensor/a.cpp", "csrc/tensor/b.cpp", "csrc/tensor/c.h", ".clang-tidy"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    build.mkdir(parents=True)
    commands = [
        {
            "file": str(tmp_path / f"csrc/tensor/{n}.cpp"),
            "command": f"true -I{tmp_path} -Winvalid-pch -include {tmp_path}/cmake_pch.hxx -c {n}",
        }
        for n in "ab"
    ]
    (build / "compile_commands.json").write_text(json.dumps(commands))
    checker = tmp_path / "bin" / "clang-tidy"
    checker.parent.mkdir()
    checker.write_text(
        '#!/bin/sh\n[ "$1" = --version ] && exit\nfor name; do :; done\n'
        'grep -q pch "$3/compile_commands.json" && exit 1\n'  # $2 is -p
        'echo "$name" >>checked\ngrep -q wrong "$name" && exit 1\nexit 0\n'
    )
    checker.chmod(0o755)
    subprocess.run(["git", "init", "-q", "-b", "main", str(tmp_path)], check=True)
    monkeypatch.setattr(tool, "ROOT", tmp_path)
    monkeypatch.setattr(tool, "BIN", checker.parent)
    monkeypatch.setenv("COGRAD_CI_CACHE", str(tmp_path / "cache"))

    def checked():
        (tmp_path / "checked").write_text("")
        ok = tool.clang_tidy("core")
        names = (tmp_path / "checked").read_text().split()
        return ok, sorted(Path(n).stem for n in names)

    return checked


def test_clang_tidy_leaves_out_what_has_passed(lint, tmp_path, monkeypatch):
    source, header = tmp_path / "csrc/tensor/a.cpp", tmp_path / "csrc/tensor/c.h"
    assert lint() == (True, ["a", "b"])
    assert lint() == (True, [])
    source.write_text("wrong")
    assert lint() == (False, ["a"])
    assert lint() == (False, ["a"])  # a failure is not remembered
    source.write_text("right")
    assert lint() == (True, ["a"])
    for path in (header, tmp_path / ".clang-tidy"):
        path.write_text("changed")
        assert lint() == (True, ["a", "b"])
    assert lint() == (True, [])
    for record in (tmp_path / "cache").iterdir():
        os.utime(record, (0, 0))
    assert lint() == (True, ["a", "b"])
    monkeypatch.setenv("COGRAD_CI_CACHE", "")
    assert lint() == (True, ["a", "b"])
