# SPDX-License-Identifier: BSD-3-Clause
"""Explains names that a module does not have: suggests a near name, or says why it is absent."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any, NoReturn

from cograd._base.docs import see

__all__ = ["Unknown", "about", "by_from", "explain", "missing", "refused", "reporter"]

_PAGE = "coming_from_torch"
_PAGES = ("fx", "sparse")  # topics with a page of their own

_PRIVATE = "it is a private name of torch's that cograd does not have"


@functools.cache
def _table() -> dict[str, dict[str, str]]:
    """Returns a dict from module to name to topic."""
    from cograd._base.absent_names import NAMES

    return {
        module: {name: topic for topic, names in topics.items() for name in names.split()}
        for module, topics in NAMES.items()
    }


def explain(module: str, name: str) -> str | None:
    """Explains why ``name`` is absent from ``module`` ("" for the root) and what to use instead."""
    from cograd._base.absent_names import INSTEAD, WHOLE

    path = f"{module}.{name}" if module else name
    if path in INSTEAD:
        return f"use {INSTEAD[path]} (see {see(_PAGE)})"
    topic = _table().get(module, {}).get(name) or WHOLE.get(module)
    if topic is None and module:  # the whole namespace may be absent
        parts = path.split(".")
        for n in range(len(parts) - 1, 0, -1):
            topic = topic or _table().get(".".join(parts[: n - 1]), {}).get(parts[n - 1])
    if topic is None:
        return None
    return about(topic)


def about(topic: str) -> str:
    """Returns what a program is told about the names of a topic."""
    from cograd._base.absent_names import TOPICS

    return f"{TOPICS[topic]} (see {see(topic) if topic in _PAGES else see(_PAGE, topic)})"


def _near(names: Any, name: str) -> str:
    import difflib

    public = [n for n in names if not n.startswith("_")]
    lower = [n for n in public if n.lower() == name.lower()]
    found = lower or difflib.get_close_matches(name, public, n=3, cutoff=0.75)
    return ", ".join(repr(n) for n in found)


class Unknown(AttributeError):  # noqa: N818
    """AttributeError that finds near names only when printed: ``hasattr`` raises most of them."""

    __module__ = "builtins"
    __qualname__ = "AttributeError"

    def __str__(self) -> str:
        near = _near(dir(self.obj), self.name or "")
        return f"{self.args[0]}; did you mean {near}?" if near else str(self.args[0])

    def __reduce__(self) -> Any:
        return AttributeError, (str(self),), {"name": self.name}


Unknown.__name__ = "AttributeError"


def by_from(frame: Any) -> bool:
    """True if ``frame`` runs ``from module import name``."""
    from opcode import opmap

    code: bytes = frame.f_code.co_code
    at: int = frame.f_lasti
    return at >= 0 and code[at] == opmap["IMPORT_FROM"]


def _asked_by_from() -> bool:
    """True if an import asks for the name: its own error would drop the explanation."""
    frame: Any = sys._getframe(2)
    while frame is not None and frame.f_code.co_name in ("__getattr__", "_absent_of_c"):
        frame = frame.f_back  # None if C called the first function of a thread
    return frame is not None and by_from(frame)


def missing(module: str, name: str) -> AttributeError | ImportError:
    """Returns the exception that a module's ``__getattr__`` must raise for ``name``."""
    text = f"module {module!r} has no attribute {name!r}"
    if name.startswith("__"):
        return AttributeError(text, name=name)
    reason = explain(module.partition(".")[2], name)
    if reason is not None:
        text += f": {reason}"
    elif name.startswith("_"):
        if _asked_by_from():
            text = f"cannot import name {name!r} from {module!r}: {_PRIVATE} (see {see(_PAGE)})"
            return ImportError(text, name=module)
        return AttributeError(text, name=name)
    unknown = Unknown(text, name=name, obj=sys.modules.get(module))
    if _asked_by_from():
        said = f"{unknown}; what is absent: {see(_PAGE)}" if reason is None else text
        return ImportError(said, name=module)
    return unknown if reason is None else AttributeError(text, name=name, obj=unknown.obj)


def refused(what: str, topic: str) -> NotImplementedError:
    """Returns the exception for something that exists only so that programs can name it."""
    return NotImplementedError(f"{what}: {about(topic)}")


def reporter(module: str) -> Callable[[str], NoReturn]:
    """Returns a ``__getattr__`` for ``module``."""

    def __getattr__(name: str) -> NoReturn:  # noqa: N807
        raise missing(module, name)

    return __getattr__
