# SPDX-License-Identifier: BSD-3-Clause
"""What can go wrong while an extension is built."""

from __future__ import annotations


class ExtensionError(RuntimeError):
    """Building an extension failed; a RuntimeError, and the base of the errors below."""


class CompilerNotFoundError(ExtensionError):
    """There is no compiler for one of the source files; set CC or CXX, or install one."""


class CompileError(ExtensionError):
    """The compiler or the linker refused the sources.

    Attributes:
        name: the extension's name.
        command: the command that failed, as a shell would take it.
        output: everything it printed.
        log: path of a file that holds the command and the output, or None.
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
