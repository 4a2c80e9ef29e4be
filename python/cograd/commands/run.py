# SPDX-License-Identifier: BSD-3-Clause
"""``python -m cograd run script.py args ...``: runs a program that imports torch on cograd.

The interpreter is started again in this process, as ``python script.py args ...``, with a
directory first in PYTHONPATH in which ``torch`` is cograd. So everything except torch is
unchanged: tracebacks, ``__main__`` and pickles of its objects, ``sys.argv``, ``sys.path[0]``,
child processes.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from cograd._alias import children_environment
from cograd._launcher import rank_variables

__all__ = ["main"]

_USAGE = """usage: python -m cograd run script.py [args ...]
       python -m cograd run -m package [args ...]
       python -m cograd run -c command [args ...]

`import torch` in the program, and in processes that it starts, gives cograd."""


def main(arguments: Sequence[str]) -> int:
    """Replaces this process by the program; returns only if there is none to run."""
    given = list(arguments)
    if not given or given[0] in ("-h", "--help") or given in (["-m"], ["-c"]):
        print(_USAGE, file=sys.stdout if given[:1] in (["-h"], ["--help"]) else sys.stderr)
        return 0 if given[:1] in (["-h"], ["--help"]) else 2
    if sys.flags.ignore_environment:
        print(
            "python -m cograd run: needs PYTHONPATH, which -E and -I switch off; leave them out, "
            "or call cograd.install_as_torch() in the program",
            file=sys.stderr,
        )
        return 2
    if given[0] not in ("-m", "-c", "-") and not os.path.exists(given[0]):
        print(f"python -m cograd run: can't open file {given[0]!r}", file=sys.stderr)
        return 2
    flags = _interpreter_options(sys.orig_argv)
    sys.stdout.flush()
    sys.stderr.flush()
    environment = children_environment({**rank_variables(os.environ), **os.environ})
    os.execve(sys.executable, [sys.executable, *flags, *given], environment)


def _interpreter_options(command: Sequence[str]) -> list[str]:
    """Returns the options of a Python command line before its ``-m``, ``-c`` or script."""
    options: list[str] = []
    rest = iter(command[1:])
    for word in rest:
        if not word.startswith("-") or word in ("-", "--"):
            break
        letters = "" if word.startswith("--") else word[1:]
        end = next((n for n, letter in enumerate(letters) if letter in "mcXW"), None)
        if end is not None and letters[end] in "mc":
            options += [f"-{letters[:end]}"] if end else []
            break
        options.append(word)
        if word == "--check-hash-based-pycs" or end == len(letters) - 1:  # next: its value
            options += [value for value in [next(rest, None)] if value is not None]
    return options
