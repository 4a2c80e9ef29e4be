# SPDX-License-Identifier: BSD-3-Clause
"""Finds the compilers, and identifies them without running them."""

from __future__ import annotations

import functools
import os
import shutil

from cograd.utils.cpp_extension._errors import CompilerNotFoundError

_DEFAULTS = {"c++": ("c++", "g++", "clang++"), "c": ("cc", "gcc", "clang")}
_VARIABLES = {"c++": "CXX", "c": "CC"}
_WRAPPERS = ("ccache", "sccache", "distcc", "icecc", "buildcache")
_PACKAGES = (
    (("debian", "ubuntu"), "apt-get install g++"),
    (("fedora", "rhel", "centos"), "dnf install gcc-c++"),
    (("alpine",), "apk add g++"),
    (("arch",), "pacman -S gcc"),
    (("suse", "opensuse"), "zypper install gcc-c++"),
)


def compiler_command(language: str = "c++") -> list[str]:
    """Returns the command that compiles "c++" or "c".

    CXX (for C: CC) is used if set, and may contain arguments too; otherwise the first of c++, g++
    and clang++ (cc, gcc, clang) on the PATH.

    Raises:
        CompilerNotFoundError: there is none, or CXX names a program that does not exist.
    """
    variable = _VARIABLES[language]
    given = os.environ.get(variable, "").strip()
    if given:
        words = [given] if os.path.isfile(given) else given.split()
        if len(words) > 1 and any(c in given for c in "'\"\\"):
            import shlex

            words = shlex.split(given)
        if shutil.which(words[0]) is None:
            raise CompilerNotFoundError(
                f"{variable}={given!r}: there is no program {words[0]!r}. Set {variable} to a "
                f"compiler, or unset it. {install_hint()}"
            )
        return words
    for name in _DEFAULTS[language]:
        if shutil.which(name):
            return [name]
    tried = ", ".join(_DEFAULTS[language])
    raise CompilerNotFoundError(
        f"no {language.upper()} compiler was found: {variable} is not set, and none of {tried} is "
        f"on the PATH. {install_hint()}"
    )


def install_hint() -> str:
    """Returns a sentence that names the package with a compiler on this system."""
    ids: list[str] = []
    try:
        with open("/etc/os-release", encoding="utf-8") as file:
            for line in file:
                key, _, value = line.strip().partition("=")
                if key in ("ID", "ID_LIKE"):
                    ids += value.strip("\"'").lower().split()
    except OSError:
        pass
    mine = [command for names, command in _PACKAGES if any(n in i for n in names for i in ids)]
    commands = mine[:1] or [command for _, command in _PACKAGES[:3]]
    return (
        f"Install one with: {' or '.join(commands)} (as root), or "
        "conda install -c conda-forge cxx-compiler. "
        "`python -m cograd.utils.cpp_extension doctor` checks the result."
    )


def _resolve(program: str) -> list[str]:
    """Returns the files of a program: itself, and the compiler that a wrapper link runs."""
    path = shutil.which(program)
    if path is None:
        return []
    real = os.path.realpath(path)
    files = [real]
    if os.path.basename(real) in _WRAPPERS and os.path.basename(program) not in _WRAPPERS:
        rest = [
            d
            for d in os.environ.get("PATH", "").split(os.pathsep)
            if d and os.path.realpath(os.path.join(d, os.path.basename(program))) != real
        ]
        behind = shutil.which(os.path.basename(program), path=os.pathsep.join(rest))
        if behind:
            files.append(os.path.realpath(behind))
    return files


def identity(command: list[str]) -> str:
    """Returns a text that changes when another compiler, or another version of it, would run.

    It contains size and time of the command's files; nothing is executed.
    """
    parts: list[str] = []
    for i, word in enumerate(command):
        wrapped = i > 0 and os.path.basename(command[i - 1]) in _WRAPPERS
        if i == 0 or wrapped:
            for file in _resolve(word):
                status = os.stat(file)
                parts.append(f"{file}:{status.st_size}:{status.st_mtime_ns}")
        else:
            parts.append(word)
    return "|".join(parts)


def identities(languages: tuple[str, ...]) -> str | None:
    """Returns the joined identity of the compilers for `languages`, None if one is missing."""
    try:
        return "||".join(identity(compiler_command(language)) for language in languages)
    except (CompilerNotFoundError, OSError):
        return None


@functools.cache
def _output(*command: str) -> str:
    import subprocess

    env = {**os.environ, "LC_ALL": "C"}
    try:
        result = subprocess.run(
            command, capture_output=True, text=True, timeout=60, env=env, check=False
        )
    except OSError:
        return ""
    return result.stdout.strip() if result.returncode == 0 else ""


def version_line(command: list[str]) -> str:
    """Returns the first line of the compiler's version output; "" if it cannot be run."""
    return (_output(*command, "--version").splitlines() or [""])[0]


def runtime_library(command: list[str], name: str) -> str | None:
    """Returns the path of one of the compiler's own libraries, such as `libasan.so`."""
    path = _output(*command, f"-print-file-name={name}")
    if not os.path.isabs(path) or not os.path.exists(path):
        return None
    if os.path.getsize(path) < 4096:  # a linker script, not the library
        with open(path, encoding="utf-8", errors="replace") as file:
            words = file.read().replace("(", " ").replace(")", " ").split()
        found = [w for w in words if os.path.isabs(w) and os.path.exists(w)]
        return found[0] if found else None
    return os.path.realpath(path)


def is_gcc(compiler: str) -> bool:
    """True if a compiler is GCC, not a clang that mentions GCC for compatibility."""
    text = _output(*compiler.split(), "--version")
    return "Free Software Foundation" in text and "clang" not in text.lower()
