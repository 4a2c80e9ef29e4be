# SPDX-License-Identifier: BSD-3-Clause
"""Runs python -m cograd.utils.cpp_extension list | prune | doctor."""

from __future__ import annotations

import argparse
import os
import shlex
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from cograd import __version__
from cograd.commands.doctor import Finding, report
from cograd.utils.cpp_extension import _cache, _compiler, _helpers, _job, _paths, _python_modules
from cograd.utils.cpp_extension._job import ExtensionError


def _human(size: float) -> str:
    for unit in ("B", "kB", "MB"):
        if size < 1000:
            return f"{size:.0f} {unit}"
        size /= 1000
    return f"{size:.1f} GB"


def _age(seconds: float) -> str:
    for limit, step, unit in ((90, 1, "s"), (5400, 60, "min"), (129600, 3600, "h")):
        if seconds < limit:
            return f"{seconds / step:.0f} {unit}"
    return f"{seconds / 86400:.0f} d"


def list_command(args: argparse.Namespace) -> int:
    """Prints the builds in the cache."""
    listed = entries(args.root)
    if args.names:
        listed = [e for e in listed if e.name in args.names]
    print(f"{args.root}: {len(listed)} builds, {_human(sum(e.size for e in listed))}")
    width = max([len(e.name) for e in listed], default=0)
    for entry in listed:
        kind = str((entry.record or {}).get("kind", "?"))
        print(
            f"{entry.name:{width}}  {kind:10} {entry.state:10} {_human(entry.size):>7}  "
            f"used {_age(entry.used):>6} ago  {os.path.basename(entry.folder)}"
        )
    return 0


def prune_command(args: argparse.Namespace) -> int:
    """Removes builds from the cache."""
    picked = chosen(entries(args.root), args.names, args.days, args.all)
    for entry in picked:
        print(f"{'would remove' if args.dry_run else 'removing'} {entry.folder} ({entry.state})")
    freed = sum(e.size for e in picked) if args.dry_run else remove(picked)
    print(f"{len(picked)} builds, {_human(freed)}")
    return 0


def doctor_command(args: argparse.Namespace) -> int:
    """Checks that extensions can be built here; says what to install if they cannot."""
    return report([findings(args.root, build=True)], "extensions can be built")


def main(argv: Sequence[str] | None = None) -> int:
    """Runs a subcommand and returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m cograd.utils.cpp_extension")
    parser.add_argument(
        "--root", default=_paths.build_root(), help="the cache's directory (default: %(default)s)"
    )
    commands = parser.add_subparsers(dest="command", required=True)
    shown = commands.add_parser("list", help="show what is in the cache")
    shown.add_argument("names", nargs="*", help="extensions; default: all")
    shown.set_defaults(run=list_command)
    prune = commands.add_parser(
        "prune",
        help="remove builds: those of an older cograd or compiler, and damaged ones",
    )
    prune.add_argument("names", nargs="*", help="remove all builds of these extensions")
    prune.add_argument("--days", type=float, help="remove builds that were not used for DAYS days")
    prune.add_argument("--all", action="store_true", help="remove everything")
    prune.add_argument("--dry-run", action="store_true", help="only say what would be removed")
    prune.set_defaults(run=prune_command)
    doctor = commands.add_parser("doctor", help="check compiler, headers, cache; build a probe")
    doctor.set_defaults(run=doctor_command)
    args = parser.parse_args(argv)
    start = time.perf_counter()
    status = int(args.run(args))
    if args.command == "doctor":
        print(f"({time.perf_counter() - start:.1f} s)")
    return status


class Listed(NamedTuple):
    """Describes one directory of the cache.

    Attributes:
        name: name of the extension.
        folder: path of the directory.
        record: its build.json, None if it is damaged.
        size: bytes of all files in it.
        used: seconds since it was last used.
        state: "ok", "old" (another cograd or compiler built it), "damaged" or "unfinished".
    """

    name: str
    folder: str
    record: dict[str, Any] | None
    size: int
    used: float
    state: str


def _size(folder: str) -> int:
    total = 0
    for path, _, files in os.walk(folder):
        for file in files:
            try:
                total += os.lstat(os.path.join(path, file)).st_size
            except OSError:
                pass
    return total


def _state(folder: str, record: dict[str, Any] | None) -> str:
    if os.path.basename(folder).startswith(_cache.TEMPORARY):
        return "unfinished"
    if record is None:
        return "damaged"
    if record.get("kind") == "header":
        return "ok" if _python_modules._valid(folder) else "old"
    if not _cache.intact(_cache.Entry(folder, record)):
        return "damaged"
    current = {_compiler.identities(("c++",)), _compiler.identities(("c++", "c"))}
    if record.get("version") != __version__ or record["compiler"] not in current:
        return "old"
    return "old" if record.get("volatile") else "ok"


def entries(root: str) -> list[Listed]:
    """Returns every directory of the cache, most recently used first within each name."""
    result: list[Listed] = []
    try:
        names = sorted(os.listdir(root))
    except OSError:
        return result
    now = time.time()
    for name in names:
        directory = os.path.join(root, name)
        if not os.path.isdir(directory) or os.path.islink(directory):
            continue
        found = []
        for sub in os.listdir(directory):
            folder = os.path.join(directory, sub)
            marker = os.path.join(folder, _cache.RECORD)
            looks = sub.startswith(_cache.TEMPORARY) or _is_key(sub)
            if not looks or not os.path.isdir(folder):
                continue
            record = _cache.read_record(folder)
            try:
                stamp = os.stat(marker if record else folder).st_mtime
            except OSError:
                continue
            label = "(precompiled header)" if name == _python_modules.FOLDER else name
            found.append(
                Listed(label, folder, record, _size(folder), now - stamp, _state(folder, record))
            )
        result += sorted(found, key=lambda e: e.used)
    return result


def _is_key(name: str) -> bool:
    key, _, variant = name.partition("-")
    hexadecimal = all(c in "0123456789abcdef" for c in key + variant)
    return hexadecimal and len(key) == 20 and len(variant) in (0, 8)


def chosen(
    listed: list[Listed], names: list[str], days: float | None, everything: bool
) -> list[Listed]:
    """Returns the builds that `prune` removes.

    Without names or days, these are all builds that can never be used again, and unfinished ones
    that are over an hour old.
    """
    picked = [e for e in listed if not names or e.name in names]
    if everything or (names and days is None):
        return picked
    if days is not None:
        return [e for e in picked if e.used > days * 86400 or e.state == "damaged"]
    dead = [e for e in picked if e.state in ("old", "damaged")]
    return dead + [e for e in picked if e.state == "unfinished" and e.used > 3600]


def remove(listed: list[Listed]) -> int:
    """Removes builds, and parent directories that are empty then; returns the bytes freed."""
    freed = 0
    for entry in listed:
        _cache.remove(entry.folder)
        freed += entry.size
        directory = os.path.dirname(entry.folder)
        left = os.listdir(directory) if os.path.isdir(directory) else ["?"]
        if all(n.endswith((".lock", ".log", ".so", ".pyi")) for n in left):
            shutil.rmtree(directory, ignore_errors=True)
    return freed


PROBE = "cograd::Tensor cograd_probe(const cograd::Tensor& x) { return x + x; }\n"


def findings(root: str, build: bool) -> Iterator[Finding]:
    """Checks what building extensions needs; a section of `python -m cograd doctor`.

    Args:
        root: the cache's directory.
        build: also builds a probe, and a missing compiler is a fault; otherwise it is a note.
    """
    worst = "FAIL" if build else "note"
    major, minor = _job.abi_version()
    yield "ok", "extensions", f"{__version__}, ABI {major}.{minor}, Python {sys.version.split()[0]}"
    failed = False
    for finding in (
        *_check_files(),
        *_check_compilers(worst),
        *_check_cache(root, worst),
        *_check_optional(),
    ):
        failed = failed or finding[0] == "FAIL"
        yield finding
    if build and not failed:
        yield _check_probe()


def _check_files() -> Iterator[Finding]:
    try:
        header = os.path.join(_paths.include_dir(), "cograd", "extension.h")
    except FileNotFoundError as e:
        yield "FAIL", "headers", str(e)
        return
    for what, path in (
        ("headers", header),
        ("library", os.path.join(_paths.library_dir(), "libcograd.so")),
    ):
        if os.path.exists(path):
            yield "ok", what, path
        else:
            yield "FAIL", what, f"{path} is missing; reinstall cograd"


def _check_compilers(worst: str) -> Iterator[Finding]:
    try:
        command = _compiler.compiler_command()
    except ExtensionError as e:
        rest = "" if worst == "FAIL" else "; only extensions need one"
        yield worst, "C++ compiler", f"{e}{rest}"
        return
    name, hint = shlex.join(command), _compiler.install_hint()
    line = _compiler.version_line(command)
    good, version = _helpers.get_compiler_abi_compatibility_and_version(name)
    if not line:
        yield worst, "C++ compiler", f"{name} does not run. {hint}"
    elif not good:
        text = ".".join(map(str, version)) or "an unknown version"
        text = f"{line} has {text}; C++20 needs GCC 10 or Clang 13. {hint}"
        yield worst, "C++ compiler", text
    else:
        yield "ok", "C++ compiler", f"{name}: {line}"
    try:
        yield "ok", "C compiler", shlex.join(_compiler.compiler_command("c"))
    except ExtensionError as e:
        yield "note", "C compiler", f"only needed for .c files: {e}"
    asan = _compiler.runtime_library(command, "libasan.so") if line else None
    if asan is not None:
        text = f"for AddressSanitizer run LD_PRELOAD={asan} ASAN_OPTIONS=detect_leaks=0 python ..."
        yield "note", "debug=True", text
    elif line:
        yield "note", "debug=True", "the compiler has no libasan.so; UBSAN alone is used"


def _check_cache(root: str, worst: str) -> Iterator[Finding]:
    try:
        os.makedirs(root, exist_ok=True)
        with tempfile.TemporaryFile(dir=root):
            pass
    except OSError as e:
        text = f"{root} cannot be written ({e.strerror}); set {_paths.ROOT_VARIABLE}"
        yield worst, "cache", text
        return
    yield "ok", "cache", root


def _check_optional() -> Iterator[Finding]:
    pybind11 = _compiler.pybind11_include()
    if pybind11 is None:
        yield "note", "pybind11", "only needed for PYBIND11_MODULE: pip install pybind11"
    else:
        yield "ok", "pybind11", pybind11
    try:
        yield "ok", "Python.h", _compiler.python_include()
    except ExtensionError as e:
        yield "note", "Python.h", f"only needed for PYBIND11_MODULE: {e}"


def _check_probe() -> Finding:
    """Builds, loads and calls an op in a separate cache."""
    import cograd
    from cograd.utils import cpp_extension

    with tempfile.TemporaryDirectory(prefix="cograd_doctor-") as folder:
        start = time.perf_counter()
        try:
            module = cpp_extension.load_inline(
                "cograd_doctor", PROBE, functions="cograd_probe", build_directory=folder
            )
            value = module.cograd_probe(cograd.ones(2)).sum().item()
        except (ExtensionError, ImportError) as e:
            return "FAIL", "probe", str(e)
        seconds = time.perf_counter() - start
    if value == 4.0:
        return "ok", "probe", f"an op was compiled, loaded and called in {seconds:.1f} s"
    return "FAIL", "probe", f"the op returned {value}, expected 4.0"


if __name__ == "__main__":
    sys.exit(main())
