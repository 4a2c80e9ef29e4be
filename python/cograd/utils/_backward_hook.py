# SPDX-License-Identifier: BSD-3-Clause
"""Identity nodes in the graph that run the full backward hooks of one call of a module."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from typing import Any

from cograd import _C
from cograd.autograd.function import Function

Tensor = _C.Tensor


_Zeros = Callable[[tuple[Any, ...]], tuple[Any, ...]]  # replaces None by zeros


def _as_tuple(value: Any) -> tuple[Any, ...]:
    return value if isinstance(value, tuple) else (value,)


def _replaced(what: str, grads: str, result: Any, old: tuple[Any, ...]) -> tuple[Any, ...]:
    """Returns the gradients after a hook returned ``result``; None keeps them."""
    if result is None:
        return old
    new = _as_tuple(result)
    if len(new) != len(old):
        raise RuntimeError(
            f"{what} hook returned an invalid number of {grads}, got {len(new)}, but expected "
            f"{len(old)}"
        )
    return new


class BackwardHook:
    """Runs the full backward hooks of one call of a module.

    Tensors that require grad pass an identity node at the call's inputs and one at its outputs.
    In-place writes keep their meaning: a module may write its input, and its output may be
    written. The tensor before an identity node takes over the history of a write to the one after
    it; that one raises if it is used after a write to the former. As in torch, two writes are
    forbidden: to an input that is a leaf or a view, and to an output that is an input, a leaf or a
    view.

    Args:
        module: the first argument of every hook.
        user_hooks: called with (module, grad_input, grad_output).
        user_pre_hooks: called first, with (module, grad_output).
    """

    def __init__(
        self,
        module: Any,
        user_hooks: Iterable[Callable[..., Any]],
        user_pre_hooks: Iterable[Callable[..., Any]],
    ) -> None:
        self.module = module
        self.user_hooks = tuple(user_hooks)
        self.user_pre_hooks = tuple(user_pre_hooks)
        self.grad_outputs: tuple[Any, ...] | None = None
        self.input_count = 0
        self.input_slots: list[int] = []  # inputs that require grad; the others are in ``others``
        self.others: dict[int, tuple[Any, Any, Any]] = {}  # (shape, dtype, device) by input slot
        self.output_count = 0
        self.output_slots: list[int] = []
        self._entered: list[_Entered] = []
        # Function scopes whose backward runs the hooks, at the inputs and at the outputs.
        self.functions = [0, 0]

    def setup_input_hook(self, args: Any) -> Any:
        """Passes the tensors of ``args`` that require grad through the input node."""
        values = _as_tuple(args)
        self.input_count = len(values)
        if not self.user_hooks:
            return args
        self.input_slots = _slots(values)
        if self.input_slots:
            self.others = {
                i: (v.shape, v.dtype, v.device)
                for i, v in enumerate(values)
                if isinstance(v, Tensor) and i not in self.input_slots
            }
        tensors = [values[slot] for slot in self.input_slots]
        writable = [_may_be_written(t, tensors) for t in tensors]
        marked = _through_point(self._at_inputs, tensors, writable)
        self.functions[0] = _C._function_of(marked)
        pairs = [(t, m) for t, m, w in zip(tensors, marked, writable, strict=True) if w]
        for given, alias in pairs:
            self._share_writes(given, alias)
        self._entered = [_Entered(given, alias) for given, alias in pairs]
        full = _filled(values, self.input_slots, marked)
        return full if isinstance(args, tuple) else full[0]

    def setup_output_hook(self, result: Any) -> Any:
        """Passes the tensors of ``result`` that require grad through the output node."""
        entered, self._entered = self._entered, []  # the graph must not keep the inputs
        values = _as_tuple(result)
        self.output_count = len(values)
        self.output_slots = _slots(values)
        tensors = [values[slot] for slot in self.output_slots]
        written = [next((e for e in entered if e.wrote(t)), None) for t in tensors]
        held = {_place(e.marked) for e in entered}
        writable = [
            source is not None or (_may_be_written(t, tensors) and _place(t) not in held)
            for t, source in zip(tensors, written, strict=True)
        ]
        marked = _through_point(self._at_outputs, tensors, writable)
        self.functions[1] = _C._function_of(marked)
        for i, (inner, source) in enumerate(zip(tensors, written, strict=True)):
            if source is not None:  # the module returns its input, so return the same object
                _C._take_history(source.given, marked[i])
                marked[i] = source.given
            if writable[i]:
                self._share_writes(inner, marked[i])
        full = _filled(values, self.output_slots, marked)
        return full if isinstance(result, tuple) else full[0]

    def abandon(self) -> None:
        """Drops the inputs of a call that has failed, which the graph would keep."""
        self._entered = []

    def _share_writes(self, source: Tensor, alias: Tensor) -> None:
        if _C._same_place(source, alias):  # a subclass may have another detach()
            _C._share_writes(source, alias, type(self.module).__name__)

    def _at_inputs(self, zeros: _Zeros, *grads: Any) -> tuple[Any, ...]:
        grads = zeros(grads)
        # grad_outputs is None if this run did not pass the output node.
        if self.grad_outputs is None or not _C._run_serves(self.functions[0]):
            return grads
        new = self._with_others(_spread(grads, self.input_slots, self.input_count))
        for hook in self.user_hooks:
            result = hook(self.module, new, self.grad_outputs)
            new = _replaced("Backward", "grad_input", result, new)
        self.grad_outputs = None
        return tuple(new[slot] for slot in self.input_slots)

    def _with_others(self, grads: tuple[Any, ...]) -> tuple[Any, ...]:
        """Sets zeros for integer tensors and others that do not require grad, as torch does."""
        import cograd

        full = list(grads)
        for i, (shape, dtype, device) in self.others.items():
            full[i] = cograd.zeros(shape, dtype=dtype, device=device)
        return tuple(full)

    def _at_outputs(self, zeros: _Zeros, *grads: Any) -> tuple[Any, ...]:
        if not _C._run_serves(self.functions[1]):
            return zeros(grads)
        new = _spread(grads, self.output_slots, self.output_count)
        for hook in self.user_pre_hooks:
            new = _replaced("Backward pre", "grad_output", hook(self.module, new), new)
        self.grad_outputs = new
        if not self.input_slots and self.user_hooks:
            self._without_inputs(new)
        return zeros(tuple(new[slot] for slot in self.output_slots))

    def _without_inputs(self, grad_outputs: tuple[Any, ...]) -> None:
        warnings.warn(
            "Full backward hook is firing when gradients are computed with respect to module "
            "outputs since no inputs require gradients.",
            stacklevel=2,
        )
        nothing = (None,) * self.input_count
        for hook in self.user_hooks:
            result = hook(self.module, nothing, grad_outputs)
            if result is not None and any(r is not None for r in _as_tuple(result)):
                raise RuntimeError(
                    "Backward hook for Modules where no input requires gradient should always "
                    "return None or None for all gradients."
                )
        self.grad_outputs = None


class _Entered:
    """An input from the caller, and the alias of it that the module uses."""

    def __init__(self, given: Tensor, marked: Tensor) -> None:
        self.given = given
        self.marked = marked
        self.version = marked._version

    def wrote(self, output: Any) -> bool:
        """Returns whether the module wrote this input and returns it, with its geometry."""
        return (
            output is self.marked
            and self.marked._version != self.version
            and _C._knows_all_writes(self.marked)
            and _C._same_place(self.given, self.marked)
        )


def _slots(values: tuple[Any, ...]) -> list[int]:
    from cograd import is_grad_enabled

    if not is_grad_enabled():
        return []
    return [i for i, v in enumerate(values) if isinstance(v, Tensor) and v.requires_grad]


def _may_be_written(tensor: Tensor, among: list[Tensor]) -> bool:
    """Returns whether ``tensor`` can receive the history of writes to an alias.

    It must be neither a leaf nor a view, and the only tensor of ``among`` over its memory; never
    inside a vmap.
    """
    if tensor.grad_fn is None or tensor._base is not None or _C._vmap_depth():
        return False
    place = _place(tensor)
    return sum(1 for other in among if _place(other) == place) == 1


def _place(tensor: Tensor) -> int:
    """Returns a number that tensors with the same memory share."""
    return _C._storage_key(tensor)


def _spread(grads: tuple[Any, ...], slots: list[int], count: int) -> tuple[Any, ...]:
    full: list[Any] = [None] * count
    for slot, grad in zip(slots, grads, strict=True):
        full[slot] = grad
    return tuple(full)


def _filled(values: tuple[Any, ...], slots: list[int], tensors: list[Any]) -> tuple[Any, ...]:
    full = list(values)
    for slot, tensor in zip(slots, tensors, strict=True):
        full[slot] = tensor
    return tuple(full)


_point_class: Any = None


def _through_point(
    run: Callable[..., Any], tensors: list[Tensor], writable: list[bool]
) -> list[Any]:
    """Returns aliases of ``tensors`` after one node that calls ``run``; views if not writable."""
    global _point_class
    if not tensors:
        return []
    if _point_class is None:
        _point_class = _make_point_class()
    return list(_point_class.apply(run, writable, *tensors))


def _make_point_class() -> Any:
    """Returns the identity Function; created on first use."""

    class BackwardHookFunction(Function):
        generate_vmap_rule = (
            True  # one call for the whole batch runs the hooks once, in its own vmap
        )

        @staticmethod
        def forward(
            run: Callable[..., Any], writable: list[bool], *tensors: Tensor
        ) -> tuple[Any, ...]:
            pairs = zip(tensors, writable, strict=True)
            return tuple(t.detach() if w else t.view_as(t) for t, w in pairs)

        @staticmethod
        def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
            ctx.run = inputs[0]
            ctx.set_materialize_grads(False)

        @staticmethod
        def backward(ctx: Any, *grads: Any) -> tuple[Any, ...]:
            def zeros(some: tuple[Any, ...]) -> tuple[Any, ...]:
                import cograd

                metas = ctx._input_metadata
                return tuple(
                    cograd.zeros(meta.shape, dtype=meta.dtype, device=meta.device)
                    if g is None
                    else g
                    for g, meta in zip(some, metas, strict=True)
                )

            return (None, None, *ctx.run(zeros, *grads))

    return BackwardHookFunction
