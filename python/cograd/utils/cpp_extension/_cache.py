# SPDX-License-Identifier: BSD-3-Clause
"""Lists and cleans the cache of built extensions."""

from __future__ import annotations

import os
import shutil
import time
from typing import Any, NamedTuple

from cograd import __version__
from cograd.utils.cpp_extension import _compiler, _entry, _python


class Listed(NamedTuple):
    """One directory of the cache.

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
    if os.path.basename(folder).startswith(_entry.TEMPORARY):
        return "unfinished"
    if record is None:
        return "damaged"
    if record.get("kind") == "header":
        return "ok" if _python._valid(folder) else "old"
    if not _entry.intact(_entry.Entry(folder, record)):
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
            marker = os.path.join(folder, _entry.RECORD)
            looks = sub.startswith(_entry.TEMPORARY) or _is_key(sub)
            if not looks or not os.path.isdir(folder):
                continue
            record = _entry.read_record(folder)
            try:
                stamp = os.stat(marker if record else folder).st_mtime
            except OSError:
                continue
            label = "(precompiled header)" if name == _python.FOLDER else name
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

    Without names or days these are all that can never be used again; unfinished builds only if
    they are over an hour old.
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
        _entry.remove(entry.folder)
        freed += entry.size
        directory = os.path.dirname(entry.folder)
        left = os.listdir(directory) if os.path.isdir(directory) else ["?"]
        if all(n.endswith((".lock", ".log", ".so", ".pyi")) for n in left):
            shutil.rmtree(directory, ignore_errors=True)
    return freed
