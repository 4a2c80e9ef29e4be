# SPDX-License-Identifier: BSD-3-Clause
"""What programs ask of TorchScript: decorators return what they decorate, scripting never happens.

Tracing, saving and loading scripts are not offered; the name says what to do instead.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeVar

import cograd
from cograd import _absent

__all__ = [
    "Attribute",
    "Final",
    "ScriptFunction",
    "ScriptModule",
    "annotate",
    "export",
    "fork",
    "ignore",
    "interface",
    "is_scripting",
    "is_tracing",
    "isinstance",
    "script",
    "script_if_tracing",
    "script_method",
    "unused",
    "wait",
]

_T = TypeVar("_T")


class ScriptModule:
    """What a scripted module would be an instance of: nothing is."""

    def __init__(self) -> None:
        raise _absent.refused("jit.ScriptModule", "jit")


class ScriptFunction:
    """What a scripted function would be an instance of: nothing is."""

    def __init__(self) -> None:
        raise _absent.refused("jit.ScriptFunction", "jit")


def script(obj: _T, optimize: Any = None, **options: Any) -> _T:
    """Returns ``obj``, a module, class or function: it runs as Python."""
    return obj


def script_method(fn: _T) -> _T:
    """Returns ``fn``."""
    return fn


def script_if_tracing(fn: _T) -> _T:
    """Returns ``fn``."""
    return fn


def export(fn: _T) -> _T:
    """Returns ``fn``."""
    return fn


def interface(obj: _T) -> _T:
    """Returns ``obj``."""
    return obj


def unused(fn: _T) -> _T:
    """Returns ``fn``."""
    return fn


def ignore(drop: Any = False, **options: Any) -> Any:
    """Returns what it decorates, with or without arguments."""
    return drop if callable(drop) else (lambda fn: fn)


def is_scripting() -> bool:
    """Always False."""
    return False


def is_tracing() -> bool:
    """Always False."""
    return False


def fork(func: Any, *args: Any, **kwargs: Any) -> Any:
    """A future of what ``func(*args, **kwargs)`` returns, which is called at once."""
    future: Any = cograd.Future()
    future.set_result(func(*args, **kwargs))
    return future


def wait(future: Any) -> Any:
    """What the function given to ``fork`` returned."""
    return future.wait()


_script_if_tracing = script_if_tracing


def _overload(fn: _T) -> _T:
    """Returns ``fn``: a declaration, which a definition of the name follows."""
    return fn


_overload_method = _overload


def annotate(the_type: Any, the_value: _T) -> _T:
    """Returns ``the_value``."""
    return the_value


def Attribute(value: _T, type: Any) -> _T:
    """Returns ``value``."""
    return value


def isinstance(obj: Any, target_type: Any) -> bool:
    """Whether ``obj`` is of ``target_type``, whose parameters (``List[int]``) are not looked at."""
    from builtins import isinstance as plain
    from typing import get_origin

    types = target_type if plain(target_type, tuple) else (target_type,)
    origins: list[Any] = [get_origin(t) for t in types]
    return any(plain(obj, t if o is None else o) for t, o in zip(types, origins, strict=True))


if not TYPE_CHECKING:  # which would take it for an answer to every name

    def __getattr__(name: str) -> Any:
        raise _absent.missing(__name__, name)
