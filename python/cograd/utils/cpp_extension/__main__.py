# SPDX-License-Identifier: BSD-3-Clause
"""python -m cograd.utils.cpp_extension list | prune | doctor."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Sequence

from cograd.utils.cpp_extension import _cache, _paths


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
    listed = _cache.entries(args.root)
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
    picked = _cache.chosen(_cache.entries(args.root), args.names, args.days, args.all)
    for entry in picked:
        print(f"{'would remove' if args.dry_run else 'removing'} {entry.folder} ({entry.state})")
    freed = sum(e.size for e in picked) if args.dry_run else _cache.remove(picked)
    print(f"{len(picked)} builds, {_human(freed)}")
    return 0


def doctor_command(args: argparse.Namespace) -> int:
    """Checks that extensions can be built here; says what to install if they cannot."""
    from cograd.utils.cpp_extension import _doctor

    return _doctor.run(args.root)


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
    prune.add_argument("--days", type=float, help="remove what was not used for so long")
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


if __name__ == "__main__":
    sys.exit(main())
