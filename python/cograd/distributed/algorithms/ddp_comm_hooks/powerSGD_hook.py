# SPDX-License-Identifier: BSD-3-Clause
# ruff: noqa: N999  (torch's spelling)
"""PowerSGD (Vogels, Karimireddy, Jaggi 2019): sends gradients as products of thin matrices."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import cograd
from cograd import Tensor
from cograd._utils import _flatten_dense_tensors, _unflatten_dense_tensors
from cograd.distributed.grad_bucket import GradBucket
from cograd.futures import Future

from .default_hooks import allreduce_hook

__all__ = ["PowerSGDState", "batched_powerSGD_hook", "powerSGD_hook"]


class PowerSGDState:
    """Settings of ``powerSGD_hook``, and its state between iterations.

    Args:
        process_group: None for all ranks.
        matrix_approximation_rank: number of columns of the factors.
        start_powerSGD_iter: number of initial iterations with plain averages.
        min_compression_rate: a matrix is compressed if it shrinks by more than this factor.
        use_error_feedback: whether to add what compression lost to the next gradient.
        warm_start: whether to start each power iteration with the previous factor.
        orthogonalization_epsilon: added to the diagonal of R, to avoid division by zero.
        random_seed: seed of the first factors, the same on all ranks.
        compression_stats_logging_frequency, batch_tensors_with_same_shape: accepted and ignored.

    Raises:
        ValueError: a rank, rate or iteration is out of range.
    """

    def __init__(
        self,
        process_group: Any,
        matrix_approximation_rank: int = 1,
        start_powerSGD_iter: int = 1_000,
        min_compression_rate: float = 2,
        use_error_feedback: bool = True,
        warm_start: bool = True,
        orthogonalization_epsilon: float = 0,
        random_seed: int = 0,
        compression_stats_logging_frequency: int = 10_000,
        batch_tensors_with_same_shape: bool = False,
    ) -> None:
        if matrix_approximation_rank < 1:
            raise ValueError(
                f"matrix_approximation_rank: expected 1 or more, got {matrix_approximation_rank}"
            )
        if min_compression_rate <= 0:
            raise ValueError(
                f"min_compression_rate: expected a positive number, got {min_compression_rate}"
            )
        if (use_error_feedback or warm_start) and start_powerSGD_iter <= 1:
            raise ValueError(
                "Expect `start_powerSGD_iter` > 1 if `use_error_feedback` or `warm_start` is "
                "enabled, because PowerSGD can only be applied after the first two iterations in "
                "DDP."
            )
        self.process_group = process_group
        self.matrix_approximation_rank = matrix_approximation_rank
        self.start_powerSGD_iter = start_powerSGD_iter
        self.min_compression_rate = min_compression_rate
        self.use_error_feedback = use_error_feedback
        self.warm_start = warm_start
        self.orthogonalization_epsilon = orthogonalization_epsilon
        self.random_seed = random_seed
        self.compression_stats_logging_frequency = compression_stats_logging_frequency
        self.batch_tensors_with_same_shape = batch_tensors_with_same_shape
        self.generator = cograd.Generator()
        self.generator.manual_seed(random_seed)
        self.error_dict: dict[int, Tensor] = {}
        self.q_memory_dict: dict[int, list[Tensor]] = {}
        self.iter = 0
        self.total_numel_before_compression = 0
        self.total_numel_after_compression = 0

    def compression_stats(self) -> tuple[float, int, int]:
        """Returns (rate, elements before, elements after) over everything sent compressed."""
        before, after = self.total_numel_before_compression, self.total_numel_after_compression
        return (before / after if after else 0.0), before, after


def _mean(state: PowerSGDState, tensor: Tensor) -> None:
    cograd.distributed.all_reduce(tensor, group=state.process_group)
    tensor.div_(cograd.distributed.get_world_size(state.process_group))


def _orthogonal(matrix: Tensor, epsilon: float) -> Tensor:
    """Returns orthonormal columns that span the columns of ``matrix``."""
    if epsilon == 0 and bool((matrix.norm(dim=0) > 0).all()):
        columns: Tensor = cograd.linalg.qr(matrix)[0]
        return columns
    kept: list[Tensor] = []
    for column in matrix.unbind(1):
        for other in kept:
            column = column - (other @ column) * other
        kept.append(column / (column.norm() + max(epsilon, 1e-8)))
    return cograd.stack(kept, 1)


def _factors(state: PowerSGDState, index: int, matrices: Sequence[Tensor]) -> list[Tensor]:
    known = state.q_memory_dict.get(index)
    shapes = [(m.shape[1], min(*m.shape, state.matrix_approximation_rank)) for m in matrices]
    if state.warm_start and known is not None and [tuple(q.shape) for q in known] == shapes:
        return known
    made = [
        cograd.randn(*shape, generator=state.generator, dtype=m.dtype)
        for shape, m in zip(shapes, matrices, strict=True)
    ]
    return [_orthogonal(q, state.orthogonalization_epsilon) for q in made]


def _worth(state: PowerSGDState, matrix: Tensor) -> bool:
    rows, columns = matrix.shape
    rank = min(rows, columns, state.matrix_approximation_rank)
    return (rows + columns) * rank * state.min_compression_rate < rows * columns


def _joint(parts: Sequence[Tensor]) -> tuple[Tensor, list[Tensor]]:
    """Returns one flat tensor of the values of all parts, and views of it in their shapes."""
    flat = _flatten_dense_tensors(parts)
    return flat, list(_unflatten_dense_tensors(flat, parts))


def _run(state: PowerSGDState, index: int, matrices: list[Tensor], plain: list[Tensor]) -> None:
    """Replaces ``matrices`` and ``plain`` by their (approximate) averages over the ranks."""
    factors = _factors(state, index, matrices)
    thin, views = _joint([m @ q for m, q in zip(matrices, factors, strict=True)] + plain)
    _mean(state, thin)
    for target, values in zip(plain, views[len(matrices) :], strict=True):
        target.copy_(values)
    if not matrices:
        return
    left = [_orthogonal(p, state.orthogonalization_epsilon) for p in views[: len(matrices)]]
    flat, right = _joint([m.T @ p for m, p in zip(matrices, left, strict=True)])
    _mean(state, flat)
    for matrix, p, q in zip(matrices, left, right, strict=True):
        matrix.copy_(p @ q.T)
    state.q_memory_dict[index] = [q.clone() for q in right]
    state.total_numel_before_compression += sum(m.numel() for m in matrices)
    state.total_numel_after_compression += sum(
        p.numel() + q.numel() for p, q in zip(left, right, strict=True)
    )


def _hook(state: PowerSGDState, bucket: GradBucket, batched: bool) -> Future[Tensor]:
    buffer = bucket.buffer()
    if state.iter < state.start_powerSGD_iter:
        state.iter += bucket.is_last()
        return allreduce_hook(state.process_group, bucket)
    index = bucket.index()
    error = state.error_dict.get(index)
    if state.use_error_feedback and error is not None and error.shape == buffer.shape:
        buffer.add_(error)
    before = buffer.clone() if state.use_error_feedback else None
    if batched:
        side = math.ceil(math.sqrt(buffer.numel()))
        square = cograd.zeros(side * side, dtype=buffer.dtype, device=buffer.device)
        square[: buffer.numel()] = buffer
        _run(state, index, [square.view(side, side)], [])
        buffer.copy_(square[: buffer.numel()])
    else:
        matrices, plain = [], []
        for gradient in bucket.gradients():
            matrix = gradient.view(gradient.shape[0], -1) if gradient.dim() > 1 else None
            if matrix is not None and _worth(state, matrix):
                matrices.append(matrix)
            else:
                plain.append(gradient)
        _run(state, index, matrices, plain)
    if before is not None:
        state.error_dict[index] = before.sub_(buffer)
        if not batched:  # gradients sent uncompressed have no error
            _forget_plain(state, bucket)
    state.iter += bucket.is_last()
    future: Future[Tensor] = Future()
    future.set_result(buffer)
    return future


def _forget_plain(state: PowerSGDState, bucket: GradBucket) -> None:
    error = state.error_dict[bucket.index()]
    start = 0
    for gradient in bucket.gradients():
        stop = start + gradient.numel()
        whole = gradient.dim() < 2 or not _worth(state, gradient.view(gradient.shape[0], -1))
        if whole:
            error[start:stop].zero_()
        start = stop


def powerSGD_hook(state: PowerSGDState, bucket: GradBucket) -> Future[Tensor]:
    """Approximates each matrix M among the gradients by P Q^T: P spans M Q, and Q is M^T P.

    It averages two thin matrices instead of M; other gradients are sent with the first one. The
    power iteration runs at once, so it does not overlap communication with backward.
    """
    return _hook(state, bucket, batched=False)


def batched_powerSGD_hook(state: PowerSGDState, bucket: GradBucket) -> Future[Tensor]:
    """Approximates the whole bucket as one square matrix: faster and less accurate."""
    return _hook(state, bucket, batched=True)
