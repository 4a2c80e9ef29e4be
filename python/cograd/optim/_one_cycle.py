# SPDX-License-Identifier: BSD-3-Clause
"""OneCycleLR."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ._lr_base import LRScheduler, per_group
from .optimizer import Optimizer


def _cosine(start: float, end: float, part: float) -> float:
    return end + (start - end) / 2.0 * (math.cos(math.pi * part) + 1)


def _linear(start: float, end: float, part: float) -> float:
    return (end - start) * part + start


class OneCycleLR(LRScheduler):
    """Raises the rate from ``max_lr / div_factor`` to ``max_lr``, then lowers it to far less.

    Call ``step`` after every batch. With ``cycle_momentum``, the momentum, or Adam's first beta,
    moves in the opposite direction. Smith and Topin, Super-Convergence: Very Fast Training of
    Neural Networks Using Large Learning Rates (arXiv:1708.07120).

    Args:
        optimizer: the optimizer whose groups' 'lr' is set.
        max_lr: the highest rate, for all groups, or one for each.
        total_steps: number of steps; None for epochs * steps_per_epoch.
        epochs, steps_per_epoch: factors of the number of steps.
        pct_start: the fraction of the steps in which the rate rises, a float in [0, 1].
        anneal_strategy: 'cos' or 'linear'.
        cycle_momentum: whether the momentum changes too.
        base_momentum: the lowest momentum, for all groups, or one for each.
        max_momentum: the highest momentum.
        div_factor: ``max_lr`` divided by the first rate.
        final_div_factor: the first rate divided by the last.
        three_phase: whether the rate falls to the first rate in as many steps as it rises, and then
            to the last.
        last_epoch: -1 for a new schedule, else the epoch to resume from; groups then need
            'initial_lr'.

    Raises:
        TypeError: ``optimizer`` is not an Optimizer.
        ValueError: no length is given, an option is out of range, ``cycle_momentum`` is set and the
            optimizer has no momentum, or there are more than ``total_steps`` steps.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        max_lr: float | Sequence[float],
        total_steps: int | None = None,
        epochs: int | None = None,
        steps_per_epoch: int | None = None,
        pct_start: float = 0.3,
        anneal_strategy: str = "cos",
        cycle_momentum: bool = True,
        base_momentum: float | Sequence[float] = 0.85,
        max_momentum: float | Sequence[float] = 0.95,
        div_factor: float = 25.0,
        final_div_factor: float = 1e4,
        three_phase: bool = False,
        last_epoch: int = -1,
    ) -> None:
        if not isinstance(optimizer, Optimizer):
            raise TypeError(f"{type(optimizer).__name__} is not an Optimizer")
        self.optimizer = optimizer
        self.total_steps = _total_steps(total_steps, epochs, steps_per_epoch)
        if not isinstance(pct_start, float) or not 0 <= pct_start <= 1:
            raise ValueError(f"Expected float between 0 and 1 pct_start, but got {pct_start}")
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(
                "anneal_strategy must be one of 'cos' or 'linear', instead got " + anneal_strategy
            )
        self._schedule_phases = _phases(self.total_steps, pct_start, three_phase)
        self._anneal_func_type = anneal_strategy
        self.cycle_momentum = cycle_momentum
        groups = optimizer.param_groups
        if last_epoch == -1:
            for group, top in zip(groups, per_group("max_lr", optimizer, max_lr)):
                group["initial_lr"] = top / div_factor
                group["max_lr"] = top
                group["min_lr"] = group["initial_lr"] / final_div_factor
        if cycle_momentum:
            if "momentum" not in optimizer.defaults and "betas" not in optimizer.defaults:
                raise ValueError(
                    "optimizer must support momentum or beta1 with `cycle_momentum` option enabled"
                )
            self.use_beta1 = "betas" in optimizer.defaults
            if last_epoch == -1:
                tops = per_group("max_momentum", optimizer, max_momentum)
                bases = per_group("base_momentum", optimizer, base_momentum)
                for group, top, base in zip(groups, tops, bases):
                    self._set_momentum(group, top)
                    group["max_momentum"], group["base_momentum"] = top, base
        super().__init__(optimizer, last_epoch)

    def _set_momentum(self, group: dict[str, Any], value: float) -> None:
        if self.use_beta1:
            group["betas"] = (value, *group["betas"][1:])
        else:
            group["momentum"] = value

    def _anneal_func(self, start: float, end: float, pct: float) -> float:
        kind = self._annealing_cos if self._anneal_func_type == "cos" else self._annealing_linear
        return kind(start, end, pct)

    @staticmethod
    def _annealing_cos(start: float, end: float, pct: float) -> float:
        return _cosine(start, end, pct)

    @staticmethod
    def _annealing_linear(start: float, end: float, pct: float) -> float:
        return _linear(start, end, pct)

    def get_lr(self) -> list[Any]:
        """Returns the learning rates at ``self.last_epoch``."""
        self._warn_outside_step()
        step = self.last_epoch
        if step > self.total_steps:
            raise ValueError(
                f"Tried to step {step} times. The specified number of total steps is "
                f"{self.total_steps}"
            )
        anneal = self._anneal_func
        lrs = []
        for group in self.optimizer.param_groups:
            start = 0.0
            for i, phase in enumerate(self._schedule_phases):
                end = phase["end_step"]
                if step <= end or i == len(self._schedule_phases) - 1:
                    part = (step - start) / (end - start)
                    lrs.append(anneal(group[phase["start_lr"]], group[phase["end_lr"]], part))
                    if self.cycle_momentum:
                        momenta = (group[phase["start_momentum"]], group[phase["end_momentum"]])
                        self._set_momentum(group, anneal(*momenta, part))
                    break
                start = end
        return lrs


def _total_steps(total: int | None, epochs: int | None, per_epoch: int | None) -> int:
    if total is not None:
        if total <= 0 or not isinstance(total, int):
            raise ValueError(f"Expected positive integer total_steps, but got {total}")
        return total
    if epochs is None or per_epoch is None:
        raise ValueError("You must define either total_steps OR (epochs AND steps_per_epoch)")
    if not isinstance(epochs, int) or epochs <= 0:
        raise ValueError(f"Expected positive integer epochs, but got {epochs}")
    if not isinstance(per_epoch, int) or per_epoch <= 0:
        raise ValueError(f"Expected positive integer steps_per_epoch, but got {per_epoch}")
    return epochs * per_epoch


def _phases(total: int, pct_start: float, three_phase: bool) -> list[dict[str, Any]]:
    """Returns the last step of each phase, and the options between which the phase moves."""
    warm = float(pct_start * total) - 1
    if three_phase:
        return [
            _phase(warm, "initial_lr", "max_lr", "max_momentum", "base_momentum"),
            _phase(2 * warm, "max_lr", "initial_lr", "base_momentum", "max_momentum"),
            _phase(total - 1, "initial_lr", "min_lr", "max_momentum", "max_momentum"),
        ]
    return [
        _phase(warm, "initial_lr", "max_lr", "max_momentum", "base_momentum"),
        _phase(total - 1, "max_lr", "min_lr", "base_momentum", "max_momentum"),
    ]


def _phase(end: float, *options: str) -> dict[str, Any]:
    keys = ("start_lr", "end_lr", "start_momentum", "end_momentum")
    return {"end_step": end, **dict(zip(keys, options))}
