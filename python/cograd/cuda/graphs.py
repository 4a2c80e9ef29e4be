# SPDX-License-Identifier: BSD-3-Clause
"""Graphs: the work of a stream, captured once and started again by one call."""

from __future__ import annotations

import gc
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import cograd
from cograd import _C, Tensor
from cograd._base import pytree
from cograd.autograd.function import Function, once_differentiable
from cograd.cuda._devices import synchronize
from cograd.cuda.memory import empty_cache
from cograd.cuda.streams import Stream, StreamContext, current_stream

__all__ = [
    "CUDAGraph",
    "graph",
    "graph_pool_handle",
    "is_current_stream_capturing",
    "make_graphed_callables",
]

_Pool = tuple[int, int]
_MODES = ("global", "thread_local", "relaxed")


def is_current_stream_capturing() -> bool:
    """Returns whether the work of this thread's current stream is being captured."""
    return bool(_C._cuda_started() and _C._cuda_capturing(_C._cuda_current()))


def graph_pool_handle() -> _Pool:
    """Returns a new pool of memory, which several graphs can use if they are replayed in turn.

    Raises:
        RuntimeError: there is no GPU.
    """
    _requires("graph_pool_handle()")
    return (0, int(_C._cuda_new_pool()))


def _requires(what: str) -> None:
    if _C._cuda_count() == 0:
        raise RuntimeError(
            f"cuda.{what} requires CUDA support: {_C._cuda_failure()}; ask cuda.is_available() "
            "first"
        )


class CUDAGraph:
    """The work that streams got during a capture, and that ``replay`` starts again.

    Memory that is allocated in a capture belongs to the graph: other tensors get none of it as long
    as the graph lives. A replay reads and writes the tensors of the capture where they are.

    Args:
        keep_graph: whether the driver's graph is kept once it is compiled, and compiled by
            ``instantiate`` or the first replay instead of by ``capture_end``.

    Raises:
        RuntimeError: there is no GPU.
    """

    def __init__(self, keep_graph: bool = False) -> None:
        _requires("CUDAGraph()")
        self._graph = _C._cuda_new_graph()
        self._keep = bool(keep_graph)
        self._debug = False

    def capture_begin(self, pool: _Pool | None = None, capture_error_mode: str = "global") -> None:
        """Captures the current stream from now on; ``cuda.graph`` calls this.

        Args:
            pool: where memory comes from: that of another graph, or of ``graph_pool_handle()``.
            capture_error_mode: which calls of other threads the driver refuses: "global" all that
                may disturb a capture, "thread_local" none, "relaxed" none of this thread either.

        Raises:
            RuntimeError: the graph has been captured, or the current stream is the default one or
                is being captured.
            ValueError: there is no such mode.
        """
        if capture_error_mode not in _MODES:
            raise ValueError(
                "CUDAGraph.capture_begin(): capture_error_mode must be one of "
                f"{', '.join(map(repr, _MODES))}, got {capture_error_mode!r}"
            )
        number = 0 if pool is None else _pool_number(pool)
        self._graph.begin(number, _MODES.index(capture_error_mode))

    def capture_end(self) -> None:
        """Ends the capture.

        Raises:
            RuntimeError: none has begun, or a call spoilt it; the graph is empty then. Another
                thread has begun it, in a mode that is not "relaxed"; the capture goes on then.
        """
        self._graph.end(self._keep or self._debug)

    def instantiate(self) -> None:
        """Compiles the graph; needs ``keep_graph=True``.

        Raises:
            RuntimeError: the graph has not been captured, or not been kept.
        """
        self._graph.instantiate()

    def replay(self) -> None:
        """Starts the captured work on the current stream.

        Raises:
            RuntimeError: the graph has not been captured.
        """
        self._graph.replay()

    def reset(self) -> None:
        """Drops the captured work and leaves the pool; the graph can be captured again."""
        self._graph.reset()

    def pool(self) -> _Pool:
        """Returns the pool of the graph's memory, to pass it to captures of other graphs.

        Raises:
            RuntimeError: the graph has not been captured.
        """
        return (0, int(self._graph.pool()))

    def register_generator_state(self, generator: Any) -> None:
        """Lets the capture draw from a generator besides the GPU's default one.

        Raises:
            TypeError: it is not a generator.
            ValueError: it is one of the CPU.
        """
        self._graph.know(generator)

    def enable_debug_mode(self) -> None:
        """Keeps what ``debug_dump`` prints."""
        self._debug = True

    def debug_dump(self, debug_path: str) -> None:
        """Writes the graph to a file in the language DOT.

        Raises:
            RuntimeError: ``enable_debug_mode`` was not called before the capture.
        """
        self._graph.print(str(debug_path))

    def raw_cuda_graph(self) -> int:
        """Returns the driver's ``CUgraph``; needs ``keep_graph=True``."""
        return int(self._graph.handle(False))

    def raw_cuda_graph_exec(self) -> int:
        """Returns the driver's ``CUgraphExec``."""
        return int(self._graph.handle(True))

    def _abort(self) -> None:
        self._graph.abort()


def _pool_number(pool: Any) -> int:
    if isinstance(pool, tuple) and len(pool) == 2 and all(isinstance(n, int) for n in pool):
        return int(pool[1])
    raise TypeError(
        "cuda.graph(): pool must be what CUDAGraph.pool() or graph_pool_handle() returns, got "
        f"{type(pool).__name__}"
    )


class graph:
    """A block whose work is captured. If it raises, the capture ends and the graph stays empty.

    Entering it waits for the GPU, collects garbage and gives cached memory back.

    Args:
        cuda_graph: gets the work.
        pool: where memory comes from, as in ``CUDAGraph.capture_begin``.
        stream: the stream to capture; None is one that all such blocks share.
        capture_error_mode: as in ``CUDAGraph.capture_begin``.
    """

    _streams: ClassVar[dict[int, Stream]] = {}

    def __init__(
        self,
        cuda_graph: CUDAGraph,
        pool: _Pool | None = None,
        stream: Stream | None = None,
        capture_error_mode: str = "global",
    ) -> None:
        _requires("graph()")
        self.cuda_graph = cuda_graph
        self.pool = pool
        if stream is None:
            index = _C._cuda_current()
            if index not in self._streams:
                self._streams[index] = Stream()
            stream = self._streams[index]
        self.capture_stream = stream
        self.capture_error_mode = capture_error_mode

    def __enter__(self) -> None:
        if is_current_stream_capturing():
            raise RuntimeError(
                "cuda.graph(): the current stream is being captured; end that capture first"
            )
        synchronize(self.capture_stream.device)
        gc.collect()
        empty_cache()
        self._block = StreamContext(self.capture_stream)
        self._block.__enter__()
        try:
            self.cuda_graph.capture_begin(self.pool, self.capture_error_mode)
        except BaseException:
            self._block.__exit__()
            raise

    def __exit__(self, kind: Any, *error: object) -> None:
        try:
            if kind is not None:
                self.cuda_graph._abort()
            elif current_stream(self.capture_stream.device) != self.capture_stream:
                self.cuda_graph._abort()
                raise RuntimeError("cuda.graph(): the block has left another stream current")
            else:
                self.cuda_graph.capture_end()
        finally:
            self._block.__exit__(kind, *error)


def make_graphed_callables(
    callables: Any,
    sample_args: Any,
    num_warmup_iters: int = 3,
    allow_unused_input: bool = False,
    pool: _Pool | None = None,
) -> Any:
    """Captures functions or modules, and their backward, and returns ones that replay them.

    Arguments of a call are copied to where the samples are, and results are where those of the
    capture were: a later call overwrites them. A module gets a ``forward`` that replays while the
    module is in the mode, training or not, in which it was captured.

    A call raises if a tensor has another shape, dtype or device than its sample, or requires grad
    although the sample does not. Strides may differ.

    Args:
        callables: a function or module, or a tuple of them, in the order of their calls.
        sample_args: the tuple of the arguments, or for several a tuple of such tuples. All leaves
            are tensors in memory of their own, with the shapes, dtypes and ``requires_grad`` of
            later calls.
        num_warmup_iters: how often each is called before, which compiles its kernels.
        allow_unused_input: whether inputs that get no gradient are allowed.
        pool: where memory comes from, as in ``CUDAGraph.capture_begin``.

    Returns:
        the graphed callable, or a tuple of them.

    Raises:
        RuntimeError: there is no GPU, autocast keeps copies, a module has hooks or buffers that
            require grad, or two samples of a callable begin at the same address.
        TypeError: a sample or a result is not a tensor.
    """
    _requires("make_graphed_callables()")
    if cograd.is_autocast_enabled("cuda") and cograd.is_autocast_cache_enabled():
        raise RuntimeError(
            "make_graphed_callables(): autocast keeps copies of weights, which a graph cannot; "
            "pass cache_enabled=False to autocast"
        )
    single = not isinstance(callables, tuple)
    functions = (callables,) if single else callables
    samples = (sample_args,) if single else sample_args
    if len(functions) != len(samples):
        raise ValueError(
            f"make_graphed_callables(): got {len(functions)} callables, but sample_args for "
            f"{len(samples)}"
        )
    parts = [_Part(f, args, allow_unused_input) for f, args in zip(functions, samples)]
    synchronize()
    with StreamContext(Stream()):
        for part in parts:
            for _ in range(num_warmup_iters):
                part.run_backward(part.run())
    synchronize()
    pool = graph_pool_handle() if pool is None else pool
    for part in parts:
        part.capture_forward(pool)
    for part in reversed(parts):
        part.capture_backward(pool)
    graphed = tuple(part.callable() for part in parts)
    return graphed[0] if single else graphed


class _Part:
    """One callable with its two graphs, and the tensors that they read and write."""

    def __init__(self, function: Any, args: Any, allow_unused: bool) -> None:
        if not isinstance(args, tuple):
            raise TypeError(
                "make_graphed_callables(): sample_args must be a tuple for each callable, got "
                f"{type(args).__name__}"
            )
        self.function, self.args, self.allow_unused = function, args, allow_unused
        self.module = function if isinstance(function, cograd.nn.Module) else None
        self.inputs, self.spec = pytree.flat(args)
        _check_tensors("sample_args", self.inputs)
        _check_apart(self.inputs)
        self.parameters = [] if self.module is None else list(self.module.parameters())
        if self.module is not None:
            _check_module(self.module)
        self.wanted = [t for t in (*self.inputs, *self.parameters) if t.requires_grad]
        self.forward, self.backward = CUDAGraph(), CUDAGraph()
        self.outputs: list[Tensor] = []
        self.grad_outputs: list[Tensor | None] = []
        self.grad_inputs: list[Tensor | None] = []

    def run(self) -> list[Tensor]:
        leaves, self.result = pytree.flat(self.function(*self.args))
        _check_tensors("a result", leaves)
        return leaves

    def run_backward(self, outputs: list[Tensor]) -> list[Tensor | None]:
        """Returns the gradients of the tensors that require them."""
        # Nothing may write these in the capture: each call fills them before the replay.
        self.grad_outputs = [cograd.empty_like(o) if o.requires_grad else None for o in outputs]
        recorded = [o for o in outputs if o.requires_grad]
        if not recorded or not self.wanted:
            return []
        grads = [g for g in self.grad_outputs if g is not None]
        return list(
            cograd.autograd.grad(recorded, self.wanted, grads, allow_unused=self.allow_unused)
        )

    def capture_forward(self, pool: _Pool) -> None:
        with graph(self.forward, pool=pool):
            self.outputs = self.run()

    def capture_backward(self, pool: _Pool) -> None:
        found: list[Tensor | None] = []
        if self.wanted and any(o.requires_grad for o in self.outputs):
            with graph(self.backward, pool=pool):
                found = self.run_backward(self.outputs)
        of = iter(found)
        self.grad_inputs = [
            next(of) if found and t.requires_grad else None
            for t in (*self.inputs, *self.parameters)
        ]
        self.outputs = [o.detach() for o in self.outputs]  # lets the captured history go

    def start(self, given: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        _fill(self.inputs, given)
        self.forward.replay()
        return tuple(o.detach() for o in self.outputs)

    def start_backward(self, grads: tuple[Tensor, ...]) -> tuple[Tensor | None, ...]:
        _fill(self.grad_outputs, grads)
        self.backward.replay()
        return tuple(None if g is None else g.detach() for g in self.grad_inputs)

    def callable(self) -> Any:
        part = self

        class Graphed(Function):
            """Replays the two graphs."""

            @staticmethod
            def forward(ctx: Any, *given: Tensor) -> Any:
                outputs = part.start(given)
                ctx.mark_non_differentiable(
                    *(o for o, g in zip(outputs, part.grad_outputs) if g is None)
                )
                return outputs

            @staticmethod
            @once_differentiable
            def backward(ctx: Any, *grads: Tensor) -> Any:
                return part.start_backward(grads)

        def graphed(*args: Any) -> Any:
            leaves, spec = pytree.flat(args)
            part.check_call(leaves, spec)
            outputs = Graphed.apply(*leaves, *part.parameters)
            return pytree.unflatten(part.result, iter(outputs))

        if self.module is None:
            return graphed
        _replace_forward(self.module, graphed)
        return self.module

    def check_call(self, given: list[Any], spec: Any) -> None:
        if spec != self.spec:
            raise TypeError(
                f"graphed callable: the arguments are {pytree.shown(spec)}, those of the capture "
                f"were {pytree.shown(self.spec)}"
            )
        _check_tensors("an argument", given)
        for i, (tensor, sample) in enumerate(zip(given, self.inputs)):
            here = (tuple(tensor.shape), tensor.dtype, tensor.device)
            there = (tuple(sample.shape), sample.dtype, sample.device)
            if here != there:
                raise RuntimeError(
                    f"graphed callable: tensor {i} of the arguments has shape, dtype and device "
                    f"{here}, that of the capture had {there}"
                )
            if tensor.requires_grad and not sample.requires_grad and cograd.is_grad_enabled():
                raise RuntimeError(
                    f"graphed callable: tensor {i} of the arguments requires grad, that of the "
                    "capture did not, so the graph computes no gradient of it. Pass it detached, "
                    "or capture with a sample that requires grad"
                )


def _fill(to: Sequence[Tensor | None], given: tuple[Tensor, ...]) -> None:
    """Copies tensors to where a graph reads them; one that lies there stays."""
    pairs = [
        (a, b)
        for a, b in zip(to, given)
        if a is not None and (a.data_ptr() != b.data_ptr() or a.stride() != b.stride())
    ]
    # A copy must not overwrite what another one still reads.
    written = {a.untyped_storage().data_ptr() for a, _ in pairs}
    pairs = [(a, b.clone() if b.untyped_storage().data_ptr() in written else b) for a, b in pairs]
    for a, b in pairs:
        a.copy_(b)


def _check_apart(inputs: list[Any]) -> None:
    seen: dict[int, int] = {}
    for i, tensor in enumerate(inputs):
        first = seen.setdefault(tensor.data_ptr(), i)
        if first != i and tensor.numel() > 0:
            raise RuntimeError(
                f"make_graphed_callables(): tensors {first} and {i} of sample_args share memory, "
                "where a call puts its arguments; pass a clone of one of them"
            )


def _check_tensors(what: str, leaves: list[Any]) -> None:
    for leaf in leaves:
        if not isinstance(leaf, Tensor):
            raise TypeError(
                f"make_graphed_callables(): {what} must consist of tensors, got "
                f"{type(leaf).__name__}"
            )


def _check_module(module: Any) -> None:
    hooks = ("_backward_hooks", "_forward_hooks", "_forward_pre_hooks", "_backward_pre_hooks")
    if any(getattr(module, name, None) for name in hooks):
        raise RuntimeError(
            "make_graphed_callables(): the module has hooks; register them on the graphed module"
        )
    if any(buffer.requires_grad for buffer in module.buffers()):
        raise RuntimeError(
            "make_graphed_callables(): a buffer of the module requires grad; only parameters may"
        )


def _replace_forward(module: Any, graphed: Callable[..., Any]) -> None:
    captured_mode, eager = module.training, module.forward

    def forward(*args: Any, **kwargs: Any) -> Any:
        if module.training == captured_mode:
            return graphed(*args, **kwargs)
        return eager(*args, **kwargs)

    module.forward = forward
