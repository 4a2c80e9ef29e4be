# SPDX-License-Identifier: BSD-3-Clause
"""Training with uneven inputs: ranks without inputs take part in the others' collectives."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from types import TracebackType
from typing import Any, NamedTuple

import cograd

__all__ = ["Join", "JoinHook", "Joinable"]

_SKEW = 1000  # iterations that a rank may fall behind without a warning


class JoinHook:
    """Defines what a rank does for a Joinable that has run out of inputs."""

    def main_hook(self) -> None:
        """Takes part in the communication of one iteration; called while some rank has inputs."""

    def post_hook(self, is_last_joiner: bool) -> None:
        """Runs once no rank has inputs; ``is_last_joiner`` is True on ranks that had the most."""


class _JoinConfig(NamedTuple):
    enable: bool = False
    throw_on_early_termination: bool = False
    is_first_joinable: bool = False


class Joinable(ABC):
    """An object that communicates in every iteration, and that ``Join`` can shadow."""

    @abstractmethod
    def __init__(self) -> None:
        super().__init__()
        self._join_config = _JoinConfig()

    @abstractmethod
    def join_hook(self, **kwargs: Any) -> JoinHook:
        """Returns the hook for one use of the context manager, which passes ``kwargs``."""

    @property
    @abstractmethod
    def join_device(self) -> cograd.device:
        """Returns the device of the context manager's own tensors."""

    @property
    @abstractmethod
    def join_process_group(self) -> Any:
        """Returns the group that the context manager communicates with."""


class _Notice:
    """An all_reduce in progress that counts the ranks with inputs."""

    def __init__(self, work: Any, present: cograd.Tensor) -> None:
        self._work = work
        self._present = present

    def is_completed(self) -> bool:
        """Returns whether all ranks have taken part."""
        return bool(self._work.is_completed())

    def wait(self) -> bool:
        """Waits for the other ranks."""
        self._work.wait()
        return True

    def result(self) -> list[cograd.Tensor]:
        """Returns the number of ranks that have inputs, in a list."""
        self._work.wait()
        return [self._present]


class Join:
    """Context manager for loops whose number of iterations differs between ranks.

    A rank that leaves the body early runs the hooks of ``joinables`` until all ranks have left it.

    Args:
        joinables: objects of one process group, in the order in which their hooks are to run.
        enable: False turns it off, for inputs that are known to be even.
        throw_on_early_termination: whether to raise on all ranks when the first one has no inputs
            left.
        kwargs: passed to ``join_hook`` of each joinable.

    Raises:
        ValueError: there are no joinables, or their process groups differ.
        RuntimeError: a rank has run out of inputs, with ``throw_on_early_termination``.
    """

    def __init__(
        self,
        joinables: list[Joinable],
        enable: bool = True,
        throw_on_early_termination: bool = False,
        **kwargs: Any,
    ) -> None:
        if len(joinables) == 0:
            raise ValueError("The join context manager requires at least one joinable")
        self._joinables = list(joinables)
        self._enable = enable
        self._throw = throw_on_early_termination
        group = self._joinables[0].join_process_group
        if any(joinable.join_process_group != group for joinable in self._joinables):
            raise ValueError("Using join context manager with multiple process groups")
        self._group = group
        self._rank = cograd.distributed.get_rank(group)
        self._join_hooks = [joinable.join_hook(**kwargs) for joinable in self._joinables]
        for index, joinable in enumerate(self._joinables):
            joinable._join_config = _JoinConfig(enable, throw_on_early_termination, index == 0)

    def __enter__(self) -> None:
        pass

    def __exit__(
        self,
        type: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            if self._enable and type is None:
                self._shadow()
        finally:
            for joinable in self._joinables:
                joinable._join_config = _JoinConfig()

    def _shadow(self) -> None:
        iterations = 0
        while self._count(0.0) > 0:
            if self._throw:
                self._count(1.0)
                raise RuntimeError(f"Rank {self._rank} exhausted all inputs.")
            if iterations == _SKEW:
                warnings.warn(
                    f"rank {self._rank} has at least {_SKEW} fewer inputs than others: their work "
                    "is not shared, and every iteration of theirs waits for it",
                    stacklevel=3,
                )
            for hook in self._join_hooks:
                hook.main_hook()
            iterations += 1
        for hook in self._join_hooks:
            hook.post_hook(iterations == 0)

    def _count(self, mine: float) -> float:
        """Returns the sum of ``mine`` over all ranks."""
        total = cograd.full((1,), mine)
        cograd.distributed.all_reduce(total, group=self._group)
        return float(total.item())

    @staticmethod
    def notify_join_context(joinable: Joinable) -> _Notice | None:
        """Tells the ranks without inputs that this rank has inputs.

        A Joinable calls it before the communication of an iteration.

        Returns:
            An object whose ``result()`` is the number of ranks that have inputs, as a tensor; None
            if no context manager is active or if another Joinable notifies.

        Raises:
            RuntimeError: some rank has run out of inputs, with ``throw_on_early_termination``.
        """
        config = getattr(joinable, "_join_config", None)
        if config is None:
            raise AssertionError(
                f"{type(joinable).__name__}.__init__ does not call Joinable.__init__"
            )
        if not config.enable or not config.is_first_joinable:
            return None
        group = joinable.join_process_group
        present = cograd.ones(1)
        work = cograd.distributed.all_reduce(present, group=group, async_op=True)
        if config.throw_on_early_termination:
            out = cograd.zeros(1)
            cograd.distributed.all_reduce(out, group=group)
            if out.item():
                raise RuntimeError(
                    "Detected at least one rank that exhausted inputs. Throwing across all ranks."
                )
        return _Notice(work, present)
