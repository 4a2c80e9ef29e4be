# SPDX-License-Identifier: BSD-3-Clause
"""The categorical distribution."""

from __future__ import annotations

from typing import Any

import cograd
from cograd import Tensor

from . import constraints
from .distribution import Distribution
from .utils import ProbsOrLogits

__all__ = ["Categorical"]


class Categorical(ProbsOrLogits, Distribution):
    """The integers 0, ..., K - 1 with the probabilities in the last dim of ``probs``.

    The mass is ``probs[x]``; categories are not quantities, so mean and variance are NaN. The batch
    shape is that of the parameter without its last dim, the event shape is ``()``, and samples are
    int64. There is no ``rsample``; ``log_prob`` is differentiable with respect to ``probs`` or
    ``logits``, whichever is given.

    Args:
        probs: tensor ``(..., K)`` of nonnegative numbers, which are divided by their sum over the
            last dim.
        logits: the logarithms of ``probs``, ``(..., K)``, instead of ``probs``; normalised
            likewise.
        validate_args: see ``Distribution``.

    Raises:
        ValueError: not exactly one of the two is given, it has no dim, or it is out of its range.
    """

    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}
    has_enumerate_support = True
    _is_binary = False

    def __init__(
        self,
        probs: Tensor | None = None,
        logits: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        if (probs is None) == (logits is None):
            raise ValueError("Either `probs` or `logits` must be specified, but not both.")
        name, given = ("probs", probs) if logits is None else ("logits", logits)
        if given.dim() < 1:  # type: ignore[union-attr]
            raise ValueError(f"`{name}` parameter must be at least one-dimensional.")
        if logits is None:
            self.probs = probs / probs.sum(-1, keepdim=True)  # type: ignore[operator,union-attr]
        else:
            self.logits = logits - logits.logsumexp(dim=-1, keepdim=True)
        self._num_events = self._param.size()[-1]
        super().__init__(self._param.size()[:-1], validate_args=validate_args)

    @constraints.dependent_property(is_discrete=True, event_dim=0)
    def support(self) -> Any:
        return constraints.integer_interval(0, self._num_events - 1)

    @property
    def mean(self) -> Tensor:
        return self.probs.new_full(self._extended_shape(), cograd.nan)

    @property
    def mode(self) -> Tensor:
        return self.probs.argmax(dim=-1)

    @property
    def variance(self) -> Tensor:
        return self.probs.new_full(self._extended_shape(), cograd.nan)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        rows = self.probs.detach().reshape((self._batch_shape.numel(), self._num_events))
        count = cograd.Size(sample_shape).numel()
        shape = self._extended_shape(sample_shape)
        if count == 0 or rows.shape[0] == 0:
            return rows.new_empty(shape, dtype=cograd.int64)
        return cograd.multinomial(rows, count, True).T.reshape(shape)

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        index, log_pmf = cograd.broadcast_tensors(value.long().unsqueeze(-1), self.logits)
        return log_pmf.gather(-1, index[..., :1]).squeeze(-1)

    def entropy(self) -> Tensor:
        # The logit of a probability of 0 may be -inf: clamp it, as 0 * -inf is NaN.
        logits = self.logits.clamp(min=cograd.finfo(self.logits.dtype).min)
        return -(logits * self.probs).sum(-1)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        return self._enumerated(cograd.arange(self._num_events, device=self._param.device), expand)
