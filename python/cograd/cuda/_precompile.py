# SPDX-License-Identifier: BSD-3-Clause
"""Compiles kernels before a run."""

from __future__ import annotations

import contextlib
import copy
import os
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import cograd
from cograd import _C
from cograd._base.pytree import flat
from cograd.cuda._kernel import Kernel

_PATIENCE = 1.0  # seconds without a line of progress


class _Progress(threading.Thread):
    """Shows on stderr what is being compiled."""

    def __init__(self, before: int, patience: float) -> None:
        super().__init__(daemon=True)
        self._before, self._patience = before, patience
        self._end = threading.Event()
        self._shown = False

    def run(self) -> None:
        if self._end.wait(self._patience):
            return
        while True:
            count, seconds, name = _C._cuda_compilations()
            text = f"cuda.precompile: {count - self._before} kernels, {seconds:.1f} s, {name}"
            sys.stderr.write(f"\r{text[:79]:79}")
            sys.stderr.flush()
            self._shown = True
            if self._end.wait(0.2):
                return

    def stop(self) -> None:
        self._end.set()
        self.join()
        if self._shown:
            sys.stderr.write("\n")


@contextlib.contextmanager
def _shown(progress: bool | None) -> Iterator[None]:
    if progress is False or (progress is None and not sys.stderr.isatty()):
        yield
        return
    shown = _Progress(_C._cuda_compilations()[0], 0.0 if progress else _PATIENCE)
    shown.start()
    try:
        yield
    finally:
        shown.stop()


def _tensors(tree: Any) -> list[cograd.Tensor]:
    return [t for t in flat(tree)[0] if isinstance(t, cograd.Tensor)]


def _run_module(module: Any, inputs: tuple[Any, ...]) -> None:
    """Runs a copy forward and backward, so that buffers, gradients and hooks' data stay."""
    there = [*module.parameters(), *module.buffers(), *_tensors(inputs)]
    if not any(t.is_cuda for t in there):
        raise ValueError(
            f"cuda.precompile(): no parameter, buffer or input of {type(module).__name__} is on a "
            "GPU; move them by .cuda()"
        )
    module = copy.deepcopy(module)
    with cograd.enable_grad():
        outputs = [t for t in _tensors(module(*inputs)) if t.requires_grad]
    if outputs:
        wanted = [p for p in module.parameters() if p.requires_grad]
        wanted += [t for t in _tensors(inputs) if t.requires_grad]
        cograd.autograd.grad(
            outputs, wanted, [cograd.ones_like(t) for t in outputs], allow_unused=True
        )


def _cores() -> int:
    return min(len(os.sched_getaffinity(0)), 8)


def _compile_kernels(kernels: list[Kernel]) -> None:
    """Compiles kernels of users at once, for the current GPU."""
    if len(kernels) < 2:
        for kernel in kernels:
            kernel.compile()
        return
    at = cograd.cuda.current_device()

    def compile_there(kernel: Kernel) -> None:
        with cograd.cuda.device(at):
            kernel.compile()

    with ThreadPoolExecutor(min(len(kernels), _cores())) as pool:
        list(pool.map(compile_there, kernels))


def precompile(
    what: Kernel | Callable[..., Any] | Sequence[Any], *inputs: Any, progress: bool | None = None
) -> int:
    """Compiles the kernels that a model needs, so that they are in the cache before a run.

    Args:
        what: a module, of which a copy runs forward and backward once; a function, such as a step
            of training, which is called once; a ``cuda.Kernel``; or a list of these.
        inputs: the arguments of the modules and functions, on the GPU. A kernel can depend on the
            dtypes and strides of its tensors, so give inputs like those of the run.
        progress: whether stderr shows what is being compiled; None shows it on a terminal if it
            takes more than a second.

    Returns:
        The number of programs that were compiled; 0 if the cache had all.

    Raises:
        RuntimeError: there is no GPU, or a kernel cannot be compiled.
        ValueError: nothing of a module or its inputs is on a GPU.
    """
    every: list[Any] = list(what) if isinstance(what, list | tuple) else [what]
    for one in every:
        if not callable(one):
            raise TypeError(
                "cuda.precompile(): expected modules, functions and kernels, got "
                f"{type(one).__name__}"
            )
    _C._cuda_wait_for_compile_threads()
    before = _C._cuda_compilations()[0]
    _C._cuda_compile_threads(_cores())
    try:
        with _shown(progress), cograd.random.fork_rng():
            _compile_kernels([one for one in every if isinstance(one, Kernel)])
            for one in every:
                if isinstance(one, cograd.nn.Module):
                    _run_module(one, inputs)
                elif not isinstance(one, Kernel):
                    one(*inputs)
            cograd.cuda.synchronize()
            _C._cuda_wait_for_compile_threads()
    finally:
        _C._cuda_compile_threads(1)
    return int(_C._cuda_compilations()[0] - before)
