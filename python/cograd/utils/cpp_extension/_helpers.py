# SPDX-License-Identifier: BSD-3-Clause
"""Defines the functions of torch.utils.cpp_extension that ask about the compiler and ninja."""

from __future__ import annotations

import os
import shutil

from cograd.utils.cpp_extension import _compiler, _paths

MINIMUM_GCC = (10,)
MINIMUM_CLANG = (13,)


def get_cxx_compiler() -> str:
    """Returns the C++ compiler's command: CXX, or the first of c++, g++ and clang++ found.

    Raises:
        CompilerNotFoundError: there is none.
    """
    import shlex

    return shlex.join(_compiler.compiler_command())


def check_compiler_is_gcc(compiler: str) -> bool:
    """Returns whether a compiler is GCC, judging by its version output.

    Args:
        compiler: its command.
    """
    return _compiler.is_gcc(compiler)


def check_compiler_ok_for_platform(compiler: str) -> bool:
    """Returns whether a compiler can be used here: any that exists, since the ABI needs only C.

    Args:
        compiler: its command; the first word is looked up on the PATH.
    """
    return shutil.which(compiler.split()[0]) is not None if compiler.strip() else False


def compiler_version(compiler: str) -> tuple[int, ...]:
    """Returns a compiler's version, or () if it is unknown."""
    import re

    match = re.search(r"(\d+)\.(\d+)(?:\.(\d+))?", _compiler.version_line(compiler.split()))
    return tuple(int(g) for g in match.groups() if g) if match else ()


def get_compiler_abi_compatibility_and_version(compiler: str) -> tuple[bool, tuple[int, ...]]:
    """Returns whether a compiler is new enough for C++20, and its version.

    Binaries of any such compiler work with cograd, because its ABI consists of C functions.
    """
    if not check_compiler_ok_for_platform(compiler):
        return False, (0, 0, 0)
    version = compiler_version(compiler)
    minimum = MINIMUM_GCC if _compiler.is_gcc(compiler) else MINIMUM_CLANG
    return version >= minimum, version


def is_ninja_available() -> bool:
    """Returns whether ninja is on the PATH; cograd does not use it."""
    return shutil.which("ninja") is not None


def verify_ninja_availability() -> None:
    """Raises RuntimeError if ninja is not on the PATH, although cograd does not need it."""
    if not is_ninja_available():
        raise RuntimeError(
            "verify_ninja_availability(): ninja is not on the PATH; cograd builds extensions "
            "without it"
        )


def remove_extension_h_precompiler_headers() -> None:
    """Removes the precompiled headers from the cache of extensions, if any."""
    from cograd.utils.cpp_extension import _python_modules

    path = os.path.join(_paths.build_root(), _python_modules.FOLDER)
    shutil.rmtree(path, ignore_errors=True)
