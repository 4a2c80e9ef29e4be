# SPDX-License-Identifier: BSD-3-Clause
"""Metadata that nodes get while they are made, such as the place in the program."""

from __future__ import annotations

import copy
import functools
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

__all__ = [
    "annotate",
    "annotate_fn",
    "format_stack",
    "get_current_meta",
    "has_preserved_node_meta",
    "preserve_node_meta",
    "reset_grad_fn_seq_nr",
    "set_current_meta",
    "set_grad_fn_seq_nr",
    "set_stack_trace",
]

current_meta: dict[str, Any] = {}
_State = type("_State", (), {"preserve": False})


@contextmanager
def preserve_node_meta(enable: bool = True) -> Iterator[None]:
    """Lets nodes that are made inherit the metadata of the node that an Interpreter runs."""
    before, meta = _State.preserve, dict(current_meta)  # type: ignore[attr-defined]
    _State.preserve = enable  # type: ignore[attr-defined]
    try:
        yield
    finally:
        _State.preserve = before  # type: ignore[attr-defined]
        current_meta.clear()
        current_meta.update(meta)


def has_preserved_node_meta() -> bool:
    """Returns whether ``preserve_node_meta`` is active."""
    return bool(_State.preserve)  # type: ignore[attr-defined]


def set_stack_trace(stack: list[str]) -> None:
    """Sets the stack trace that nodes get, under ``preserve_node_meta``."""
    if has_preserved_node_meta() and stack:
        current_meta["stack_trace"] = "".join(stack)


@contextmanager
def annotate(annotation_dict: dict[str, Any]) -> Iterator[None]:
    """Adds entries to ``meta["custom"]`` of the nodes that are made in the block."""
    before = current_meta.get("custom")
    current_meta["custom"] = {**(before or {}), **annotation_dict}
    try:
        yield
    finally:
        if before is None:
            current_meta.pop("custom", None)
        else:
            current_meta["custom"] = before


def annotate_fn(annotation_dict: dict[str, Any]) -> Callable[[Any], Any]:
    """Returns a decorator that runs a function in ``annotate(annotation_dict)``."""

    def decorate(function: Any) -> Any:
        @functools.wraps(function)
        def annotated(*args: Any, **kwargs: Any) -> Any:
            with annotate(annotation_dict):
                return function(*args, **kwargs)

        return annotated

    return decorate


def set_grad_fn_seq_nr(seq_nr: int) -> None:
    """Has no effect: nodes of autograd have no numbers that a trace could have."""


def reset_grad_fn_seq_nr() -> None:
    """Has no effect."""


def format_stack() -> list[str]:
    """Returns the present stack as text, or that of the node that an Interpreter runs."""
    if has_preserved_node_meta() and "stack_trace" in current_meta:
        return [current_meta["stack_trace"]]
    return traceback.format_list(traceback.extract_stack()[:-1])


@contextmanager
def set_current_meta(node: Any, pass_name: str = "") -> Iterator[None]:
    """Makes the metadata of ``node`` the present one, under ``preserve_node_meta``."""
    if not has_preserved_node_meta() or not node.meta:
        yield
        return
    before = dict(current_meta)
    current_meta.clear()
    current_meta.update(copy.copy(node.meta))
    try:
        yield
    finally:
        current_meta.clear()
        current_meta.update(before)


def get_current_meta() -> dict[str, Any]:
    """Returns the metadata that nodes get."""
    return current_meta
