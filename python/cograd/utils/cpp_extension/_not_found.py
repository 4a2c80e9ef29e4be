# SPDX-License-Identifier: BSD-3-Clause
"""Messages about shared objects that do not exist: where they were looked for."""

from __future__ import annotations

import os
import re
import struct

__all__ = ["library", "needed_library", "run_path"]


def library(name: str, places: list[str]) -> str:
    """Returns the message for a library that is in none of the places."""
    lines = [f"cograd.ops.load_library: {name}: No such file or directory. Looked for:"]
    for place in places:
        folder = os.path.dirname(place)
        try:
            others = sorted(n for n in os.listdir(folder) if ".so" in n)
        except OSError:
            lines.append(f"  {place} (there is no directory {folder})")
            continue
        beside = f"the directory has {', '.join(others[:5])}" if others else "no .so file is there"
        lines.append(f"  {place} ({beside})")
    folder = os.path.dirname(places[0])
    while folder != os.path.dirname(folder) and not folder.endswith("-packages"):
        if os.path.exists(os.path.join(folder, "pyproject.toml")):
            lines.append(
                f"{folder} is a source tree, where nothing may have been built: install it "
                f"(pip install {folder}) and import it from there, or load the file that you built"
            )
            break
        folder = os.path.dirname(folder)
    return "\n".join(lines)


def needed_library(path: str, message: str) -> str:
    """Returns what to add to the dynamic linker's message about a library that `path` needs.

    Args:
        path: the shared object that was loaded.
        message: the linker's; the result is "" unless it is about a missing library.
    """
    match = re.search(r"(\S+): cannot open shared object file: No such file", message)
    if match is None or match[1] == path:
        return ""
    own = run_path(path)
    origin = os.path.dirname(os.path.realpath(path))
    places = [
        os.path.normpath(p.replace("$ORIGIN", origin).replace("${ORIGIN}", origin)) for p in own
    ]
    lines = [f"  {place} (the run path of {os.path.basename(path)})" for place in places]
    variable = os.environ.get("LD_LIBRARY_PATH", "")
    lines += [f"  {place} (LD_LIBRARY_PATH)" for place in variable.split(os.pathsep) if place]
    lines.append("  the directories of the system (ldconfig -p lists what they have)")
    return f"\n{path} needs {match[1]}, which was looked for in:\n" + "\n".join(lines)


def run_path(path: str) -> list[str]:
    """Returns the directories in the DT_RUNPATH or DT_RPATH of a 64-bit ELF file."""
    try:
        with open(path, "rb") as file:
            data = file.read()
        return _run_path(data)
    except (OSError, struct.error, StopIteration, ValueError):
        return []  # this only adds to a message


def _run_path(data: bytes) -> list[str]:
    start, size, count = (
        *struct.unpack_from("<Q", data, 32),
        *struct.unpack_from("<HH", data, 54),
    )
    headers = [struct.unpack_from("<IIQQQQ", data, start + i * size) for i in range(count)]
    dynamic = next(h for h in headers if h[0] == 2)  # PT_DYNAMIC
    entries: dict[int, int] = {}
    for at in range(dynamic[2], dynamic[2] + dynamic[5], 16):
        tag, value = struct.unpack_from("<QQ", data, at)
        if tag == 0:
            break
        entries[tag] = value
    offset = entries.get(29, entries.get(15))  # DT_RUNPATH replaces DT_RPATH
    if offset is None:
        return []
    table = entries[5]  # DT_STRTAB, an address
    segment = next(h for h in headers if h[0] == 1 and h[3] <= table < h[3] + h[5])  # PT_LOAD
    begin = table - segment[3] + segment[2] + offset
    return [p for p in data[begin : data.index(b"\0", begin)].decode().split(":") if p]
