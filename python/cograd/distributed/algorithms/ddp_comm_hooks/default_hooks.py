# SPDX-License-Identifier: BSD-3-Clause
"""Hooks that average over the ranks, in the gradients' dtype or a shorter one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import cograd
from cograd import Tensor
from cograd.distributed.grad_bucket import GradBucket
from cograd.futures import Future

__all__ = [
    "allreduce_hook",
    "bf16_compress_hook",
    "bf16_compress_wrapper",
    "fp16_compress_hook",
    "fp16_compress_wrapper",
]

Hook = Callable[[Any, GradBucket], Future[Tensor]]


def _first(value: Any) -> Tensor:
    tensor: Tensor = value[0] if isinstance(value, (list, tuple)) else value
    return tensor


def _mean(group: Any, tensor: Tensor) -> Future[Any]:
    tensor.div_(cograd.distributed.get_world_size(group))
    work = cograd.distributed.all_reduce(tensor, group=group, async_op=True)
    assert work is not None
    return work.get_future()


def allreduce_hook(process_group: Any, bucket: GradBucket) -> Future[Tensor]:
    """Averages over the group (None: all ranks), as is done without a hook."""
    return _mean(process_group, bucket.buffer()).then(lambda done: _first(done.value()))


def _compress(dtype: cograd.dtype, group: Any, bucket: GradBucket) -> Future[Tensor]:
    buffer = bucket.buffer()

    def decompress(done: Future[Any]) -> Tensor:
        buffer.copy_(_first(done.value()))
        return buffer

    return _mean(group, buffer.to(dtype)).then(decompress)


def fp16_compress_hook(process_group: Any, bucket: GradBucket) -> Future[Tensor]:
    """Averages over the group in float16: sends half the bytes of float32."""
    return _compress(cograd.float16, process_group, bucket)


def bf16_compress_hook(process_group: Any, bucket: GradBucket) -> Future[Tensor]:
    """Averages over the group in bfloat16: sends half the bytes, with the range of float32."""
    return _compress(cograd.bfloat16, process_group, bucket)


def _wrapped(hook: Hook, dtype: cograd.dtype) -> Hook:
    def compressed(state: Any, bucket: GradBucket) -> Future[Tensor]:
        buffer = bucket.buffer()
        bucket.set_buffer(buffer.to(dtype))

        def decompress(done: Future[Any]) -> Tensor:
            buffer.copy_(_first(done.value()))
            return buffer

        return hook(state, bucket).then(decompress)

    return compressed


def fp16_compress_wrapper(hook: Hook) -> Hook:
    """Runs ``hook`` on gradients in float16 and converts its result back."""
    return _wrapped(hook, cograd.float16)


def bf16_compress_wrapper(hook: Hook) -> Hook:
    """Runs ``hook`` on gradients in bfloat16 and converts its result back."""
    return _wrapped(hook, cograd.bfloat16)
