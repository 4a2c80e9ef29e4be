# SPDX-License-Identifier: BSD-3-Clause
"""Edges of the recorded graph, tensor versions, and callbacks during or after a backward."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from cograd import _C
from cograd._C import Node, Tensor
from cograd._handles import RemovableHandle

__all__ = [
    "GradientEdge",
    "InputMetadata",
    "get_gradient_edge",
    "increment_version",
    "queue_callback",
    "register_multi_grad_hook",
]


class GradientEdge(NamedTuple):
    """The destination of a tensor's gradient: output ``output_nr`` of ``node``.

    The edge owns its node, and through it the graph below and, for a leaf, the leaf.
    """

    node: Node
    output_nr: int
    ownership_token: Node | None = None


class InputMetadata(NamedTuple):
    """The properties that a node expects of one gradient it receives: dtype, shape and device.

    ``is_nested_tensor`` and ``is_cpp_nested_tensor`` are False: there are no nested tensors.
    """

    dtype: Any
    shape: tuple[int, ...]
    device: Any
    is_nested_tensor: bool = False
    is_cpp_nested_tensor: bool = False


def get_gradient_edge(tensor: Tensor) -> GradientEdge:
    """Returns the edge of ``tensor``, to its grad_fn, or to the accumulator if it is a leaf.

    Raises:
        RuntimeError: the tensor does not require grad.
        AttributeError: ``tensor`` is not a tensor.
    """
    if not tensor.requires_grad:
        raise RuntimeError(
            "It is not possible to get the gradient edge for a Tensor that does not require "
            "gradients"
        )
    return GradientEdge(*_C._gradient_edge(tensor))


def increment_version(tensor: Tensor | Iterable[Tensor]) -> None:
    """Counts one in-place write of ``tensor`` (or of each) that the engine could not see.

    Ignores inference tensors, which have no version.

    Raises:
        TypeError: ``tensor`` is neither a tensor nor an iterable of tensors.
    """
    if not isinstance(tensor, (Tensor, Iterable)):
        raise TypeError(
            "increment_version(): expected a Tensor or an iterable of Tensors, got "
            f"{type(tensor).__name__}"
        )
    for t in [tensor] if isinstance(tensor, Tensor) else tensor:
        if not isinstance(t, Tensor):
            raise TypeError(f"increment_version(): expected Tensors, got {type(t).__name__}")
        if not t.is_inference():
            _C._increment_version(t)


def queue_callback(callback: Callable[[], Any]) -> None:
    """Calls ``callback()`` when the backward that is running on this thread has ended.

    Callbacks run in the order they were queued, after all gradients are accumulated; one may queue
    another. ``backward()`` propagates their exceptions.

    Raises:
        RuntimeError: no backward is running on this thread.
        TypeError: ``callback`` is not callable.
    """
    if not callable(callback):
        raise TypeError(f"queue_callback(): expected a callable, got {type(callback).__name__}")
    _C._queue_callback(callback)


class _MultiHandle(RemovableHandle):
    """Removes the hooks of one ``register_multi_grad_hook``."""

    def __init__(self, handles: Iterable[RemovableHandle]) -> None:
        super().__init__({})
        self.handles = tuple(handles)

    def remove(self) -> None:
        """Removes all of them; a second call does nothing."""
        for handle in self.handles:
            handle.remove()

    def __getstate__(self) -> Any:
        return self.handles

    def __setstate__(self, state: Any) -> None:
        self.handles = state


class _Collected:
    """The gradients of one backward that a multi-grad hook has seen so far."""

    def __init__(self, count: int, awaited: int) -> None:
        self.grads: list[Tensor | None] = [None] * count
        self.awaited = awaited
        self.fired = False


def _all_hook(
    tensors: Sequence[Tensor], fn: Callable[[Sequence[Tensor | None]], None]
) -> list[RemovableHandle]:
    lock = threading.Lock()
    runs: dict[int, _Collected] = {}
    nodes = [get_gradient_edge(t).node for t in tensors]

    def fire(run: int, state: _Collected) -> None:
        with lock:
            if state.fired:
                return
            state.fired = True
            runs.pop(run, None)
        fn(state.grads)

    def hook_for(index: int) -> Callable[[Tensor | None], None]:
        def hook(grad: Tensor | None) -> None:
            run = _C._current_graph_task_id()
            with lock:
                state = runs.get(run)
                if state is None:
                    awaited = sum(map(_C._will_engine_execute_node, nodes))
                    state = runs[run] = _Collected(len(nodes), awaited)
                state.grads[index] = grad
                state.awaited -= 1
                complete = state.awaited == 0
            if complete:
                fire(run, state)

        return hook

    return [t.register_hook(hook_for(i)) for i, t in enumerate(tensors)]


def _any_hook(tensors: Sequence[Tensor], fn: Callable[[Tensor], None]) -> list[RemovableHandle]:
    lock = threading.Lock()
    seen: list[int] = [-1]

    def hook(grad: Tensor) -> None:
        run = _C._current_graph_task_id()
        with lock:
            if run in seen:
                return
            seen.append(run)
            del seen[:-64]  # only recent runs can still be in progress
        fn(grad)

    return [t.register_hook(hook) for t in tensors]


def register_multi_grad_hook(
    tensors: Sequence[Tensor],
    fn: Callable[[Any], None],
    *,
    mode: str = "all",
) -> RemovableHandle:
    """Calls ``fn`` once per backward that reaches some of ``tensors``.

    Args:
        tensors: each must require grad.
        fn: with ``mode="all"`` it is called with the list of their gradients, None for those this
            backward does not compute, when the last of them is known; with ``mode="any"`` with the
            first gradient that is known.
        mode: "all" or "any".

    Returns:
        a handle that removes the hook.

    Raises:
        ValueError: ``mode`` is unknown.
        RuntimeError: a tensor does not require grad.
    """
    if mode not in ("all", "any"):
        raise ValueError(f"Expects mode to be one of ('all', 'any') but got {mode}")
    tensors = tuple(tensors)
    for index, tensor in enumerate(tensors):
        if not tensor.requires_grad:
            raise RuntimeError(
                f"register_multi_grad_hook(): tensor {index} does not require grad: it has no "
                "gradient to wait for"
            )
    return _MultiHandle(_all_hook(tensors, fn) if mode == "all" else _any_hook(tensors, fn))
