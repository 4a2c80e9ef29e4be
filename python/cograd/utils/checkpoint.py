# SPDX-License-Identifier: BSD-3-Clause
"""Checkpointing: backward runs a function again instead of storing the tensors it saved."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import cograd
from cograd import _C, Tensor
from cograd.autograd import Function
from cograd.utils._checkpoint_frame import (
    CheckpointError,
    ContextFn,
    Frame,
    active,
    metadata,
    pack_hook,
    unpack_hook,
)
from cograd.utils._selective import (
    SAC_IGNORED_OPS,
    CheckpointPolicy,
    SelectiveCheckpointContext,
    create_selective_checkpoint_contexts,
)

__all__ = [
    "SAC_IGNORED_OPS",
    "CheckpointError",
    "CheckpointFunction",
    "CheckpointPolicy",
    "DefaultDeviceType",
    "SelectiveCheckpointContext",
    "check_backward_validity",
    "checkpoint",
    "checkpoint_sequential",
    "create_selective_checkpoint_contexts",
    "detach_variable",
    "get_device_states",
    "noop_context_fn",
    "set_checkpoint_debug_enabled",
    "set_checkpoint_early_stop",
    "set_device_states",
]


class _Settings:
    """Settings of the two ``set_checkpoint_...`` managers; None does not override the argument."""

    early_stop = True
    debug: bool | None = None


@contextlib.contextmanager
def set_checkpoint_early_stop(enable: bool) -> Iterator[None]:
    """Sets whether checkpoints created inside end a recomputation as soon as they can."""
    before, _Settings.early_stop = _Settings.early_stop, enable
    try:
        yield
    finally:
        _Settings.early_stop = before


@contextlib.contextmanager
def set_checkpoint_debug_enabled(enabled: bool | None) -> Iterator[None]:
    """Overrides ``debug`` of all checkpoints created inside; None does not override."""
    before, _Settings.debug = _Settings.debug, enabled
    try:
        yield
    finally:
        _Settings.debug = before


def noop_context_fn() -> tuple[Any, Any]:
    """Returns two contexts that do nothing, for the forward and for the recomputation."""
    return contextlib.nullcontext(), contextlib.nullcontext()


class DefaultDeviceType:
    """The kind of device whose generators are saved in addition to the CPU's."""

    _device_type = "cuda"

    @staticmethod
    def set_device_type(device: str = "cuda") -> None:
        """Sets the device type: "cuda" or "cpu"."""
        if device not in ("cpu", "cuda"):
            raise ValueError(f"set_device_type(): expected 'cuda' or 'cpu', got {device!r}")
        DefaultDeviceType._device_type = device

    @staticmethod
    def get_device_type() -> str:
        """Returns the device type."""
        return DefaultDeviceType._device_type


def get_device_states(*args: Any) -> tuple[list[int], list[Tensor]]:
    """Returns the indices of the GPUs of tensors in ``args``, and their generators' states."""
    found: dict[int, None] = {}

    def add(value: Any) -> None:
        if isinstance(value, Tensor):
            if value.is_cuda:
                found[value.get_device()] = None
        elif isinstance(value, (list, tuple)):
            for item in value:
                add(item)
        elif isinstance(value, dict):
            add(list(value.values()))

    add(args)
    return list(found), [cograd.cuda.get_rng_state(index) for index in found]


def set_device_states(devices: Any, states: Any, *, device_type: str | None = None) -> None:
    """Sets the states of GPUs' generators that ``get_device_states`` returned.

    Raises:
        RuntimeError: there is no such GPU.
    """
    for index, state in zip(devices, states):
        cograd.cuda.set_rng_state(state, index)


def detach_variable(inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    """Returns the inputs with every tensor detached; keeps ``requires_grad``."""
    if not isinstance(inputs, tuple):
        raise RuntimeError(
            "Only tuple of tensors is supported. Got Unsupported input type: "
            + type(inputs).__name__
        )

    def detached(value: Any) -> Any:
        if not isinstance(value, Tensor):
            return value
        return value.detach().requires_grad_(value.requires_grad)

    return tuple(map(detached, inputs))


def check_backward_validity(inputs: Iterable[Any]) -> None:
    """Warns if no input requires grad: a re-entrant checkpoint of them has no gradient."""
    if not any(isinstance(value, Tensor) and value.requires_grad for value in inputs):
        warnings.warn(
            "None of the inputs have requires_grad=True. Gradients will be None", stacklevel=2
        )


class _RandomState:
    """The states of the CPU's generator, and of those of the GPUs of a call's arguments.

    A block over it repeats them and puts back those from before; not a generator, which takes
    twice as long.
    """

    def __init__(self, *args: Any) -> None:
        self.cpu = cograd.get_rng_state()
        # A tensor on a GPU exists only after the first use of one.
        self.devices, self.states = get_device_states(*args) if _C._cuda_started() else ([], [])
        self.before: list[Any] = []  # nested blocks of one checkpoint, innermost last

    def __enter__(self) -> None:
        others = [cograd.cuda.get_rng_state(device) for device in self.devices]
        self.before.append((cograd.get_rng_state(), others))
        cograd.set_rng_state(self.cpu)
        set_device_states(self.devices, self.states)

    def __exit__(self, *raised: Any) -> None:
        cpu, others = self.before.pop()
        cograd.set_rng_state(cpu)
        set_device_states(self.devices, others)


_NOTHING = contextlib.nullcontext()


class _Autocast:
    """The autocast state of this thread, for the recomputation."""

    def __init__(self) -> None:
        core = _C
        self.states = [(core._autocast_enabled(g), core._autocast_dtype(g)) for g in (False, True)]
        self.cache = core._autocast_cache_enabled()

    def again(self) -> Any:
        """Returns a context manager that restores the state."""
        if not any(enabled for enabled, _ in self.states) and not _C._autocast_enabled():
            return _NOTHING
        blocks = contextlib.ExitStack()
        for kind, (enabled, dtype) in zip(("cpu", "cuda"), self.states):
            if kind == "cpu" or cograd.cuda.is_available():
                blocks.enter_context(cograd.autocast(kind, dtype, enabled, self.cache))
        return blocks


class CheckpointFunction(Function):
    """The re-entrant form: its backward runs the function again, and a nested backward."""

    @staticmethod
    def forward(ctx: Any, run_function: Any, preserve_rng_state: bool, *args: Any) -> Any:
        check_backward_validity(args)
        ctx.run_function = run_function
        ctx.random_state = _RandomState(*args) if preserve_rng_state else None
        ctx.autocast = _Autocast()
        ctx.tensor_slots = [i for i, arg in enumerate(args) if isinstance(arg, Tensor)]
        ctx.args = [None if isinstance(arg, Tensor) else arg for arg in args]
        tensors = [args[i] for i in ctx.tensor_slots]
        ctx.recorded = _recorded(tensors)
        ctx.save_for_backward(*tensors)
        with cograd.no_grad():
            return run_function(*args)

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> Any:
        if not _C._is_checkpoint_valid():
            raise RuntimeError(
                "When use_reentrant=True, checkpoint is incompatible with .grad() or passing an "
                "`inputs` parameter to .backward(). To resolve this error, you can either set "
                "use_reentrant=False, or call .backward() without passing the `inputs` argument."
            )
        args = list(ctx.args)
        # Unpack hooks or a backward without a graph may return tensors that do not require grad.
        saved = _leaves_again(ctx.saved_tensors, ctx.recorded)
        for slot, tensor in zip(ctx.tensor_slots, saved, strict=True):
            args[slot] = tensor
        detached = detach_variable(tuple(args))
        with ctx.random_state or _NOTHING, ctx.autocast.again(), cograd.enable_grad():
            outputs = ctx.run_function(*detached)
        if isinstance(outputs, Tensor):
            outputs = (outputs,)
        roots = [
            (out, grad)
            for out, grad in zip(outputs, grad_outputs)
            if isinstance(out, Tensor) and out.requires_grad
        ]
        if not roots:
            raise RuntimeError(
                "none of output has requires_grad=True, this checkpoint() is not necessary"
            )
        cograd.autograd.backward([out for out, _ in roots], [grad for _, grad in roots])
        grads = tuple(arg.grad if isinstance(arg, Tensor) else None for arg in detached)
        return (None, None, *grads)


def _recorded(values: Iterable[Any]) -> list[bool]:
    return [isinstance(value, Tensor) and value.requires_grad for value in values]


def _leaves_again(values: Iterable[Any], recorded: list[bool]) -> list[Any]:
    """Restores requires_grad of saved values that were leaves of a transform that has ended."""
    return [
        value.detach().requires_grad_() if was and not value.requires_grad else value
        for value, was in zip(values, recorded, strict=True)
    ]


class _SaveInputs(Function):
    """Saves the arguments of a checkpoint as the surrounding graph saves its tensors."""

    @staticmethod
    def forward(ctx: Any, dummy: Tensor, *args: Any) -> Tensor:
        tensors = [arg for arg in args if isinstance(arg, Tensor)]
        slots = [i for i, arg in enumerate(args) if isinstance(arg, Tensor)]
        others = [None if isinstance(arg, Tensor) else arg for arg in args]
        recorded = _recorded(tensors)

        def arguments(saved: tuple[Tensor, ...]) -> list[Any]:
            full = list(others)
            for slot, tensor in zip(slots, _leaves_again(saved, recorded), strict=True):
                full[slot] = tensor
            return full

        ctx.arguments = arguments
        ctx.save_for_backward(*tensors)
        return cograd.empty((0,))

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        raise AssertionError("the input saver of a checkpoint takes no part in backward")


class _Aside:
    """Holds a sparse argument, which a Function does not accept if it requires grad."""

    def __init__(self, tensor: Tensor) -> None:
        self.tensor = tensor

    def values(self) -> Tensor:
        """Returns what the input saver saves instead, so that a write to it is noticed."""
        t: Any = self.tensor
        values: Tensor = t._values() if t.layout == cograd.sparse_coo else t.values()
        return values


def _set_aside(args: tuple[Any, ...]) -> list[Any]:
    return [
        _Aside(arg)
        if isinstance(arg, Tensor) and arg.layout != cograd.strided and arg.requires_grad
        else arg
        for arg in args
    ]


class _Kept:
    """Replaces _SaveInputs for batched tensors or tangents, which a Function would process."""

    def __init__(self, *args: Any) -> None:
        recorded = _recorded(args)
        self.arguments = lambda saved: _leaves_again(saved, recorded)
        self.saved_tensors = args
        self.grad_fn = self if cograd.is_grad_enabled() else None


def _runs_again() -> bool:
    """True if a backward here sees the forward's tangents and batches, as recomputation needs."""
    return _C._dual_level() < 0 and _C._backward_within_vmaps()


_COMPARISONS: dict[str, Callable[[Tensor], Any] | None] = {"default": metadata, "none": None}


class _Around:
    """Wraps a context so that it cannot suppress an exception."""

    def __init__(self, context: Any) -> None:
        self.context = context

    def __enter__(self) -> None:
        self.context.__enter__()

    def __exit__(self, *raised: Any) -> None:
        self.context.__exit__(*raised)


def _without_reentry(
    function: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    preserve_rng_state: bool,
    context_fn: ContextFn,
    determinism_check: str,
    debug: bool,
    early_stop: bool,
) -> Any:
    """Runs the non-re-entrant form. Not a generator: an interrupt would leave its hooks on."""
    if determinism_check not in _COMPARISONS:
        raise ValueError(
            f"determinism_check should be one of {list(_COMPARISONS)}, but got {determinism_check}"
        )
    debug = debug if _Settings.debug is None else _Settings.debug
    forward_context, recompute_context = context_fn()
    if not _runs_again():
        with _Around(forward_context):
            return function(*args, **kwargs)
    state = _RandomState(args, kwargs) if preserve_rng_state else None
    autocast = _Autocast()

    def recompute(kwargs: dict[str, Any], *saved: Any) -> None:
        again = [arg.tensor if isinstance(arg, _Aside) else arg for arg in saved[: len(args)]]
        with state or _NOTHING, autocast.again(), recompute_context:
            function(*again, **kwargs)

    frame = Frame(
        recompute,
        _Settings.early_stop and early_stop,
        _COMPARISONS[determinism_check],
        debug,
    )
    if _C._vmap_depth() > 0:
        frame.input_saver = _Kept(kwargs, *args)
    else:
        dummy = cograd.empty((0,), requires_grad=True)
        given = _set_aside(args)
        values = [arg.values() for arg in given if isinstance(arg, _Aside)]
        frame.input_saver = _SaveInputs.apply(dummy, kwargs, *given, *values)
    if frame.input_saver.grad_fn is None:  # ops are not being recorded
        return function(*args, **kwargs)
    hooks = cograd.autograd.graph.saved_tensors_hooks(pack_hook(frame), unpack_hook(frame))
    depth = len(active.forwards)
    try:
        active.forwards.append(frame)
        with hooks, _Around(forward_context):
            result = function(*args, **kwargs)
    finally:
        del active.forwards[depth:]
    frame.forward_completed = True
    return result


def checkpoint(
    function: Callable[..., Any],
    *args: Any,
    use_reentrant: bool | None = None,
    context_fn: ContextFn = noop_context_fn,
    determinism_check: str = "default",
    debug: bool = False,
    early_stop: bool = True,
    **kwargs: Any,
) -> Any:
    """Computes ``function(*args, **kwargs)``, saves only its inputs, and recomputes it in backward.

    Args:
        function: must do the same both times; random numbers are repeated.
        use_reentrant: False records the graph as usual, with placeholders for saved tensors; the
            first access in backward fills them by running ``function`` again. It supports
            ``grad()``, ``inputs=``, nesting, keyword arguments and higher derivatives. True
            records one node, which runs ``function`` without a graph in the forward, and with one
            inside its backward. None is True with a warning; pass a value.
        context_fn: returns two context managers, for the forward and for the recomputation.
        determinism_check: "default" compares shapes, dtypes and devices of the tensors saved in the
            two runs, "none" does not.
        debug: errors show where tensors were saved in the two runs.
        early_stop: end the recomputation when the last saved tensor is recomputed.
        preserve_rng_state: keyword, default True: repeat the random numbers.

    In forward mode, and in a vmap inside a differentiated function, nothing is recomputed: the
    forward's tangents and batches do not exist any more when the backward runs. In a vmap of a
    gradient, that gradient's backward keeps what it recomputed for a backward after the vmap.

    Raises:
        CheckpointError: (in the backward) the two runs differ.
        ValueError: keyword arguments or a ``context_fn`` with ``use_reentrant=True``.
    """
    if use_reentrant is None:
        warnings.warn(
            "torch.utils.checkpoint: the use_reentrant parameter should be passed explicitly. "
            "use_reentrant=False is recommended, but if you need to preserve the current default "
            "behavior, you can pass use_reentrant=True.",
            stacklevel=2,
        )
        use_reentrant = True
    preserve = kwargs.pop("preserve_rng_state", True)
    if use_reentrant:
        if kwargs:
            raise ValueError("Unexpected keyword arguments: " + ",".join(kwargs))
        if context_fn is not noop_context_fn or debug is not False:
            raise ValueError(
                "Passing `context_fn` or `debug` is only supported when use_reentrant=False."
            )
        return CheckpointFunction.apply(function, preserve, *args)
    return _without_reentry(
        function, args, kwargs, preserve, context_fn, determinism_check, debug, early_stop
    )


def checkpoint_sequential(
    functions: Any, segments: int, input: Any, use_reentrant: bool | None = None, **kwargs: Any
) -> Any:
    """Runs ``functions`` one after the other, in ``segments`` pieces, each a checkpoint.

    The last piece runs without a checkpoint: its backward runs first.

    Args:
        functions: an ``nn.Sequential`` or a list of callables of one argument.
        segments: number of pieces, at least 1 and at most ``len(functions)``.
        use_reentrant, preserve_rng_state: as for ``checkpoint``.
    """
    if use_reentrant is None:
        warnings.warn(
            "torch.utils.checkpoint: the use_reentrant parameter should be passed explicitly. "
            "use_reentrant=False is recommended, but if you need to preserve the current default "
            "behavior, you can pass use_reentrant=True.",
            stacklevel=2,
        )
        use_reentrant = True
    preserve = kwargs.pop("preserve_rng_state", True)
    if kwargs:
        raise ValueError("Unexpected keyword arguments: " + ",".join(kwargs))
    from cograd.nn import Sequential

    chained = isinstance(functions, Sequential)
    layers = list(functions.children() if chained else functions)
    if not 1 <= segments <= len(layers):
        raise ValueError(
            f"checkpoint_sequential(): segments must be between 1 and the number of functions "
            f"({len(layers)}), got {segments}"
        )

    def piece(start: int, stop: int) -> Callable[[Any], Any]:
        def forward(value: Any) -> Any:
            for layer in layers[start:stop]:
                value = layer(value)
            return value

        return forward

    size = len(layers) // segments
    last = size * (segments - 1)
    for start in range(0, last, size):
        input = checkpoint(
            piece(start, start + size),
            input,
            use_reentrant=use_reentrant,
            preserve_rng_state=preserve,
        )
    return piece(last, len(layers))(input)
