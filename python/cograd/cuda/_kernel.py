# SPDX-License-Identifier: BSD-3-Clause
"""Kernels whose text in CUDA C++ is the user's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cograd import _C

_Size = int | Sequence[int]


def _sizes(kernel: str, name: str, given: _Size) -> list[int]:
    sizes = list(given) if isinstance(given, Sequence) else [given]
    if not 1 <= len(sizes) <= 3 or not all(isinstance(n, int) for n in sizes):
        raise TypeError(f"kernel '{kernel}': {name} is {given!r}, expected 1 to 3 ints")
    return sizes + [1] * (3 - len(sizes))


class Kernel:
    """A function of a text in CUDA C++ that runs on a GPU; ``kernel`` makes one.

    Calling it queues the function on the current stream. Positional arguments are those of the
    function: tensors for pointers (None for a null pointer) and numbers. Each is checked.

    Args:
        grid: number of blocks: up to three ints.
        block: number of threads in a block.
        threads: in place of ``grid``, the number of threads along x, which is rounded up to whole
            blocks; 0 starts nothing.
        shared_bytes: dynamic shared memory of a block.
    """

    def __init__(
        self,
        text: str,
        name: str | None = None,
        *,
        options: Sequence[str] = (),
        strided: Sequence[str] = (),
    ) -> None:
        for what, given in (("options", options), ("strided", strided)):
            if isinstance(given, str):
                raise TypeError(f"cuda.kernel(): {what} is {given!r}, expected a list of strings")
        self._kernel = _C._cuda_kernel(text, name or "", list(options), list(strided))
        self.name = str(self._kernel.name)
        self.text = text

    @property
    def parameters(self) -> dict[str, str]:
        """The names of the function's parameters, and their types as they are declared."""
        return {name: kind for name, kind, _ in self._kernel.parameters}

    def __call__(
        self,
        *args: Any,
        grid: _Size | None = None,
        block: _Size = 256,
        threads: int | None = None,
        shared_bytes: int = 0,
    ) -> None:
        blocks = _sizes(self.name, "block", block)
        if (grid is None) == (threads is None):
            raise TypeError(f"kernel '{self.name}': expected one of grid= and threads=")
        sizes = [1] if grid is None else grid
        self._kernel.launch(
            args, _sizes(self.name, "grid", sizes), blocks, int(shared_bytes), threads
        )

    def compile(self) -> None:
        """Compiles the kernel for the current GPU, which its first call there does otherwise."""
        self._kernel.compile()

    def __repr__(self) -> str:
        text = ", ".join(f"{kind} {name}" for name, kind in self.parameters.items())
        return f"<cograd.cuda.Kernel {self.name}({text})>"


def kernel(
    text: str,
    name: str | None = None,
    *,
    options: Sequence[str] = (),
    strided: Sequence[str] = (),
) -> Kernel:
    """Makes a kernel of a text in CUDA C++.

    NVRTC compiles the text when the kernel is first called on a GPU; the result is kept on disk.
    The text may include ``cograd/kernel.h``, which has integers of stated sizes, ``cograd::Half``,
    ``cograd::BFloat16``, ``cograd::Complex<float>`` and ``cograd::grid_index()``.

    Args:
        text: the text, with a function that is declared ``__global__``.
        name: the function, such as "scale", "ops::scale" or "scale<float>"; None if there is one.
        options: options of NVRTC, such as "-DWIDTH=4" or "--use_fast_math".
        strided: names of parameters whose tensors need not be contiguous; the kernel gets their
            strides as numbers.

    Raises:
        ValueError: the text has no such function, or a parameter is neither a pointer nor a number.
    """
    return Kernel(text, name, options=options, strided=strided)
