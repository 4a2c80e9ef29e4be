# SPDX-License-Identifier: BSD-3-Clause
"""The errors of building an extension."""

from __future__ import annotations


class ExtensionError(RuntimeError):
    """Raised if building an extension fails; a RuntimeError, and the base of the errors below."""


class CompilerNotFoundError(ExtensionError):
    """Raised if there is no compiler for a source file; set CC or CXX, or install one."""


class CompileError(ExtensionError):
    """Raised if the compiler or the linker rejects the sources.

    Attributes:
        name: the extension's name.
        command: the command that failed, in shell syntax.
        output: everything it printed.
        log: path of a file that contains the command and the output, or None.
    """

    def __init__(
        self,
        message: str,
        name: str = "",
        command: str = "",
        output: str = "",
        log: str | None = None,
    ) -> None:
        super().__init__(message)
        self.name = name
        self.command = command
        self.output = output
        self.log = log
