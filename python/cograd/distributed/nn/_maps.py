# SPDX-License-Identifier: BSD-3-Clause
"""Communications as linear maps, each with its adjoint.

The ranks' tensors together form one vector, and a communication is a linear map of it. The adjoint
is a communication, too; both run here on plain tensors, without recording.
"""

from __future__ import annotations

import weakref
from dataclasses import dataclass, replace
from typing import Any

import cograd
import cograd.distributed as dist
from cograd import Tensor
from cograd.distributed._calls.p2p import RESERVED
from cograd.distributed._mpi import runtime as _runtime

__all__ = [
    "AllGather",
    "AllReduce",
    "AllToAll",
    "Broadcast",
    "Exchange",
    "Gather",
    "Map",
    "Reduce",
    "ReduceScatter",
    "Scatter",
    "largest_tag",
]


@dataclass(frozen=True)
class Map:
    """A linear communication among the members of ``group``."""

    group: Any

    sample_dim = 0  # dim of vmap's batch in the inputs
    result_dim = 0  # and in the results

    def run(self, tensors: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        """Returns this rank's results for this rank's ``tensors``."""
        raise NotImplementedError

    def adjoint(self) -> Map:
        """Returns the map from the gradients of the results to those of the inputs."""
        raise NotImplementedError

    def pull(self, grads: tuple[Tensor, ...], likes: list[Any]) -> tuple[Tensor, ...]:
        """Returns the inputs of the adjoint: by default the gradients of the results."""
        return grads

    def pulled(self, results: tuple[Tensor, ...]) -> tuple[Tensor | None, ...]:
        """Selects the gradients of the inputs from the adjoint's results."""
        return results

    def ranks(self) -> int:
        """Returns the number of members of the group."""
        return dist.get_world_size(self.group)

    def is_rank(self, rank: int) -> bool:
        """Returns whether this process has the global rank ``rank``."""
        return dist.get_rank() == rank


def _own(tensor: Tensor) -> Tensor:
    """Returns a contiguous copy, which MPI may write."""
    return tensor.detach().clone(memory_format=cograd.contiguous_format)


@dataclass(frozen=True)
class AllReduce(Map):
    """The sum on all ranks; its own adjoint. Other ops serve dtypes without derivatives."""

    op: Any = dist.ReduceOp.SUM

    def run(self, tensors: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        out = _own(tensors[0])
        dist.all_reduce(out, self.op, group=self.group)
        return (out,)

    def adjoint(self) -> Map:
        return self


@dataclass(frozen=True)
class Broadcast(Map):
    """The tensor of rank ``root`` on all ranks; the adjoint sums the gradients on ``root``."""

    root: int

    def run(self, tensors: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        here = self.is_rank(self.root)
        out = _own(tensors[0]) if here else _empty(tensors[0], tensors[0].shape)
        dist.broadcast(out, self.root, group=self.group)
        return (out,)

    def adjoint(self) -> Map:
        return Reduce(self.group, self.root)


@dataclass(frozen=True)
class Reduce(Map):
    """The sum on rank ``root``, zeros elsewhere."""

    root: int

    def run(self, tensors: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        out = _own(tensors[0])
        dist.reduce(out, self.root, group=self.group)
        return (out if self.is_rank(self.root) else out.zero_(),)

    def adjoint(self) -> Map:
        return Broadcast(self.group, self.root)


def _empty(like: Tensor, shape: Any) -> Tensor:
    return cograd.empty(tuple(shape), dtype=like.dtype, device=like.device)


@dataclass(frozen=True)
class AllGather(Map):
    """All ranks' tensors stacked in a new first dim, on all ranks."""

    result_dim = 1

    def run(self, tensors: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        x = tensors[0].detach().contiguous()
        out = _empty(x, (self.ranks(), *x.shape))
        dist.all_gather_into_tensor(out.view(-1), x.view(-1), group=self.group)
        return (out,)

    def adjoint(self) -> Map:
        return ReduceScatter(self.group)


@dataclass(frozen=True)
class ReduceScatter(Map):
    """The sum over the ranks of the row for this rank; tensors have one row for each rank."""

    sample_dim = 1

    def run(self, tensors: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        x = tensors[0].detach().contiguous()
        out = _empty(x, x.shape[1:])
        dist.reduce_scatter_tensor(out.view(-1), x.view(-1), group=self.group)
        return (out,)

    def adjoint(self) -> Map:
        return AllGather(self.group)


@dataclass(frozen=True)
class Gather(Map):
    """All ranks' tensors stacked in a new first dim on rank ``root``, zeros elsewhere."""

    root: int
    result_dim = 1

    def run(self, tensors: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        x = tensors[0].detach().contiguous()
        out = cograd.zeros((self.ranks(), *x.shape), dtype=x.dtype, device=x.device)
        rows = list(out.unbind(0)) if self.is_rank(self.root) else None
        dist.gather(x, rows, dst=self.root, group=self.group)
        return (out,)

    def adjoint(self) -> Map:
        return Scatter(self.group, self.root)


@dataclass(frozen=True)
class Scatter(Map):
    """The row for this rank of the tensor on rank ``root``."""

    root: int
    sample_dim = 1

    def run(self, tensors: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        x = tensors[0].detach()
        out = _empty(x, x.shape[1:])
        rows = list(x.contiguous().unbind(0)) if self.is_rank(self.root) else None
        dist.scatter(out, rows, src=self.root, group=self.group)
        return (out,)

    def adjoint(self) -> Map:
        return Gather(self.group, self.root)


@dataclass(frozen=True)
class AllToAll(Map):
    """Sends ``sends[r]`` rows to each rank r and receives ``receives[r]``, in rank order."""

    sends: tuple[int, ...]
    receives: tuple[int, ...]
    sample_dim = 1
    result_dim = 1

    def run(self, tensors: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        x = tensors[0].detach().contiguous()
        out = _empty(x, (sum(self.receives), *x.shape[1:]))
        dist.all_to_all_single(out, x, list(self.receives), list(self.sends), group=self.group)
        return (out,)

    def adjoint(self) -> Map:
        return AllToAll(self.group, self.receives, self.sends)


@dataclass(frozen=True)
class Exchange(Map):
    """Messages to and from other ranks, all in progress at the same time.

    The inputs are the tensors to send, and then for each tensor to receive one of its shape and
    dtype, which is not read. ``tags`` are those of the messages, and ``back`` those of their
    gradients.
    """

    to: tuple[int, ...]
    source: tuple[int, ...]
    to_tags: tuple[int, ...]
    source_tags: tuple[int, ...]
    back: tuple[tuple[int, ...], tuple[int, ...]] = ((), ())

    def numbered(self) -> Exchange:
        """Returns a copy with gradient tags, which count the messages between two ranks."""
        to = tuple(_gradient_tag(self.group, True, *m) for m in zip(self.to, self.to_tags))
        source = tuple(
            _gradient_tag(self.group, False, *m) for m in zip(self.source, self.source_tags)
        )
        return replace(self, back=(to, source))

    def run(self, tensors: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        me, debug = dist.get_rank(), dist.get_debug_level() is not dist.DebugLevel.OFF
        # NCCL has no tags, and its messages in two directions would wait for each other.
        sends = [
            (t.detach().cpu().contiguous(), rank, tag)
            for t, rank, tag in zip(tensors, self.to, self.to_tags, strict=False)
        ]
        likes = tensors[len(self.to) :]
        results = tuple(cograd.empty(t.shape, dtype=t.dtype, device="cpu") for t in likes)
        receives = list(zip(results, self.source, self.source_tags, strict=True))
        if debug:
            self._compare(sends, receives)
        work = [
            dist.irecv(t, rank, group=self.group, tag=tag)
            for t, rank, tag in receives
            if rank != me
        ]
        work += [
            dist.isend(t, rank, group=self.group, tag=tag) for t, rank, tag in sends if rank != me
        ]
        to_self = [(t, tag) for t, rank, tag in sends if rank == me]
        for out, rank, tag in receives:
            if rank == me:
                out.copy_(_to_myself(to_self, tag, out))
        _wait(work)
        return tuple(t.to(like.device) for t, like in zip(results, likes, strict=True))

    def _compare(self, sends: list[Any], receives: list[Any]) -> None:
        """In debug mode, compares shape and dtype between the two sides of each message."""
        me, group = dist.get_rank(), self.group
        messages = [
            (*message, verb, label)
            for given, verb, labels in (
                (receives, "sends", self.back[1]),
                (sends, "expects", self.back[0]),
            )
            for message, label in zip(given, labels, strict=True)
            if message[1] != me
        ]
        heard = [cograd.empty(_WORDS, dtype=cograd.uint8) for _ in messages]
        work = [
            dist.irecv(raw, rank, group=group, tag=label)
            for raw, (_, rank, _, _, label) in zip(heard, messages, strict=True)
        ]
        work += [
            dist.isend(_words(tensor), rank, group=group, tag=label)
            for tensor, rank, _, _, label in messages
        ]
        _wait(work)
        for raw, (tensor, rank, tag, verb, _) in zip(heard, messages, strict=True):
            if not cograd.equal(raw, _words(tensor)):
                own = "expects" if verb == "sends" else "sends"
                found = bytes(raw.tolist()).rstrip().decode(errors="replace")
                raise dist.DistBackendError(
                    f"rank {me} {own} {list(tensor.shape)} {tensor.dtype} with tag {tag}, and rank "
                    f"{rank} {verb} {found}"
                )

    def adjoint(self) -> Map:
        to_back, source_back = self.back
        return Exchange(self.group, self.source, self.to, source_back, to_back)

    def pull(self, grads: tuple[Tensor, ...], likes: list[Any]) -> tuple[Tensor, ...]:
        more = likes[: len(self.to)]
        return (*grads, *(cograd.empty(s, dtype=d, device=at) for s, d, at in more))

    def pulled(self, results: tuple[Tensor, ...]) -> tuple[Tensor | None, ...]:
        return (*results[: len(self.to)], *[None] * len(self.source))


def _wait(work: list[Any]) -> None:
    for each in work:
        if each is not None:
            each.wait()


_WORDS = 256  # bytes of the description of a message


def _words(tensor: Tensor) -> Tensor:
    text = f"{list(tensor.shape)} {tensor.dtype}".encode()[:_WORDS].ljust(_WORDS)
    return cograd.tensor(list(text), dtype=cograd.uint8)


def _to_myself(messages: list[tuple[Tensor, int]], tag: int, out: Tensor) -> Tensor:
    """Removes and returns the first message of this rank to itself that has the tag."""
    at = next((i for i, (_, other) in enumerate(messages) if other == tag), None)
    if at is None:
        raise ValueError(
            f"exchange: rank {dist.get_rank()} receives from itself with tag {tag} what it does "
            "not send in the same call; send and receive in one exchange or sendrecv"
        )
    x, _ = messages.pop(at)
    if x.shape != out.shape or x.dtype != out.dtype:
        raise ValueError(
            f"exchange: rank {dist.get_rank()} sends itself {list(x.shape)} {x.dtype} and expects "
            f"{list(out.shape)} {out.dtype}"
        )
    return x


_counts: weakref.WeakKeyDictionary[Any, dict[tuple[bool, int, int], int]] = (
    weakref.WeakKeyDictionary()
)


def largest_tag() -> int:
    """Returns the largest tag of a differentiable message; larger ones are for gradients."""
    return (_runtime.get().tag_limit - RESERVED) // 2


def _gradient_tag(group: Any, to: bool, rank: int, tag: int) -> int:
    """Returns a tag for a message's gradient that differs from those of adjacent messages.

    So a gradient that nobody waits for is never mistaken for another one.
    """
    counts = _counts.setdefault(group, {})
    key = (to, rank, tag)
    count = counts[key] = counts.get(key, 0) + 1
    low = largest_tag() + 1
    return low + (tag * 40503 + count) % (low - 1)
