# SPDX-License-Identifier: BSD-3-Clause
"""Differentiable messages between two ranks: the gradient is sent back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import cograd
import cograd.distributed as dist
from cograd import Tensor

from ._maps import Exchange, largest_tag
from ._node import communicate, depends_on

__all__ = ["exchange", "recv", "send", "sendrecv"]


def _checked(name: str, argument: str, pairs: Any, group: Any) -> list[tuple[Tensor, int]]:
    if not isinstance(pairs, (list, tuple)):
        raise TypeError(
            f"{name}(): argument '{argument}' must be a list of pairs (tensor, rank), not "
            f"{type(pairs).__name__}"
        )
    members = dist.get_process_group_ranks(group)
    found = []
    for pair in pairs:
        if not isinstance(pair, (list, tuple)) or len(pair) != 2:
            raise TypeError(f"{name}(): each of '{argument}' must be a pair (tensor, rank)")
        tensor, rank = pair
        if not isinstance(tensor, Tensor):
            raise TypeError(
                f"{name}(): argument '{argument}' must have tensors, not {type(tensor).__name__}"
            )
        if isinstance(rank, bool) or not isinstance(rank, int) or rank not in members:
            raise ValueError(
                f"{name}(): '{argument}' names rank {rank!r}, expected one of the group's ranks "
                f"{members}"
            )
        found.append((tensor, rank))
    return found


def _exchanged(name: str, sends: Any, receives: Any, group: Any, tag: int) -> tuple[Tensor, ...]:
    group = dist.group.WORLD if group is None else group
    if dist.get_rank(group) < 0:
        raise ValueError(f"{name}(): rank {dist.get_rank()} is not a member of the group")
    out = _checked(name, "sends", sends, group)
    into = _checked(name, "receives", receives, group)
    if not out and not into:
        return (cograd.empty(0),)
    tensors = [t for t, _ in (*out, *into)]
    kinds = {t.is_floating_point() or t.is_complex() for t in tensors}
    if len(kinds) > 1:
        raise TypeError(
            f"{name}(): tensors with and without gradients do not go together, got "
            f"{', '.join(str(t.dtype) for t in tensors)}; exchange them in two calls"
        )
    limit = largest_tag()
    if not 0 <= tag <= limit:
        raise ValueError(f"{name}(): tag is {tag}, expected 0 to {limit}")
    plan = Exchange(
        group,
        tuple(r for _, r in out),
        tuple(r for _, r in into),
        (tag,) * len(out),
        (tag,) * len(into),
    )
    return communicate(plan, tuple(tensors))


def send(tensor: Tensor, dst: int, group: Any = None, tag: int = 0) -> Tensor:
    """Sends to rank ``dst``, which must call ``recv`` of this module.

    It returns when ``tensor`` may be written again.

    Args:
        tensor: the message.
        dst: a global rank.
        group: a group that contains both ranks; None for all.
        tag: the receiver's tag, from 0 to ``largest_tag()``.

    Returns:
        A token, a tensor without elements. The gradient comes back when backward reaches it: make
        the loss depend on it by ``depends_on(loss, token)``, call ``token.sum().backward()`` on
        a rank without a loss, or send within ``ordered()``.
    """
    return _exchanged("send", [(tensor, dst)], [], group, tag)[0]


def recv(tensor: Tensor, src: int, group: Any = None, tag: int = 0) -> Tensor:
    """Returns the tensor that rank ``src`` sends; its gradient is sent back.

    Args:
        tensor: determines shape and dtype; it is neither read nor written.
        src: a global rank.
        group: a group that contains both ranks; None for all.
        tag: the sender's tag.
    """
    return _exchanged("recv", [], [(tensor, src)], group, tag)[0]


def exchange(
    sends: Sequence[tuple[Tensor, int]],
    receives: Sequence[tuple[Tensor, int]],
    group: Any = None,
    tag: int = 0,
) -> tuple[Tensor, ...]:
    """Sends and receives all at once, so that no order of the ranks' calls can deadlock.

    The adjoint is the reverse exchange. Messages between two ranks are matched in the order of the
    lists. A rank may send to itself.

    Args:
        sends: pairs (tensor, rank to send to).
        receives: pairs (tensor that determines shape and dtype, rank to receive from).
        group: a process group; None for all ranks.
        tag: the same tag on both sides.

    Returns:
        The received tensors, in the order of ``receives``; if there is nothing to receive, a tuple
        of one token, as ``send`` returns it.
    """
    return _exchanged("exchange", sends, receives, group, tag)


def sendrecv(
    tensor: Tensor,
    dst: int | None,
    src: int | None,
    group: Any = None,
    tag: int = 0,
    *,
    like: Tensor | None = None,
) -> Tensor:
    """Sends ``tensor`` to ``dst`` and returns what ``src`` sends: one step of a halo exchange.

    Args:
        tensor: the message.
        dst: a global rank, or None to send nothing, such as at the end of a row of ranks.
        src: a global rank, or None to receive nothing; the result is then zeros.
        group: a process group; None for all ranks.
        tag: the same tag on all ranks.
        like: determines shape and dtype of the received tensor; None for those of ``tensor``.
    """
    like = tensor if like is None else like
    sends = [] if dst is None else [(tensor, dst)]
    if src is not None:
        return _exchanged("sendrecv", sends, [(like, src)], group, tag)[0]
    zeros = cograd.zeros_like(like)
    if not sends:
        return zeros
    token = _exchanged("sendrecv", sends, [], group, tag)[0]
    return depends_on(zeros, token) if token.requires_grad else zeros
