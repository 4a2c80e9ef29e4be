# SPDX-License-Identifier: BSD-3-Clause
"""ZeroRedundancyOptimizer: each rank has the optimizer state of its part of the parameters."""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain
from typing import Any

import cograd
from cograd import Tensor
from cograd.distributed.algorithms.join import Join, Joinable, JoinHook
from cograd.optim import Optimizer

__all__ = ["ZeroRedundancyOptimizer"]

_TOGETHER = 1 << 16  # bytes below which parameters are sent in one message


class _ZeroJoinHook(JoinHook):
    def __init__(self, zero: ZeroRedundancyOptimizer) -> None:
        self.zero = zero

    def main_hook(self) -> None:
        """Updates the rank's own part, whose state it has even without inputs."""
        self.zero._step_and_share(None)


class ZeroRedundancyOptimizer(Optimizer, Joinable):
    """Runs ``optimizer_class`` on a part of the parameters; ``step`` sends each part to all ranks.

    Parameters are assigned to ranks by size, the largest first, each to the rank that has the
    least. All ranks must create it with the same parameters, and have the same gradients at each
    step, as after the backward of DistributedDataParallel.

    Args:
        params: tensors or groups, as for any optimizer.
        optimizer_class: a class such as ``optim.Adam``.
        process_group: None for all ranks.
        parameters_as_bucket_view: whether a rank's parameters become views of one tensor, which is
            sent without copies.
        overlap_with_ddp: not supported.
        defaults: options of ``optimizer_class``.

    Raises:
        NotImplementedError: ``overlap_with_ddp`` is set.
    """

    def __init__(
        self,
        params: Any,
        optimizer_class: type[Optimizer],
        process_group: Any = None,
        parameters_as_bucket_view: bool = False,
        overlap_with_ddp: bool = False,
        **defaults: Any,
    ) -> None:
        if overlap_with_ddp:
            raise NotImplementedError(
                "ZeroRedundancyOptimizer: overlap_with_ddp=True is not offered; step after backward"
            )
        dist = cograd.distributed
        self.world_size: int = dist.get_world_size(process_group)
        self.rank: int = dist.get_rank(process_group)
        self.process_group: Any = dist.group.WORLD if process_group is None else process_group
        self.parameters_as_bucket_view = parameters_as_bucket_view
        self._optimizer_class = optimizer_class
        self._loads = [0] * self.world_size
        self._owner: dict[int, int] = {}
        self._gathered: list[dict[str, Any]] = []
        self._messages: list[tuple[int, list[Tensor], Tensor | None]] | None = None
        self._local: Optimizer | None = None
        Joinable.__init__(self)
        super().__init__(params, dict(defaults))
        self._local = optimizer_class(
            [self._part(group) for group in self.param_groups], **defaults
        )
        self.defaults = self._local.defaults
        self._copy_options(self._local.param_groups, self.param_groups)

    @property
    def optim(self) -> Optimizer:
        """Returns the optimizer of this rank's part."""
        assert self._local is not None
        return self._local

    # parts

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Adds a group, and assigns each of its parameters to a rank."""
        super().add_param_group(param_group)
        group = self.param_groups[-1]
        for parameter in sorted(group["params"], key=lambda p: -p.numel()):
            rank = min(range(self.world_size), key=self._loads.__getitem__)
            self._loads[rank] += parameter.numel()
            self._owner[id(parameter)] = rank
        self._messages = None
        if self._local is not None:
            self._local.add_param_group(self._part(group))
            self._copy_options(self._local.param_groups, self.param_groups)

    def _part(self, group: dict[str, Any]) -> dict[str, Any]:
        """Returns the group with only this rank's parameters."""
        mine = [self._owner[id(p)] == self.rank for p in group["params"]]
        part = dict(group)
        for key in ("params", "param_names"):
            if key in group:
                part[key] = [value for value, own in zip(group[key], mine, strict=True) if own]
        if "param_names" in part:
            part["params"] = list(zip(part.pop("param_names"), part["params"], strict=True))
        return part

    @staticmethod
    def _copy_options(source: list[dict[str, Any]], target: list[dict[str, Any]]) -> None:
        for have, want in zip(source, target, strict=True):
            for key, value in have.items():
                if key not in ("params", "param_names"):
                    want[key] = value

    # stepping

    def step(self, closure: Callable[[], Any] | None = None, **kwargs: Any) -> Any:
        """Updates this rank's part, and receives the other parts.

        Returns:
            the result of ``closure``, or None.
        """
        Join.notify_join_context(self)
        return self._step_and_share(closure, **kwargs)

    def _step_and_share(self, closure: Callable[[], Any] | None, **kwargs: Any) -> Any:
        self._copy_options(self.param_groups, self.optim.param_groups)
        loss = self.optim.step(**kwargs) if closure is None else self.optim.step(closure, **kwargs)
        self._copy_options(self.optim.param_groups, self.param_groups)
        self._share()
        return loss

    def _share(self) -> None:
        """Sends each rank's parameters to all ranks."""
        if self.world_size == 1:
            return
        dist = cograd.distributed
        if self._messages is None:
            self._messages = self._plan()
        works: list[Any] = []
        with cograd.no_grad():
            for owner, members, flat in self._messages:
                if flat is None:
                    value = members[0].detach()
                else:
                    value = flat
                    if owner == self.rank and not self.parameters_as_bucket_view:
                        cograd.cat([p.detach().reshape(-1) for p in members], out=flat)
                source = dist.get_global_rank(self.process_group, owner)
                works.append(dist.broadcast(value, source, group=self.process_group, async_op=True))
            for (owner, members, flat), work in zip(self._messages, works, strict=True):
                work.wait()
                if flat is None or owner == self.rank or self.parameters_as_bucket_view:
                    continue
                pieces = flat.split([p.numel() for p in members])
                for parameter, piece in zip(members, pieces, strict=True):
                    parameter.detach().copy_(piece.view(parameter.shape))

    def _plan(self) -> list[tuple[int, list[Tensor], Tensor | None]]:
        """Returns a step's messages: owner, parameters, and flat tensor (None: sent directly)."""
        together: dict[tuple[int, cograd.dtype, cograd.device], list[Tensor]] = {}
        plan: list[tuple[int, list[Tensor], Tensor | None]] = []
        for parameter in chain.from_iterable(group["params"] for group in self.param_groups):
            if parameter.numel() == 0:
                continue
            owner = self._owner[id(parameter)]
            large = parameter.numel() * parameter.element_size() >= _TOGETHER
            if large and parameter.is_contiguous() and not self.parameters_as_bucket_view:
                plan.append((owner, [parameter], None))
            else:
                key = owner, parameter.dtype, parameter.device
                together.setdefault(key, []).append(parameter)
        for (owner, dtype, device), members in together.items():
            flat = cograd.empty(sum(p.numel() for p in members), dtype=dtype, device=device)
            if self.parameters_as_bucket_view:
                pieces = flat.split([p.numel() for p in members])
                for parameter, piece in zip(members, pieces, strict=True):
                    view = piece.view(parameter.shape)
                    view.copy_(parameter.detach())
                    parameter.data = view
            plan.append((owner, members, flat))
        return plan

    # saving

    def _indices(self, rank: int) -> list[int]:
        """Returns the positions of a rank's parameters among all, in its optimizer's order."""
        everything = chain.from_iterable(group["params"] for group in self.param_groups)
        return [i for i, p in enumerate(everything) if self._owner[id(p)] == rank]

    def consolidate_state_dict(self, to: int = 0) -> None:
        """Collects the state of all parts on rank ``to`` of the group; all ranks must call it."""
        self._copy_options(self.param_groups, self.optim.param_groups)
        dist = cograd.distributed
        own = self.optim.state_dict()["state"]
        found: list[Any] | None = [None] * self.world_size if self.rank == to else None
        target = dist.get_global_rank(self.process_group, to)
        dist.gather_object(own, found, dst=target, group=self.process_group)
        self._gathered = [] if found is None else found

    def state_dict(self) -> dict[str, Any]:
        """Returns the state_dict of one optimizer over all parameters, for any number of ranks.

        Raises:
            RuntimeError: ``consolidate_state_dict`` has not collected the state on this rank.
        """
        if not self._gathered:
            raise RuntimeError(
                "Optimizer state has not been consolidated on this rank. Please call "
                f"`consolidate_state_dict(to={self.rank})` on all ranks beforehand if you meant "
                "to save the global state."
            )
        result = super().state_dict()
        for rank, part in enumerate(self._gathered):
            where = self._indices(rank)
            for key, value in part.items():
                result["state"][where[key] if isinstance(key, int) else key] = value
        result["state"] = dict(
            sorted(result["state"].items(), key=lambda item: (isinstance(item[0], str), item[0]))
        )
        return result

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restores a result of ``state_dict``, also one from another number of ranks.

        Each rank keeps only the state of its own part. It also accepts the ``state_dict`` of a
        plain ``optimizer_class`` over the same parameters.
        """
        old = list(chain.from_iterable(g["params"] for g in state_dict["param_groups"]))
        super().load_state_dict({**state_dict, "state": {}})
        mine = self._indices(self.rank)
        state = {
            new: state_dict["state"][old[index]]
            for new, index in enumerate(mine)
            if old[index] in state_dict["state"]
        }
        self._copy_options(self.param_groups, self.optim.param_groups)
        groups = self.optim.state_dict()["param_groups"]
        self.optim.load_state_dict({"state": state, "param_groups": groups})
        self._gathered = []

    # uneven inputs

    def join_hook(self, **kwargs: Any) -> JoinHook:
        """Returns the hook of a rank without inputs; see ``distributed.algorithms.join``."""
        return _ZeroJoinHook(self)

    @property
    def join_device(self) -> cograd.device:
        """Returns the CPU."""
        return cograd.device("cpu")

    @property
    def join_process_group(self) -> Any:
        """Returns the group among whose ranks the state is divided."""
        return self.process_group
