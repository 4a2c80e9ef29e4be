# SPDX-License-Identifier: BSD-3-Clause
"""Runs the linters: lint.py [--fix] [--tidy core|changed|all] [--but STEP] [step ...].

Steps, all of them by default: ruff, format, clang-format, files, surface, stubs, headers, abi,
mypy, typing, clang-tidy.
clang-tidy takes seconds per file, so by default it checks the autograd core and the first files
that differ from the branch main; `--tidy all` checks everything. It leaves out files that have
passed with the same headers (COGRAD_CI_CACHE= turns that off). Every step runs; the exit status is
1 if a step failed.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import importlib.metadata
import json
import os
import re
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from own_build import own_builds

ROOT = Path(__file__).resolve().parent.parent
BIN = Path(sysconfig.get_path("scripts"))
SPDX = "SPDX-License-Identifier: BSD-3-Clause"
MAX_FILE_LINES = 700  # the goal is 400; above this a file is split
MAX_TEST_LINES = 1200
MAX_TIDY_FILES = 24  # five to ten CPU seconds each; --tidy all checks everything


def run(*command: str | Path) -> bool:
    """Runs a command in the project's root and returns whether it succeeded."""
    return subprocess.run([str(c) for c in command], cwd=ROOT, check=False).returncode == 0


def tracked(*patterns: str) -> list[str]:
    """Returns the files git knows or would add that match the patterns, without those of others."""
    own = (*patterns, ":!third_party")
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "--", *own]
    out = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    return [f for f in dict.fromkeys(out.splitlines()) if (ROOT / f).exists()]


def cpp_files() -> list[str]:
    """Returns every C++ source and header."""
    return tracked("*.cpp", "*.h")


def ruff(fix: bool) -> bool:
    """Lints Python."""
    return run(BIN / "ruff", "check", *(["--fix"] if fix else []), ".")


def ruff_format(fix: bool) -> bool:
    """Checks or applies the formatting of Python."""
    return run(BIN / "ruff", "format", *([] if fix else ["--check"]), ".")


def clang_format(fix: bool) -> bool:
    """Checks or applies the formatting of C++."""
    files = cpp_files()
    mode = ["-i"] if fix else ["--dry-run", "-Werror"]
    return not files or run(BIN / "clang-format", *mode, *files)


def files(_fix: bool) -> bool:
    """Checks licence lines and file lengths."""
    ok = True
    for name in tracked("*.py", "*.pyi", "*.cpp", "*.h", "*.cmake", "*.sh", "CMakeLists.txt"):
        lines = (ROOT / name).read_text().splitlines()
        if lines and not any(SPDX in line for line in lines[:2]):
            print(f"{name}:1: no line '{SPDX}'")
            ok = False
        limit = MAX_TEST_LINES if name.startswith("tests/") else MAX_FILE_LINES
        if len(lines) > limit and not name.endswith(".pyi"):
            print(f"{name}: {len(lines)} lines, split it (limit {limit})")
            ok = False
    return ok


def surface(fix: bool) -> bool:
    """Checks that the modules of torch's surface are those of the tables in python/surface."""
    return run(sys.executable, "tools/gen_surface.py", *([] if fix else ["--check"]))


def stubs(fix: bool) -> bool:
    """Checks that the generated stubs and pages are those of the installed build."""
    return run(sys.executable, "tools/gen_stubs.py", *([] if fix else ["--check"]))


def headers(fix: bool) -> bool:
    """Checks that the generated C++ headers are those of the installed build."""
    return run(sys.executable, "tools/gen_headers.py", *([] if fix else ["--check"]))


def abi(_fix: bool) -> bool:
    """Checks that the public symbols, prototypes and structs are those of the stored baseline."""
    return run(sys.executable, "tools/abi_check.py")


def mypy(_fix: bool) -> bool:
    """Type-checks the package."""
    return run(sys.executable, "-m", "mypy")


def typing(_fix: bool) -> bool:
    """Type-checks user programs, examples/ and tests/typed, with mypy and with pyright."""
    programs = tracked("tests/typed/*.py", "examples/*.py", "examples/extensions/inline/*.py")
    # The other extensions import the results of their builds, programs for torch import torch.
    programs = [n for n in programs if n.count("/") < 3 or "/inline/" in n]
    programs = [n for n in programs if "/for_torch/" not in n]
    ok = run(sys.executable, "-m", "mypy", *programs)
    for name in ("basedpyright", "pyright"):
        if (BIN / name).exists():
            return run(BIN / name, "--pythonpath", sys.executable, "--level", "error") and ok
    print("lint: typing: pyright not run; install it with `pip install basedpyright`")
    return ok


def tidy_files(which: str) -> list[str]:
    """Returns the sources that clang-tidy checks."""
    sources = tracked("csrc/*.cpp")
    if which == "all":
        return sources
    chosen = (
        tracked("csrc/autograd/*.cpp", "csrc/transforms/*.cpp", "csrc/tensor/*.cpp")
        if which == "core"
        else []
    )
    diff = ["git", "diff", "--name-only", "main", "--", "csrc"]
    out = subprocess.run(diff, cwd=ROOT, check=False, capture_output=True, text=True).stdout
    changed = [name for name in out.splitlines() if name in sources and name not in chosen]
    room = max(0, MAX_TIDY_FILES - len(chosen))
    if len(changed) > room:
        print(f"clang-tidy: {len(changed) - room} changed files left out; see --tidy all")
    return chosen + changed[:room]


def compile_commands(build: Path) -> list[dict[str, str]]:
    """Returns a build's compile commands, one for each file, without its precompiled headers.

    Clang cannot read those of GCC, and without them a file must include what it uses. What the
    build compiles in groups is checked file by file for the same reason.
    """
    entries = json.loads((build / "compile_commands.json").read_text())
    pch = re.compile(r"-Winvalid-pch|-include \S*/cmake_pch\.hxx")
    commands = []
    for entry in entries:
        files = [entry["file"]]
        if "/Unity/" in entry["file"]:
            files = re.findall(r'^#include "(.*)"', Path(entry["file"]).read_text(), re.MULTILINE)
        command = pch.sub("", entry["command"])
        commands += [
            entry | {"file": name, "command": command.replace(entry["file"], name)}
            for name in files
        ]
    return commands


class TidyPasses:
    """Remembers which files passed clang-tidy, in the cache of .ci/steps.sh, for 30 days.

    A file's key has its text, all headers of csrc, its compile command and the tools' versions.
    """

    def __init__(self, build: Path):
        user = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
        folder = os.environ.get("COGRAD_CI_CACHE", str(Path(user) / "cograd-ci"))
        self.folder = Path(folder) if folder else None
        entries = compile_commands(build)
        # Without the checkout's path, so that another checkout has the same keys.
        self.commands = {
            e["file"]: e["command"].replace(str(ROOT), ".").replace(str(build), "build")
            for e in entries
        }
        compiler = next(iter(self.commands.values()), "c++").split(" ")[0]
        self.common = hashlib.sha256()
        for tool in (str(BIN / "clang-tidy"), compiler):
            text = subprocess.run([tool, "--version"], check=False, capture_output=True).stdout
            self.common.update(text)
        self.common.update(importlib.metadata.version("pybind11").encode())
        for name in [".clang-tidy", *tracked("csrc/*.h", "csrc/*.def", "csrc/*.inc")]:
            self.common.update(name.encode() + (ROOT / name).read_bytes())

    def record(self, name: str) -> Path | None:
        """Returns the file that exists if `name` has passed; None without a cache."""
        if self.folder is None:
            return None
        key = self.common.copy()
        key.update(self.commands.get(str(ROOT / name), "").encode() + (ROOT / name).read_bytes())
        return self.folder / f"tidy-{key.hexdigest()}"

    def passed(self, record: Path | None) -> bool:
        """Returns whether a record is of the last 30 days."""
        if record is None or not record.exists():
            return False
        return time.time() - record.stat().st_mtime < 30 * 86400

    def add(self, record: Path | None) -> None:
        """Remembers a pass."""
        if record is not None:
            with contextlib.suppress(OSError):
                record.parent.mkdir(parents=True, exist_ok=True)
                record.touch()


def clang_tidy(which: str) -> bool:
    """Runs clang-tidy with one process per core, on files that have not passed as they are."""
    build = next(iter(own_builds(ROOT, "compile_commands.json")), None)
    if build is None:
        print("clang-tidy: this Python has no build/*/compile_commands.json; `make install` first")
        return False
    passes = TidyPasses(build)
    records = {name: passes.record(name) for name in tidy_files(which)}  # as the files are now
    new = [name for name, record in records.items() if not passes.passed(record)]
    if len(new) < len(records):
        print(f"clang-tidy: {len(records) - len(new)} of {len(records)} files have passed before")

    database = tempfile.TemporaryDirectory()

    def one(name: str) -> subprocess.CompletedProcess[str]:
        command = [str(BIN / "clang-tidy"), "--quiet", "-p", database.name]
        command += ["--extra-arg=-Wno-unknown-warning-option", name]
        return subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True)

    ok = True
    with database, ThreadPoolExecutor(os.cpu_count()) as pool:
        text = json.dumps(compile_commands(build))
        Path(database.name, "compile_commands.json").write_text(text)
        for name, result in zip(new, pool.map(one, new)):
            if result.returncode:
                print(result.stdout, result.stderr, sep="")
                ok = False
            elif not result.stdout.strip():  # warnings are shown each time
                passes.add(records[name])
    return ok


def main() -> int:
    """Runs the chosen steps and reports each one's verdict and time."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--fix", action="store_true", help="apply automatic fixes")
    parser.add_argument("--tidy", choices=["core", "changed", "all"], default="core")
    parser.add_argument("--but", action="append", default=[], help="a step to leave out")
    parser.add_argument("steps", nargs="*")
    args = parser.parse_args()
    steps: dict[str, Callable[[bool], bool]] = {
        "ruff": ruff,
        "format": ruff_format,
        "clang-format": clang_format,
        "files": files,
        "surface": surface,
        "stubs": stubs,
        "headers": headers,
        "abi": abi,
        "mypy": mypy,
        "typing": typing,
        "clang-tidy": lambda _fix: clang_tidy(args.tidy),
    }
    fixers = ["ruff", "format", "clang-format"]
    chosen = args.steps or (fixers if args.fix else list(steps))
    if unknown := {*chosen, *args.but} - set(steps):
        parser.error(f"unknown step {sorted(unknown)}, there are {list(steps)}")
    failed = []
    for name in [n for n in chosen if n not in args.but]:
        start = time.perf_counter()
        if not steps[name](args.fix):
            failed.append(name)
        verdict = "FAILED" if name in failed else "ok"
        print(f"lint: {name}: {verdict} ({time.perf_counter() - start:.1f} s)", flush=True)
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
