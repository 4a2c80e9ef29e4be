# SPDX-License-Identifier: BSD-3-Clause
"""Averages a model's parameters over training, with equal or exponential weights."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from copy import deepcopy
from itertools import chain
from typing import Any

import cograd
from cograd import Tensor
from cograd.nn import Module

from ._lr_base import LRScheduler, per_group
from .optimizer import Optimizer

__all__ = [
    "SWALR",
    "AveragedModel",
    "get_ema_avg_fn",
    "get_ema_multi_avg_fn",
    "get_swa_avg_fn",
    "get_swa_multi_avg_fn",
    "update_bn",
]


def _check_decay(decay: float) -> None:
    if not 0.0 <= decay <= 1.0:
        raise ValueError(
            f"Invalid decay value {decay} provided. Please provide a value in [0,1] range."
        )


def _move(averaged: Sequence[Tensor], current: Sequence[Tensor], weight: float) -> None:
    """Moves ``averaged`` by the fraction ``weight`` towards ``current``, tensor by tensor."""
    for mean, new in zip(averaged, current):
        if mean.is_floating_point() or mean.is_complex():
            mean.lerp_(new, weight)
        else:
            mean.copy_(mean + weight * (new - mean))


def get_ema_multi_avg_fn(decay: float = 0.999) -> Callable[..., None]:
    """Returns a function that updates lists to decay * average + (1 - decay) * current.

    Polyak and Juditsky (1992), with exponential weights.

    Raises:
        ValueError: ``decay`` is not in [0, 1].
    """
    _check_decay(decay)

    @cograd.no_grad()
    def ema_update(averaged: Sequence[Tensor], current: Sequence[Tensor], _: Any) -> None:
        _move(averaged, current, 1 - decay)

    return ema_update


def get_swa_multi_avg_fn() -> Callable[..., None]:
    """Returns a function that updates lists of tensors to their mean over all models so far."""

    @cograd.no_grad()
    def swa_update(averaged: Sequence[Tensor], current: Sequence[Tensor], number: Any) -> None:
        _move(averaged, current, 1 / (int(number) + 1))

    return swa_update


def get_ema_avg_fn(decay: float = 0.999) -> Callable[..., Tensor]:
    """Returns a function that computes decay * average + (1 - decay) * current.

    Raises:
        ValueError: ``decay`` is not in [0, 1].
    """
    _check_decay(decay)

    @cograd.no_grad()
    def ema_update(averaged: Tensor, current: Tensor, _: Any) -> Tensor:
        mean: Tensor = decay * averaged + (1 - decay) * current
        return mean

    return ema_update


def get_swa_avg_fn() -> Callable[..., Tensor]:
    """Returns a function that computes the mean over all models so far."""

    @cograd.no_grad()
    def swa_update(averaged: Tensor, current: Tensor, number: Any) -> Tensor:
        mean: Tensor = averaged + (current - averaged) / (number + 1)
        return mean

    return swa_update


class AveragedModel(Module):
    """A copy of a model whose parameters are averages of the model's parameters.

    The first ``update_parameters`` copies them; later ones average. Izmailov et al., Averaging
    Weights Leads to Wider Optima and Better Generalization (arXiv:1803.05407).

    Args:
        model: the model to copy.
        device: device of the copy.
        avg_fn: maps (average, current, number of averaged models) to the new average; None is the
            mean.
        multi_avg_fn: the same for lists of tensors, which it writes in place.
        use_buffers: whether to average buffers too; otherwise they are copied.

    Raises:
        AssertionError: both functions are given.

    Shape:
        - input and output: those of ``model``.
        - n_averaged: (), int64, the number of models averaged so far.
    """

    n_averaged: Tensor

    def __init__(
        self,
        model: Module,
        device: Any = None,
        avg_fn: Callable[..., Tensor] | None = None,
        multi_avg_fn: Callable[..., None] | None = None,
        use_buffers: bool = False,
    ) -> None:
        super().__init__()
        if avg_fn is not None and multi_avg_fn is not None:
            raise AssertionError("Only one of avg_fn and multi_avg_fn should be provided")
        self.module = deepcopy(model)
        if device is not None:
            self.module = self.module.to(device)
        self.register_buffer("n_averaged", cograd.tensor(0, dtype=cograd.int64, device=device))
        self.avg_fn = avg_fn
        self.multi_avg_fn = multi_avg_fn
        self.use_buffers = use_buffers

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Returns the output of the averaged model."""
        return self.module(*args, **kwargs)

    def _averaged(self, model: Module) -> list[Tensor]:
        buffers = model.buffers() if self.use_buffers else ()
        return [tensor.detach() for tensor in chain(model.parameters(), buffers)]

    def update_parameters(self, model: Module) -> None:
        """Adds the parameters of ``model`` to the average; the first call copies them."""
        averaged, current = self._averaged(self.module), self._averaged(model)
        if self.n_averaged == 0:
            for mean, new in zip(averaged, current):
                mean.copy_(new)
        elif self.avg_fn is None:
            (self.multi_avg_fn or get_swa_multi_avg_fn())(averaged, current, self.n_averaged)
        else:
            for mean, new in zip(averaged, current):
                mean.copy_(self.avg_fn(mean, new, self.n_averaged))
        if not self.use_buffers:
            for mean, new in zip(self.module.buffers(), model.buffers()):
                mean.detach().copy_(new.detach())
        self.n_averaged += 1


def _is_batch_norm(module: Module) -> bool:
    return any(kind.__name__ == "_BatchNorm" for kind in type(module).__mro__)


@cograd.no_grad()
def update_bn(loader: Iterable[Any], model: Module, device: Any = None) -> None:
    """Recomputes the running statistics of all batch norms in one pass over the data.

    Args:
        loader: yields batches, or lists or tuples whose first item is the batch.
        model: the model whose batch norms are updated.
        device: the device to move batches to.
    """
    norms: list[Any] = [module for module in model.modules() if _is_batch_norm(module)]
    if not norms:
        return
    momenta = [norm.momentum for norm in norms]
    for norm in norms:
        norm.reset_running_stats()
        norm.momentum = None  # a plain mean over the batches
    training = model.training
    model.train()
    try:
        for batch in loader:
            batch = batch[0] if isinstance(batch, (list, tuple)) else batch
            model(batch if device is None else batch.to(device))
    finally:
        for norm, momentum in zip(norms, momenta):
            norm.momentum = momentum
        model.train(training)


class SWALR(LRScheduler):
    """Changes the rate to ``swa_lr`` in ``anneal_epochs`` epochs and then keeps it.

    Izmailov et al., Averaging Weights Leads to Wider Optima and Better Generalization
    (arXiv:1803.05407).

    Args:
        optimizer: the optimizer whose groups' 'lr' is set.
        swa_lr: the last rate, for all groups, or one for each.
        anneal_epochs: number of epochs of the change; 0 changes it at once.
        anneal_strategy: 'cos' or 'linear'.
        last_epoch: -1 for a new schedule, else the epoch to resume from; groups then need
            'initial_lr'.

    Raises:
        ValueError: ``anneal_strategy`` is unknown, or ``anneal_epochs`` is negative.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        swa_lr: float | Sequence[float],
        anneal_epochs: int = 10,
        anneal_strategy: str = "cos",
        last_epoch: int = -1,
    ) -> None:
        for group, lr in zip(optimizer.param_groups, per_group("swa_lr", optimizer, swa_lr)):
            group["swa_lr"] = lr
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(
                f"anneal_strategy must be one of 'cos' or 'linear', instead got {anneal_strategy}"
            )
        if not isinstance(anneal_epochs, int) or anneal_epochs < 0:
            raise ValueError(f"anneal_epochs must be equal or greater than 0, got {anneal_epochs}")
        self._anneal_strategy = anneal_strategy
        self.anneal_epochs = anneal_epochs
        super().__init__(optimizer, last_epoch)

    def anneal_func(self, t: float) -> float:
        """Returns how much of the change is done after the fraction ``t`` of the epochs."""
        return t if self._anneal_strategy == "linear" else (1 - math.cos(math.pi * t)) / 2

    def _way(self, step: int) -> float:
        return self.anneal_func(max(0, min(1, step / max(1, self.anneal_epochs))))

    def get_lr(self) -> list[Any]:
        """Returns the learning rates at this step."""
        self._warn_outside_step()
        step = self._step_count - 1
        if self.anneal_epochs == 0:
            step = max(1, step)
        before, now = self._way(step - 1), self._way(step)
        lrs = []
        for group, lr in zip(self.optimizer.param_groups, self._current()):
            end = group["swa_lr"]
            start = end if before == 1 else (lr - before * end) / (1 - before)
            lrs.append(end * now + start * (1 - now))
        return lrs
