# SPDX-License-Identifier: BSD-3-Clause
"""Compares the exported ABI with the stored baseline: abi_check.py [--update | --release].

The baseline, abi/cograd-<major>.symbols, has a line for every function of cograd/c_api.h and
c_devices.h with its C prototype, for every field of the public structs with its offset and size,
and for every constant with its value. A missing or changed line is an error: extensions built
earlier would break. New lines must be added with --update.
A release runs --release, which keeps its list in abi/cograd-<major>.released. What is newer than
this list needs a COGRAD_ABI_MINOR that is one higher than that of the release.
If libabigail's abidiff is installed and --reference names an older libcograd.so, it runs, too.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
INCLUDE = ROOT / "csrc" / "include"
HEADER = INCLUDE / "cograd" / "c_api.h"
HEADERS = (HEADER, INCLUDE / "cograd" / "c_devices.h")
PRIVATE = "COGRAD_PRIVATE"


def header_text() -> str:
    """Returns the C headers without comments, and without directives or their continued lines."""
    text = re.sub(r"/\*.*?\*/", " ", "\n".join(h.read_text() for h in HEADERS), flags=re.S)
    return re.sub(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*$", "", text, flags=re.M)


def squeeze(text: str) -> str:
    """Returns the text with single blanks, and none next to brackets."""
    return re.sub(r"\s*([(),*])\s*", r"\1", " ".join(text.split())).replace(",", ", ")


def prototypes() -> dict[str, str]:
    """Returns the prototype of every exported function, by its name."""
    found = {}
    for text in re.findall(r"COGRAD_C_API\s+([^;]*?)\s*COGRAD_NOEXCEPT", header_text()):
        name = re.search(r"\b(cograd_\w+)\s*\(", text)
        assert name is not None, text
        found[name.group(1)] = squeeze(text)
    return found


def callbacks() -> dict[str, str]:
    """Returns the types of function pointers, and of opaque pointers, by their names."""
    found = {}
    for text in re.findall(r"\btypedef\s+([^;{}]*);", header_text()):
        pointer = re.search(r"\(\s*\*\s*(\w+)\s*\)\s*\(", text)
        name = pointer.group(1) if pointer else text.split()[-1].strip("*")
        found[name] = squeeze(text)
    return found


def constants() -> list[str]:
    """Returns the names of all enumerators."""
    names = []
    for body in re.findall(r"\benum\s*\{(.*?)\}", header_text(), flags=re.S):
        names += re.findall(r"\b(COGRAD_\w+)\s*=", body)
    return names


def structs() -> dict[str, list[str]]:
    """Returns the fields of every public struct; a union's members count as fields."""
    found = {}
    pattern = r"typedef struct (cograd_\w+) \{(.*?)\n\} \1;"
    for name, body in re.findall(pattern, header_text(), flags=re.S):
        body = re.sub(r"\[\d+\]", "", re.sub(r"union\s*\{[^}]*\}", "union", body))
        fields = []
        for declaration in body.split(";"):
            pointer = re.search(r"\(\s*\*\s*(\w+)\s*\)\s*\(", declaration)
            if pointer:
                fields.append(pointer.group(1))
            elif declaration.strip():
                fields += [re.findall(r"\w+", d)[-1] for d in declaration.split(",")]
        found[name] = fields
    return found


def probe() -> list[str]:
    """Returns sizes, offsets and values as the compiler sees them, one line each."""
    lines = ["#include <stdio.h>", *(f'#include "{h}"' for h in HEADERS), "int main(void) {"]
    for name, fields in structs().items():
        lines.append(f'printf("struct {name} size %zu\\n", sizeof({name}));')
        for f in fields:
            lines.append(
                f'printf("struct {name}.{f} at %zu size %zu\\n", offsetof({name}, {f}), '
                f"sizeof((({name}*)0)->{f}));"
            )
    for name in constants():
        lines.append(f'printf("constant {name} %ld\\n", (long)({name}));')
    lines.append("return 0; }")
    compiler = next(filter(None, map(shutil.which, ("cc", "gcc", "clang"))), None)
    if compiler is None:
        raise SystemExit("abi_check: there is no C compiler")
    with tempfile.TemporaryDirectory() as folder:
        source, program = Path(folder) / "probe.c", Path(folder) / "probe"
        source.write_text("\n".join(lines))
        subprocess.run([compiler, f"-I{INCLUDE}", "-o", program, source], check=True)
        out = subprocess.run([program], check=True, capture_output=True, text=True).stdout
    return out.splitlines()


def exported(library: Path) -> dict[str, str]:
    """Returns the version node of each symbol the library exports."""
    out = subprocess.run(
        ["nm", "-D", "--defined-only", "--with-symbol-versions", library],
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    found = {}
    for line in out.splitlines():
        symbol = line.split()[-1]
        name, _, version = symbol.partition("@")
        if line.split()[-2] != "A":  # skips the nodes themselves
            found[name] = version.lstrip("@")
    return found


def version(part: str) -> int:
    """Returns COGRAD_ABI_MAJOR or COGRAD_ABI_MINOR."""
    found = re.search(rf"#define COGRAD_ABI_{part} (\d+)", HEADER.read_text())
    assert found is not None
    return int(found.group(1))


def major() -> int:
    """Returns COGRAD_ABI_MAJOR."""
    return version("MAJOR")


def describe() -> list[str]:
    """Returns the lines of the baseline for the current header."""
    lines = [f"function {name}: {text}" for name, text in sorted(prototypes().items())]
    lines += [f"type {name}: {text}" for name, text in sorted(callbacks().items())]
    return lines + probe()


def key(line: str) -> str:
    """Returns the name that a line of the baseline describes."""
    return " ".join(line.split(":")[0].split()[:2])


def compare(old: list[str], new: list[str]) -> tuple[list[str], list[str]]:
    """Returns the lines that are missing or changed, and the new ones."""
    before, now = {key(x): x for x in old}, {key(x): x for x in new}
    broken = []
    for k, line in before.items():
        if k not in now:
            broken.append(f"gone: {line}")
        elif now[k] != line and not (k.startswith("struct") and grown(line, now[k])):
            broken.append(f"changed: {line}\n     to: {now[k]}")
    return broken, [line for k, line in now.items() if k not in before]


def check_minor(released: list[str], now: list[str], minor: int) -> list[str]:
    """Returns the error in the minor version; `released` begins with that of the last release."""
    head, *old = released
    last = int(head.removeprefix("minor "))
    broken, added = compare(old, now)
    longer = {key(x): x for x in old}
    added += [x for x in now if longer.get(key(x), x) != x]
    expected = last + bool(added)
    if broken or minor == expected:
        return broken
    told = [f"COGRAD_ABI_MINOR is {minor}, expected {expected}: the last release has {last}"]
    return told + [f"newer than the release: {line}" for line in added]


def grown(old: str, new: str) -> bool:
    """Returns True if a struct that contains its size only became longer."""
    a, b = (re.fullmatch(r"struct (\w+) size (\d+)", x) for x in (old, new))
    return bool(a and b and int(b[2]) > int(a[2]) and "struct_size" in structs()[b[1]])


def check_symbols(library: Path) -> list[str]:
    """Returns the errors in the library's dynamic symbols."""
    wrong = []
    node = f"COGRAD_{major()}"
    symbols = exported(library)
    for name in prototypes():
        if symbols.get(name) != node:
            state = "is not exported" if name not in symbols else f"has {symbols[name] or 'none'}"
            wrong.append(f"{name}: {state}, expected version {node}")
    for name, version in symbols.items():
        if version == node and name not in prototypes():
            wrong.append(f"{name}: exported as {node}, but not in a header")
        elif version not in (node, PRIVATE):
            wrong.append(f"{name}: exported with version '{version}', expected {node} or {PRIVATE}")
    return wrong


def abidiff(reference: Path, library: Path) -> list[str]:
    """Returns the removals and changes of public symbols that libabigail finds.

    Private symbols may change, so they are left out. Types are also compared if both libraries
    have debug information.
    """
    with tempfile.TemporaryDirectory() as folder:
        private = Path(folder) / "private.abignore"
        kinds = ("suppress_function", "suppress_variable")
        private.write_text("".join(f"[{k}]\nsymbol_version_regexp = ^{PRIVATE}$\n" for k in kinds))
        command = ["abidiff", "--no-added-syms", "--suppressions", private, reference, library]
        done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode == 0:
        return []
    # The two lowest bits say that abidiff itself failed, the next two that something changed.
    told = "abidiff failed" if done.returncode & 3 else "abidiff"
    return [f"{told}: {line}" for line in (done.stdout + done.stderr).splitlines() if line.strip()]


def installed_library() -> Path:
    """Returns the libcograd.so of the installed build."""
    from cograd.utils import cpp_extension

    return Path(cpp_extension.library_paths()[0]) / "libcograd.so"


def main() -> int:
    """Compares, or writes the baseline."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--update", action="store_true", help="write the baseline")
    parser.add_argument("--release", action="store_true", help="keep the list of this release")
    parser.add_argument(
        "--library", type=Path, help="libcograd.so; default: that of the installed build"
    )
    parser.add_argument("--baseline", type=Path, default=ROOT / "abi" / f"cograd-{major()}.symbols")
    parser.add_argument("--reference", type=Path, help="an older libcograd.so, for abidiff")
    args = parser.parse_args()
    library = args.library or installed_library()
    now = describe()
    wrong = check_symbols(library)
    if args.update:
        args.baseline.write_text("\n".join(now) + "\n")
        print(f"wrote {args.baseline.name}")
    else:
        broken, added = compare(args.baseline.read_text().splitlines(), now)
        wrong += broken
        if added:
            wrong.append("not in the baseline, run tools/abi_check.py --update:")
            wrong += added
    kept = ROOT / "abi" / f"cograd-{major()}.released"
    if args.release:
        kept.write_text("\n".join([f"minor {version('MINOR')}", *now]) + "\n")
        print(f"wrote {kept.name}")
    elif kept.exists():
        wrong += check_minor(kept.read_text().splitlines(), now, version("MINOR"))
    if args.reference and shutil.which("abidiff"):
        wrong += abidiff(args.reference, library)
    elif args.reference:
        print("abi: abidiff is not installed, so the reference was not compared")
    for line in wrong:
        print(f"abi: {line}")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
