# SPDX-License-Identifier: BSD-3-Clause
"""The commands of ``python -m cograd``.

A command is a module here with ``main(arguments) -> int``, imported when it is called, and a row
of ``COMMANDS``. The module of a command with a hyphen has an underscore there.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib import import_module

__all__ = ["COMMANDS", "main"]

# Command name -> its description in the help.
COMMANDS = {
    "config": "print how this cograd was built and what it found here",
    "docs": "print the reference of a name, or the pages about a word",
    "doctor": "say what is wrong with this installation; exit status 1 if something is",
    "new-extension": "write a small package with an op in C++ or C, with a test and a build",
    "run": "run a program that imports torch, with cograd in its place",
    "torchrun": "start the ranks of a program by MPI's launcher, with torchrun's options",
}


def _usage() -> str:
    width = max(map(len, COMMANDS))
    lines = [f"  {name:{width}}  {text}" for name, text in COMMANDS.items()]
    head = "usage: python -m cograd COMMAND ...\n       python -m cograd --version"
    return "\n".join([head, "", *lines])


def module_name(command: str) -> str:
    """Returns the name of the module of a command."""
    return f"cograd.commands.{command.replace('-', '_')}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command that the first argument names with the other arguments.

    Args:
        arguments: the arguments after ``python -m cograd``; default: ``sys.argv[1:]``.

    Returns:
        The exit status of the command; 2 if there is no such command.
    """
    given = list(sys.argv[1:] if arguments is None else arguments)
    if given and given[0] in ("-h", "--help"):
        print(_usage())
        return 0
    if given and given[0] in ("-V", "--version"):
        from cograd import __version__

        print(f"cograd {__version__}")
        return 0
    if not given or given[0] not in COMMANDS:
        if given:
            print(f"python -m cograd: no command {given[0]!r}\n", file=sys.stderr)
        print(_usage(), file=sys.stderr)
        return 2
    command = import_module(module_name(given[0]))
    try:
        status = int(command.main(given[1:]))
        sys.stdout.flush()
        return status
    except BrokenPipeError:  # `... | head` closed the pipe
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
