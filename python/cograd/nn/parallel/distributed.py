# SPDX-License-Identifier: BSD-3-Clause
"""Data parallelism: every rank has the whole module and its own part of each batch."""

from __future__ import annotations

import dataclasses
import inspect
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import cograd
from cograd import Tensor
from cograd.distributed.algorithms.join import Join, Joinable, JoinHook

from ..modules.module import Module
from ..parameter import UninitializedParameter
from ._ddp_join import DDPJoinHook, agree_on_rank
from ._reducer import Reducer
from ._sync import broadcast_tensors, verify_parameters

__all__ = ["DistributedDataParallel"]

_MIB = 1 << 20
_FIRST_MIB = 1.0  # the first bucket is small, so that communication begins early
_DEFAULT_MIB = 25.0


def _tensors(value: Any) -> Iterator[Tensor]:
    """Yields the tensors in an output, including those in sequences, dicts and dataclasses."""
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _tensors(item)
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from _tensors(item)
    elif dataclasses.is_dataclass(value):
        for field in dataclasses.fields(value):
            yield from _tensors(getattr(value, field.name))


def _caps(mib: float | None, mib_list: list[int] | None) -> list[int]:
    if mib_list is not None:
        if not mib_list or any(n <= 0 for n in mib_list):
            raise ValueError(f"bucket_cap_mb_list: expected positive sizes, got {mib_list}")
        return [int(n * _MIB) for n in mib_list]
    size = _DEFAULT_MIB if mib is None else float(mib)
    if size < 0:
        raise ValueError(f"bucket_cap_mb: expected a size of at least 0, got {mib}")
    return [int(min(size, _FIRST_MIB) * _MIB), int(size * _MIB)]


class DistributedDataParallel(Module, Joinable):
    """Averages the gradients of ``module`` over the ranks of a process group.

    The constructor compares the ranks' parameters and copies rank 0's to all. In backward,
    gradients are collected in buckets, in the order in which they arrive, and each bucket is summed
    over the ranks while backward goes on. With one rank there is no communication.

    Args:
        module: a module with at least one parameter that requires grad.
        device_ids, output_device: must be None or empty; move the module to its device before.
        dim: accepted for compatibility with torch.
        broadcast_buffers: whether rank 0's buffers are copied to all at construction and in every
            forward.
        init_sync: whether to compare and broadcast at construction.
        process_group: None for the default group.
        bucket_cap_mb: size of a bucket in MiB, 25 by default; the first one has at most 1 MiB.
        find_unused_parameters: whether a backward may miss some parameters; costs a graph
            traversal.
        check_reduction: has no effect.
        gradient_as_bucket_view: whether ``.grad`` is a view into a bucket, which saves one copy of
            all gradients.
        static_graph: whether each backward reaches the same parameters equally often; allows
            reentrant checkpoints.
        skip_all_reduce_unused_params: whether to skip buckets of unused parameters, which must be
            the same on all ranks.
        bucket_cap_mb_list: sizes of the first buckets; the last one applies to all further buckets.
        batched_grad_copy: has no effect: copies of small tensors are cheap here.
        forward_sync_buffers: as ``broadcast_buffers``, but only for forward.
        delay_all_reduce_named_params, param_to_hook_all_reduce, mixed_precision, device_mesh: not
            supported; must be None.

    Raises:
        RuntimeError: no parameter requires grad, the module contains a DistributedDataParallel, or
            the ranks' parameters differ.
        ValueError: there is no process group, or devices are given.
    """

    def __init__(
        self,
        module: Module,
        device_ids: Any = None,
        output_device: Any = None,
        dim: int = 0,
        broadcast_buffers: bool | None = None,
        init_sync: bool = True,
        process_group: Any = None,
        bucket_cap_mb: float | None = None,
        find_unused_parameters: bool = False,
        check_reduction: bool = False,
        gradient_as_bucket_view: bool = False,
        static_graph: bool = False,
        delay_all_reduce_named_params: Any = None,
        param_to_hook_all_reduce: Any = None,
        mixed_precision: Any = None,
        device_mesh: Any = None,
        skip_all_reduce_unused_params: bool = False,
        bucket_cap_mb_list: list[int] | None = None,
        batched_grad_copy: bool = False,
        forward_sync_buffers: bool | None = None,
    ) -> None:
        super().__init__()
        Joinable.__init__(self)
        _refuse(
            delay_all_reduce_named_params=delay_all_reduce_named_params,
            param_to_hook_all_reduce=param_to_hook_all_reduce,
            mixed_precision=mixed_precision,
            device_mesh=device_mesh,
        )
        if process_group is None:
            process_group = _default_group()
        self.process_group = process_group
        self.parameters_to_ignore = set(getattr(module, "_ddp_params_and_buffers_to_ignore", ()))
        _check_module(module, self.parameters_to_ignore)
        if device_ids or output_device is not None:
            raise ValueError(
                "DistributedDataParallel device_ids and output_device must be left out, because "
                f"the module stays where it is; got device_ids {device_ids} and output_device "
                f"{output_device}"
            )
        if check_reduction:
            warnings.warn("check_reduction has no effect", FutureWarning, stacklevel=2)
        self.module = module
        self.device_ids = None
        self.output_device = None
        self.device_type = "cpu"
        self.device = cograd.device("cpu")
        self.dim = dim
        buffers = True if broadcast_buffers is None else bool(broadcast_buffers)
        self.forward_sync_buffers = (
            buffers if forward_sync_buffers is None else bool(forward_sync_buffers)
        )
        self.find_unused_parameters = find_unused_parameters
        self.gradient_as_bucket_view = gradient_as_bucket_view
        self.static_graph = static_graph
        self.skip_all_reduce_unused_params = skip_all_reduce_unused_params
        self.require_backward_grad_sync = True
        self.require_forward_param_sync = True
        self._caps = _caps(bucket_cap_mb, bucket_cap_mb_list)
        self._comm_hook: tuple[Any, Any] | None = None
        self._reducer: Reducer | None = None
        self._alone = cograd.distributed.get_world_size(process_group) == 1
        if self._alone:
            return
        if init_sync:
            names, parameters = self._reduced()
            verify_parameters(names, parameters, process_group)
            init_buffers = buffers or forward_sync_buffers is not None
            self._broadcast_module(0, buffers=init_buffers)
        self._make_reducer()

    # what the ranks keep equal

    def _reduced(self) -> tuple[list[str], list[Tensor]]:
        """Returns the names and the parameters whose gradients are averaged."""
        named = [
            (name, parameter)
            for name, parameter in self.module.named_parameters()
            if parameter.requires_grad and name not in self.parameters_to_ignore
        ]
        return [name for name, _ in named], [parameter for _, parameter in named]

    def _make_reducer(self) -> None:
        names, parameters = self._reduced()
        self._reducer = Reducer(
            names,
            parameters,
            self.process_group,
            caps=self._caps,
            find_unused=self.find_unused_parameters,
            as_views=self.gradient_as_bucket_view,
            static_graph=self.static_graph,
            skip_unused=self.skip_all_reduce_unused_params,
        )
        self._reducer.comm_hook = self._comm_hook

    @property
    def reducer(self) -> Reducer:
        """Returns the part that averages gradients; with one rank it is created on first access."""
        if self._reducer is None:
            self._make_reducer()
        assert self._reducer is not None
        return self._reducer

    @property
    def broadcast_buffers(self) -> bool:
        """Returns ``forward_sync_buffers``."""
        return self.forward_sync_buffers

    @broadcast_buffers.setter
    def broadcast_buffers(self, value: bool) -> None:
        self.forward_sync_buffers = value

    def _buffers_to_sync(self) -> list[Tensor]:
        return [
            buffer
            for name, buffer in self.module.named_buffers()
            if name not in self.parameters_to_ignore
        ]

    def _broadcast_module(self, source: int, buffers: bool) -> None:
        values: list[Tensor] = [
            parameter
            for name, parameter in self.module.named_parameters()
            if name not in self.parameters_to_ignore
        ]
        if buffers:
            values += self._buffers_to_sync()
        broadcast_tensors(values, source, self.process_group)

    def will_sync_module_buffers(self) -> bool:
        """Returns whether the next forward broadcasts buffers."""
        return (
            self.require_forward_param_sync
            and self.forward_sync_buffers
            and bool(self._buffers_to_sync())
        )

    def _sync_buffers(self, has_inputs: bool = True) -> None:
        source = agree_on_rank(self.process_group, has_inputs) if self._join_config.enable else 0
        broadcast_tensors(self._buffers_to_sync(), source, self.process_group)

    # running

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        """Runs the module and returns its output."""
        if self._alone and self._comm_hook is None:
            return self.module(*inputs, **kwargs)
        recorded = cograd.is_grad_enabled()
        syncs = recorded and self.require_backward_grad_sync
        reducer = self.reducer
        if syncs:
            reducer.prepare_forward()
        notice = Join.notify_join_context(self)
        if recorded:
            reducer.rebuild()
        if self.will_sync_module_buffers():
            self._sync_buffers()
        if self._join_config.enable:
            self._whether_backward_syncs()
        output = self.module(*inputs, **kwargs)
        if syncs:
            reducer.expect(notice)
            reducer.prepare_backward(list(_tensors(output)))
        elif notice is not None:
            notice.wait()
        self.require_forward_param_sync = syncs
        return output

    def _whether_backward_syncs(self, has_inputs: bool = True) -> bool:
        """Returns whether the ranks with inputs synchronise this iteration; all ranks call it."""
        flag = cograd.full((1,), float(has_inputs and self.require_backward_grad_sync))
        cograd.distributed.all_reduce(flag, group=self.process_group)
        return bool(flag.item())

    @contextmanager
    def no_sync(self) -> Iterator[None]:
        """Lets gradients accumulate on their rank, unsynchronised, for forwards in this context.

        The next backward of a forward outside of it averages everything that has accumulated.
        """
        before = self.require_backward_grad_sync
        self.require_backward_grad_sync = False
        try:
            yield
        finally:
            self.require_backward_grad_sync = before

    def train(self, mode: bool = True) -> DistributedDataParallel:
        """Sets the training mode of the module."""
        super().train(mode)
        return self

    # hooks

    def register_comm_hook(self, state: object, hook: Callable[..., Any]) -> None:
        """Replaces the average of a bucket by the result of ``hook(state, bucket)``.

        Args:
            state: passed to the hook.
            hook: a function of the state and a ``distributed.GradBucket`` that returns a
                ``futures.Future`` of a tensor (n,), the gradients that all ranks use.

        Raises:
            TypeError: the hook is not callable, or its arguments do not fit.
            RuntimeError: there is a hook already.
        """
        if not callable(hook):
            raise TypeError("Communication hook must be callable.")
        _check_annotations(hook)
        if self._comm_hook is not None:
            raise RuntimeError(
                "register_comm_hook or register_builtin_comm_hook can only be called once."
            )
        self._comm_hook = (state, hook)
        self.reducer.comm_hook = self._comm_hook

    def _set_static_graph(self) -> None:
        """Sets ``static_graph=True`` after construction, but before the first forward."""
        if self._reducer is not None and self._reducer.iterations:
            raise RuntimeError("_set_static_graph() must be called before the first iteration")
        self.static_graph = True
        if not self._alone:
            self._make_reducer()

    @staticmethod
    def _set_params_and_buffers_to_ignore_for_model(module: Module, names: Iterable[str]) -> None:
        """Excludes parameters and buffers, by their names in ``module``, from synchronisation."""
        module._ddp_params_and_buffers_to_ignore = list(names)

    def _get_ddp_logging_data(self) -> dict[str, Any]:
        """Returns statistics of this rank: bucket sizes, and times of the last iteration in ns."""
        if self._reducer is None:
            return {"world_size": 1, "rank": 0, "iteration": 0}
        reducer, times = self._reducer, self._reducer.times
        data: dict[str, Any] = {
            "world_size": reducer.world,
            "rank": cograd.distributed.get_rank(self.process_group),
            "iteration": reducer.iterations,
            "has_rebuilt_buckets": reducer.rebuilt,
            "bucket_sizes": ", ".join(str(bucket.nbytes) for bucket in reducer.buckets),
            "find_unused_parameters": self.find_unused_parameters,
            "gradient_as_bucket_view": self.gradient_as_bucket_view,
            "static_graph": self.static_graph,
            "module_name": type(self.module).__name__,
        }
        if "end" in times:
            sent = times.get("first_send", times["computed"])
            data["backward_compute_time"] = times["computed"] - times["start"]
            data["backward_comm_time"] = times["end"] - sent
            data["backward_compute_comm_overlap_time"] = max(0, times["computed"] - sent)
            data["backward_comm_exposed_time"] = times["end"] - times["computed"]
        return data

    # uneven inputs

    def join(
        self,
        divide_by_initial_world_size: bool = True,
        enable: bool = True,
        throw_on_early_termination: bool = False,
    ) -> Join:
        """Returns a context manager for loops whose number of iterations differs between ranks.

        Args:
            divide_by_initial_world_size: whether to divide gradients by the number of all ranks
                rather than by the number of ranks that have inputs.
            enable: False turns it off.
            throw_on_early_termination: whether to raise on all ranks when one has no inputs left.
        """
        return Join(
            [self],
            enable,
            throw_on_early_termination,
            divide_by_initial_world_size=divide_by_initial_world_size,
        )

    def join_hook(self, **kwargs: Any) -> JoinHook:
        """Returns the hook of a rank without inputs; see ``distributed.algorithms.join``."""
        if self._alone:
            return JoinHook()
        return DDPJoinHook(self, kwargs.get("divide_by_initial_world_size", True))

    @property
    def join_device(self) -> cograd.device:
        """Returns the CPU."""
        return self.device

    @property
    def join_process_group(self) -> Any:
        """Returns the group over which gradients are averaged."""
        return self.process_group

    # pickle

    def __getstate__(self) -> dict[str, Any]:
        if self.process_group is not _default_group():
            raise RuntimeError(
                "DDP Pickling/Unpickling are only supported when using DDP with the default "
                "process group"
            )
        state = dict(self.__dict__)
        del state["process_group"]
        state["_reducer"] = None
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self.process_group = _default_group()
        self._alone = cograd.distributed.get_world_size(self.process_group) == 1
        if not self._alone:
            self._make_reducer()


def _default_group() -> Any:
    """Returns the group of all ranks; raises ValueError before init_process_group."""
    cograd.distributed.get_world_size()
    return cograd.distributed.group.WORLD


def _refuse(**given: Any) -> None:
    for name, value in given.items():
        if value is not None:
            raise NotImplementedError(
                f"DistributedDataParallel: {name} is not offered, but got {value!r}"
            )


def _check_module(module: Module, ignored: set[str]) -> None:
    named = [(name, p) for name, p in module.named_parameters() if name not in ignored]
    for name, parameter in named:
        if isinstance(parameter, UninitializedParameter):
            raise RuntimeError(
                "Modules with uninitialized parameters can't be used with "
                f"`DistributedDataParallel`: {name}. Run a dummy forward pass to correctly "
                "initialize the modules"
            )
    for path, part in module.named_modules():
        if isinstance(part, DistributedDataParallel):
            inside = [f"{path}.{name}".lstrip(".") for name, _ in part.named_parameters()]
            if any(name not in ignored for name in inside):
                where = f"its part {path!r}" if path else "the module itself"
                raise RuntimeError(
                    f"DistributedDataParallel: {where} is a DistributedDataParallel already; "
                    "gradients would be averaged twice"
                )
    if not any(parameter.requires_grad for _, parameter in named):
        raise RuntimeError(
            "DistributedDataParallel is not needed when a module doesn't have any parameter that "
            "requires a gradient."
        )


def _check_annotations(hook: Callable[..., Any]) -> None:
    """Raises if annotations in the hook's signature do not fit; they may be missing."""
    try:
        parameters = inspect.signature(hook).parameters
    except (TypeError, ValueError):
        return
    bucket = parameters.get("bucket")
    kind = inspect.Parameter.empty if bucket is None else bucket.annotation
    known = (inspect.Parameter.empty, cograd.distributed.GradBucket)
    if kind not in known and not isinstance(kind, str):
        raise ValueError("Communication hook: bucket annotation should be dist.GradBucket.")
