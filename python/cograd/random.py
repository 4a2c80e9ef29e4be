# SPDX-License-Identifier: BSD-3-Clause
"""The default stream of random numbers: seeding, saving and forking it."""

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
]


def set_rng(name: str) -> None:
    """Chooses the streams of random numbers: of the default generator, and of those made later.

    Args:
        name: ``"philox"``, cograd's own, or ``"torch"``, whose seeds give the numbers that torch
            gives on a CPU. The default generator restarts its seed if it had the other stream.

    Raises:
        ValueError: another name.
    """
    if name not in ("philox", "torch"):
        raise ValueError(f"set_rng(): expected 'philox' or 'torch', got {name!r}")
    _C._set_torch_stream(name == "torch")


def get_rng() -> str:
    """The name that ``set_rng`` was given; ``"philox"`` at first."""
    return "torch" if _C._torch_stream() else "philox"


def manual_seed(seed: Any) -> Generator:
    """Starts the default stream of ``seed`` and returns the default generator.

    Args:
        seed: an integer in [-2**63, 2**64), or something that ``int()`` makes one.

    Raises:
        ValueError: ``seed`` is no such integer.
    """
    return default_generator.manual_seed(int(seed))


def seed() -> int:
    """Seeds the default generator from the system's entropy and returns the seed."""
    return default_generator.seed()


def initial_seed() -> int:
    """The seed of the default generator's current stream."""
    return default_generator.initial_seed()


def get_rng_state() -> Tensor:
    """The default generator's state as a uint8 tensor."""
    return default_generator.get_state()


def set_rng_state(new_state: Tensor) -> None:
    """Puts the default generator into a state that ``get_rng_state`` gave.

    Raises:
        TypeError: ``new_state`` is no 1-d uint8 tensor.
        RuntimeError: it has the wrong size.
    """
    default_generator.set_state(new_state)


@contextmanager
def fork_rng(
    devices: Any = None,
    enabled: bool = True,
    _caller: str = "fork_rng",
    _devices_kw: str = "devices",
    device_type: str = "cpu",
) -> Iterator[None]:
    """Context manager after which the default generator is as it was before.

    Args:
        devices: accelerators to fork as well; there are none, so only None or an empty list.
        enabled: False makes this do nothing.
        device_type: kind of those accelerators; ignored.

    Raises:
        RuntimeError: ``devices`` names an accelerator.
    """
    if devices:
        raise RuntimeError(
            f"{_caller}(): {_devices_kw}={devices!r} names accelerators; there is only the CPU"
        )
    if not enabled:
        yield
        return
    state = get_rng_state()
    try:
        yield
    finally:
        set_rng_state(state)


def _from_pickle(self: Generator, state: Any) -> None:
    """The state alone, or behind seed and offset, as torch pickles it."""
    self.set_state(state[-1] if isinstance(state, tuple) else state)


Generator.__setstate__ = _from_pickle  # type: ignore[attr-defined]
