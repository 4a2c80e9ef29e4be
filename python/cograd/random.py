# SPDX-License-Identifier: BSD-3-Clause
"""The default random number generator: seeding, saving and forking it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from cograd import _C
from cograd._C import Generator, Tensor, default_generator

__all__ = [
    "Generator",
    "default_generator",
    "fork_rng",
    "get_rng",
    "get_rng_state",
    "initial_seed",
    "manual_seed",
    "seed",
    "set_rng",
    "set_rng_state",
    "thread_safe_generator",
]


def set_rng(name: str) -> None:
    """Chooses the random stream of the default generator and of generators created later.

    Args:
        name: ``"philox"``, cograd's own, or ``"torch"``, which yields torch's CPU numbers for the
            same seed. The default generator restarts its seed if its stream changes.

    Raises:
        ValueError: ``name`` is unknown.
    """
    if name not in ("philox", "torch"):
        raise ValueError(f"set_rng(): expected 'philox' or 'torch', got {name!r}")
    _C._set_torch_stream(name == "torch")


def get_rng() -> str:
    """Returns the name set by ``set_rng``; ``"philox"`` at first."""
    return "torch" if _C._torch_stream() else "philox"


def manual_seed(seed: Any) -> Generator:
    """Restarts the default generator from ``seed`` and returns it; those of GPUs, too.

    Args:
        seed: an integer in [-2**63, 2**64), or a value that ``int()`` converts to one.

    Raises:
        ValueError: ``seed`` is not such an integer.
    """
    generator = default_generator.manual_seed(int(seed))
    if _C._cuda_started():
        for index in range(_C._cuda_count()):
            _C._cuda_generator(index).manual_seed(int(seed))
    return generator


def seed() -> int:
    """Seeds the default generator from the system's entropy and returns the seed."""
    return default_generator.seed()


def initial_seed() -> int:
    """Returns the seed of the default generator's current stream."""
    return default_generator.initial_seed()


def get_rng_state() -> Tensor:
    """Returns the default generator's state as a uint8 tensor."""
    return default_generator.get_state()


def set_rng_state(new_state: Tensor) -> None:
    """Restores a state of the default generator that ``get_rng_state`` returned.

    Raises:
        TypeError: ``new_state`` is not a 1-d uint8 tensor.
        RuntimeError: it has the wrong size.
    """
    default_generator.set_state(new_state)


@contextmanager
def fork_rng(
    devices: Any = None,
    enabled: bool = True,
    _caller: str = "fork_rng",
    _devices_kw: str = "devices",
    device_type: str = "cuda",
) -> Iterator[None]:
    """Restores the states of the default generators at the end of a with block.

    Args:
        devices: GPUs whose generators are restored, too; None: all that a program has used.
        enabled: False makes this do nothing.
        device_type: kind of those devices; ignored.

    Raises:
        RuntimeError: ``devices`` names a GPU that does not exist.
    """
    from cograd import cuda

    if devices is None:
        devices = range(_C._cuda_count()) if _C._cuda_started() else ()
    elif devices and not cuda.is_available():
        raise RuntimeError(
            f"{_caller}(): {_devices_kw}={devices!r} names GPUs, but there is no GPU"
        )
    if not enabled:
        yield
        return
    state, others = get_rng_state(), [(d, cuda.get_rng_state(d)) for d in devices]
    try:
        yield
    finally:
        set_rng_state(state)
        for device, other in others:
            cuda.set_rng_state(other, device)


def _from_pickle(self: Generator, state: Any) -> None:
    """Sets the state, passed alone or, as torch pickles it, after seed and offset."""
    self.set_state(state[-1] if isinstance(state, tuple) else state)


Generator.__setstate__ = _from_pickle  # type: ignore[attr-defined]


def thread_safe_generator() -> Generator | None:
    """Returns None, which stands for the default generator: workers of a loader are processes."""
    return None
