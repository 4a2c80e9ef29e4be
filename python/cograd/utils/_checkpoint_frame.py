# SPDX-License-Identifier: BSD-3-Clause
"""State of non-re-entrant checkpoints: placeholders for saved tensors, and their recomputation."""

from __future__ import annotations

import itertools
import threading
import traceback
import weakref
from collections.abc import Callable
from typing import Any

import cograd
from cograd import _C, Tensor

ContextFn = Callable[[], tuple[Any, Any]]

_TIP = (
    "\n\nTip: pass `debug=True` to cograd.utils.checkpoint.checkpoint(...), or use `with "
    "cograd.utils.checkpoint.set_checkpoint_debug_enabled(True):`, to see where each tensor was "
    "saved in the forward and in the recomputation."
)


class CheckpointError(RuntimeError):
    """Raised if a checkpoint's recomputation differs from its forward."""


class StopRecomputation(Exception):  # noqa: N818
    """Ends a recomputation when all saved tensors are recomputed."""


class _Active(threading.local):
    """The checkpoints whose forward or recomputation runs on this thread; innermost last."""

    def __init__(self) -> None:
        self.forwards: list[Frame] = []
        self.refills: list[Callable[[Tensor], list[Tensor]]] = []


active = _Active()


class Holder:
    """The placeholder that the graph stores instead of a saved tensor.

    Attributes:
        values: for each run the recomputed tensor with its version when it was saved; None once it
            has been unpacked.
        kept: the same for a later backward, or None.
    """

    __slots__ = ("__weakref__", "kept", "values")

    def __init__(self) -> None:
        self.values: dict[int, tuple[Tensor, int] | None] = {}
        self.kept: tuple[Tensor, int] | None = None


def metadata(tensor: Tensor) -> tuple[Any, ...]:
    """Returns the properties in which a recomputed tensor must equal the original."""
    return tensor.shape, tensor.dtype, tensor.device


def _described(properties: tuple[Any, ...]) -> dict[str, Any]:
    return dict(zip(("shape", "dtype", "device"), properties, strict=True))


def _where() -> str:
    """Returns the user's lines of the current stack, innermost last."""
    frames = [
        f"{frame.filename}:{frame.lineno} in {frame.name}: {frame.line}"
        for frame in traceback.extract_stack()
        if "cograd/utils/" not in frame.filename.replace("\\", "/")
    ]
    return "\n    ".join(frames[-4:])


class Frame:
    """One call of a checkpointed function.

    Args:
        recompute: called with the input saver's tensors and arguments; runs the function again.
        early_stop: end a recomputation as soon as the last tensor has been saved.
        compare: returns the properties of a tensor that the determinism check compares; None
            disables the check.
        debug: record where each tensor was saved.
    """

    def __init__(
        self,
        recompute: Callable[..., Any],
        early_stop: bool,
        compare: Callable[[Tensor], Any] | None,
        debug: bool,
    ) -> None:
        self.recompute = recompute
        self.early_stop = early_stop
        self.compare = compare
        self.debug = debug
        self.input_saver: Any = None
        self.transforms = _C._open_transforms()
        self.batched = _C._vmap_depth() > 0
        self.holders: list[weakref.ref[Holder]] = []
        self.metadata: list[Any] = []
        self.places: list[str] = []
        self.recomputed_places: list[str] = []
        self.counter: dict[int, int] = {}  # tensors that each run has saved so far
        self.is_recomputed: set[int] = set()  # runs
        self.forward_completed = False
        self.ignore_mismatch = False
        self.packed: list[Tensor] | None = None  # saved by one op, for _selective

    def check(self, run: int) -> None:
        """Raises CheckpointError if the recomputation saved other tensors than the forward."""
        if self.ignore_mismatch:
            return
        saved, again = len(self.holders), self.counter.get(run, 0)
        if saved != again:
            raise CheckpointError(
                "checkpoint: A different number of tensors was saved during the original forward "
                f"and recomputation.\nNumber of tensors saved during forward: {saved}\nNumber of "
                f"tensors saved during recomputation: {again}." + self._explanation()
            )
        if self.compare is None:
            return
        different = ""
        for index, reference in enumerate(self.holders):
            holder = reference()
            value = None if holder is None else holder.values.get(run)
            if value is None:
                continue
            new = self.compare(value[0])
            if new != self.metadata[index]:
                different += (
                    f"tensor at position {index}:\nsaved metadata: "
                    f"{_described(self.metadata[index])}\nrecomputed metadata: {_described(new)}\n"
                )
        if different:
            raise CheckpointError(
                "checkpoint: Recomputed values for the following tensors have different metadata "
                f"than during the forward pass.\n{different}" + self._explanation()
            )

    def too_many(self) -> CheckpointError:
        """Returns the error for a recomputation that saves more tensors than the forward."""
        return CheckpointError(
            "checkpoint: trying to save more tensors during recomputation than during the original "
            "forward pass." + self._explanation()
        )

    def _explanation(self) -> str:
        if not self.debug:
            return _TIP
        lines = ["\n"]
        for title, places in (
            ("original forward", self.places),
            ("recomputation", self.recomputed_places),
        ):
            lines.append(f"Tensors saved during the {title}:")
            lines += [f"  {i}: {place}" for i, place in enumerate(places)] or ["  none"]
        return "\n".join(lines)


def pack_hook(frame: Frame) -> Callable[[Tensor], Holder]:
    """Returns a pack hook that replaces each tensor saved in the forward by a holder."""

    def pack(tensor: Tensor) -> Holder:
        if frame.packed is not None:
            frame.packed.append(tensor.detach())
        holder = Holder()
        frame.holders.append(weakref.ref(holder))
        if frame.compare is not None:
            frame.metadata.append(frame.compare(tensor))
        if frame.debug:
            frame.places.append(f"{tuple(tensor.shape)} {tensor.dtype}\n    {_where()}")
        return holder

    return pack


_outside_backward = itertools.count(-2, -1)


def unpack_hook(frame: Frame) -> Callable[[Holder], Tensor]:
    """Returns an unpack hook for holders; its first call in a backward runs the function again."""

    def unpack(holder: Holder) -> Tensor:
        run = _C._current_graph_task_id()
        if run == -1:  # read outside of a backward: results must not be reused by a later read
            run = next(_outside_backward)
        elif holder.kept is not None:
            return _unchanged(*holder.kept)
        if run not in frame.is_recomputed:
            _recompute(frame, run)
        if run not in holder.values:
            raise CheckpointError(
                "checkpoint: a saved tensor was not recomputed: the function saved fewer tensors "
                "than in its forward." + _TIP
            )
        value = holder.values[run]
        if value is None:
            raise CheckpointError(
                "checkpoint: Unpack is being triggered for a tensor that was already unpacked "
                "once. If you are calling ctx.saved_tensors in backward, make sure to do so only "
                "once."
            )
        holder.values[run] = None
        return _unchanged(*value)

    return unpack


def _unchanged(tensor: Tensor, version: int) -> Tensor:
    """Returns a recomputed tensor; raises if it was written after it had been saved."""
    if tensor._version != version:
        raise RuntimeError(
            "one of the variables needed for gradient computation has been modified by an "
            f"inplace operation: a [cograd.{tensor.type().split('.')[-1]} "
            f"{list(tensor.shape)}] that an op inside a checkpoint saved is at version "
            f"{tensor._version} after the recomputation; expected version "
            f"{version} instead. Hint: write into a copy (.clone()), or do the in-place "
            "operation before the tensor is used."
        )
    return tensor


def _recompute(frame: Frame, run: int) -> None:
    saver = frame.input_saver.grad_fn
    args = saver.arguments(saver.saved_tensors)
    refill = _refilling(frame, run)
    depth = len(active.refills)
    # The hooks' exit is in C++, because an interrupt in a Python exit would leave them on.
    try:
        active.refills.append(refill)
        hooks = cograd.autograd.graph.saved_tensors_hooks(refill, lambda box: box[0])
        # Restores the forward's transforms: the backward may run inside others.
        transforms = _C._transforms_as(frame.transforms)
        with transforms, hooks, cograd.enable_grad():
            frame.recompute(*args)
    except StopRecomputation:
        pass
    finally:
        _C._stop_after_op(None)
        del active.refills[depth:]
    frame.is_recomputed.add(run)
    frame.check(run)


def _refill(frame: Frame, run: int, keep: bool, tensor: Tensor) -> Tensor:
    """Packs ``tensor`` during a recomputation: assigns it to the next holder."""
    value = tensor.detach() if tensor.requires_grad else tensor
    index = frame.counter.get(run, 0)
    frame.counter[run] = index + 1
    if frame.debug:
        if index == 0:
            frame.recomputed_places.clear()
        place = f"{tuple(tensor.shape)} {tensor.dtype}\n    {_where()}"
        frame.recomputed_places.append(place)
    if index >= len(frame.holders):
        if not frame.forward_completed:  # a backward inside the forward: more tensors will be saved
            frame.ignore_mismatch = True
            return value
        if frame.early_stop:  # the stop below was lost in a nested recomputation
            raise StopRecomputation
        raise frame.too_many()
    holder = frame.holders[index]()
    if holder is not None:
        holder.values[run] = (value, value._version)
        if keep:
            holder.kept = holder.values[run]
    if frame.early_stop and index + 1 == len(frame.holders):
        _C._stop_after_op(StopRecomputation())
    return value


def _refilling(frame: Frame, run: int) -> Callable[[Tensor], list[Tensor]]:
    """Returns the pack hook that assigns the tensors that ops save to the holders of ``frame``."""
    target = weakref.ref(frame)
    # A backward that records a graph is followed by another, when the batches may have ended.
    keep = frame.batched and run >= 0 and cograd.is_grad_enabled()

    def refill(tensor: Tensor) -> list[Tensor]:
        alive = target()
        assert alive is not None
        return [_refill(alive, run, keep, tensor)]  # a list, which outer hooks do not pack

    return refill
