# SPDX-License-Identifier: BSD-3-Clause
"""AdaptiveLogSoftmaxWithLoss."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import cograd
from cograd import Tensor

from .. import functional as F
from .container import ModuleList, Sequential
from .linear import Linear
from .module import Module

__all__ = ["AdaptiveLogSoftmaxWithLoss"]


class _ASMoutput(NamedTuple):
    output: Tensor
    loss: Tensor


class AdaptiveLogSoftmaxWithLoss(Module):
    """Computes log_softmax over many classes of decreasing frequency, with the loss of the targets.

    The head has the frequent classes and one entry for each cluster of rare ones. A cluster's
    classes follow from a smaller projection, to floor(in_features / div_value^(i + 1)) features.

    Grave et al., Efficient softmax approximation for GPUs (arXiv:1609.04309).

    Args:
        in_features: features of the input.
        n_classes: number of classes, the most frequent first.
        cutoffs: the first class of each cluster, ascending, in [1, n_classes - 1].
        div_value: each cluster's projection has ``div_value`` times fewer features than the
            previous one.
        head_bias: whether the head has a bias.
        device, dtype: those of the parameters; None for the default.

    Raises:
        ValueError: ``cutoffs`` is empty, or not ascending within the classes.
        RuntimeError: shapes do not fit, or a target is not a class.

    Shape:
        - input: (N, in_features) or (in_features); target: (N) or (), in [0, n_classes).
        - output: (N) or (), log-probabilities of the targets; loss: (), minus their mean.
        - log_prob: (N, n_classes); predict: (N).
        - head.weight: (cutoffs[0] + clusters, in_features); tail.i.0.weight: (inner, in_features);
          tail.i.1.weight: (size of the cluster, inner).
        - dtypes: floating, that of the weights.
    """

    def __init__(
        self,
        in_features: int,
        n_classes: int,
        cutoffs: Sequence[int],
        div_value: float = 4.0,
        head_bias: bool = False,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        options = {"device": device, "dtype": dtype}
        super().__init__()
        cutoffs = list(cutoffs)
        if len(cutoffs) == 0:
            raise ValueError("cutoffs should be a sequence of length larger than 0")
        rising = cutoffs == sorted(cutoffs) and len(set(cutoffs)) == len(cutoffs)
        whole = all(int(c) == c for c in cutoffs)
        if not rising or min(cutoffs) <= 0 or max(cutoffs) > n_classes - 1 or not whole:
            raise ValueError(
                "cutoffs should be a sequence of unique, positive integers sorted in an "
                "increasing order, where each value is between 1 and n_classes-1"
            )
        self.in_features = in_features
        self.n_classes = n_classes
        self.cutoffs = [*cutoffs, n_classes]
        self.div_value = div_value
        self.head_bias = head_bias
        self.shortlist_size = self.cutoffs[0]
        self.n_clusters = len(self.cutoffs) - 1
        self.head_size = self.shortlist_size + self.n_clusters
        self.head = Linear(in_features, self.head_size, bias=head_bias, **options)
        self.tail = ModuleList()
        for i in range(self.n_clusters):
            inner = int(in_features // (div_value ** (i + 1)))
            size = self.cutoffs[i + 1] - self.cutoffs[i]
            first = Linear(in_features, inner, bias=False, **options)
            self.tail.append(Sequential(first, Linear(inner, size, bias=False, **options)))

    def reset_parameters(self) -> None:
        """Samples new weights."""
        self.head.reset_parameters()
        for pair in self.tail:
            assert isinstance(pair, Sequential)
            first, second = pair
            first.reset_parameters()
            second.reset_parameters()

    def forward(self, input_: Tensor, target_: Tensor) -> _ASMoutput:
        """Maps (N, in_features) and classes (N), or without N, to log-probabilities and loss."""
        if input_.dim() not in (1, 2):
            raise RuntimeError("1D or 2D input tensor expected, multi-dim inputs not supported")
        if target_.dim() != input_.dim() - 1:
            raise RuntimeError(
                f"{input_.dim() - 1}D target tensor expected for {input_.dim()}D input, got "
                f"{target_.dim()}D"
            )
        single = input_.dim() == 1
        rows = input_.unsqueeze(0) if single else input_
        target = target_.unsqueeze(0) if single else target_
        if rows.shape[0] != target.shape[0]:
            raise RuntimeError("Input and target should have the same size in the batch dimension.")
        if target.numel() and not 0 <= int(target.min()) <= int(target.max()) < self.n_classes:
            raise RuntimeError(
                f"Target values should be in [0, {self.n_classes - 1}], but values in range "
                f"[{int(target.min())}, {int(target.max())}] were found. "
            )
        head = F.log_softmax(self.head(rows), 1)
        entry = target
        extra = head.new_zeros(rows.shape[0])
        for i in range(self.n_clusters):
            low, high = self.cutoffs[i], self.cutoffs[i + 1]
            at = cograd.argwhere((target >= low) & (target < high))[:, 0]
            if at.numel() == 0:
                continue
            inside = F.log_softmax(self.tail[i](rows.index_select(0, at)), 1)
            own = inside.gather(1, (target[at] - low).unsqueeze(1)).squeeze(1)
            extra = extra.index_copy(0, at, own)
            entry = entry.index_fill(0, at, self.shortlist_size + i)
        output = extra + head.gather(1, entry.unsqueeze(1)).squeeze(1)
        loss = (-output).mean()
        return _ASMoutput(output.squeeze(0) if single else output, loss)

    def _get_full_log_prob(self, input: Tensor, head_output: Tensor) -> Tensor:
        head = F.log_softmax(head_output, 1)
        parts = [head[:, : self.shortlist_size]]
        for i, tail in enumerate(self.tail):
            inside = F.log_softmax(tail(input), 1)
            parts.append(inside + head[:, self.shortlist_size + i].unsqueeze(1))
        return cograd.cat(parts, 1)

    def log_prob(self, input: Tensor) -> Tensor:
        """Maps (N, in_features) to the log-probabilities (N, n_classes)."""
        return self._get_full_log_prob(input, self.head(input))

    def predict(self, input: Tensor) -> Tensor:
        """Maps (N, in_features) to the most probable classes (N); skips tails that don't matter."""
        head = self.head(input)
        best = head.argmax(1)
        rare = cograd.argwhere(best >= self.shortlist_size)[:, 0]
        if rare.numel() == 0:
            return best  # type: ignore[no-any-return]
        full = self._get_full_log_prob(input.index_select(0, rare), head.index_select(0, rare))
        return best.index_copy(0, rare, full.argmax(1))  # type: ignore[no-any-return]
