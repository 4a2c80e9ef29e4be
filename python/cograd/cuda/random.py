# SPDX-License-Identifier: BSD-3-Clause
"""The random generators of the GPUs: one each, a Philox stream."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from cograd import _C
from cograd.cuda._devices import index_of, no_gpu

__all__ = [
    "get_rng_state",
    "get_rng_state_all",
    "initial_seed",
    "manual_seed",
    "manual_seed_all",
    "seed",
    "seed_all",
    "set_rng_state",
    "set_rng_state_all",
]


def _all() -> list[Any]:
    return [_C._cuda_generator(i) for i in range(_C._cuda_count())]


def _one(device: Any, what: str) -> Any:
    return _C._cuda_generator(index_of(None if device == "cuda" else device, what))


def manual_seed(seed: int) -> None:
    """Seeds the current GPU's generator; does nothing without a GPU."""
    seed = int(seed)
    if _C._cuda_count():
        _one(None, "manual_seed()").manual_seed(seed)


def manual_seed_all(seed: int) -> None:
    """Seeds the generators of all GPUs; ``cograd.manual_seed`` does this, too."""
    seed = int(seed)
    for generator in _all():
        generator.manual_seed(seed)


def seed() -> None:
    """Seeds the current GPU's generator from the system's entropy."""
    if _C._cuda_count():
        _one(None, "seed()").seed()


def seed_all() -> None:
    """Seeds the generators of all GPUs with one number from the system's entropy."""
    found = _all()
    for generator in found:
        generator.manual_seed(
            found[0].initial_seed() if generator is not found[0] else found[0].seed()
        )


def initial_seed() -> int:
    """Returns the seed of the current GPU's generator.

    Raises:
        RuntimeError: there is no GPU.
    """
    return int(_one(None, "initial_seed()").initial_seed())


def get_rng_state(device: Any = "cuda") -> Any:
    """Returns the state of a GPU's generator, a tensor of bytes on the CPU.

    Raises:
        RuntimeError: there is no such GPU.
    """
    return _one(device, "get_rng_state()").get_state()


def set_rng_state(new_state: Any, device: Any = "cuda") -> None:
    """Restores a state of a GPU's generator.

    Raises:
        RuntimeError: there is no such GPU.
    """
    _one(device, "set_rng_state()").set_state(new_state)


def get_rng_state_all() -> list[Any]:
    """Returns the states of all GPUs' generators."""
    return [generator.get_state() for generator in _all()]


def set_rng_state_all(new_states: Iterable[Any]) -> None:
    """Restores the states of all GPUs' generators.

    Raises:
        RuntimeError: there are more states than GPUs.
    """
    states, found = list(new_states), _all()
    if len(states) > len(found):
        if not found:
            no_gpu("set_rng_state_all()")
        raise RuntimeError(
            f"cuda.set_rng_state_all(): got {len(states)} states for {len(found)} GPUs"
        )
    for generator, state in zip(found, states, strict=False):
        generator.set_state(state)
