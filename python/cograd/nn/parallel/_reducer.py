# SPDX-License-Identifier: BSD-3-Clause
"""Averages gradients over the ranks, bucket by bucket, while backward is still running."""

from __future__ import annotations

import time
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import cograd
from cograd import Tensor
from cograd.autograd import graph
from cograd.distributed.grad_bucket import GradBucket
from cograd.futures import Future

from ._buckets import Bucket, assign
from ._lane import lane_of
from ._sync import broadcast_tensors

__all__ = ["Reducer"]

Hook = Callable[[Any, GradBucket], Future[Any]]


def _hook_for(reducer: Reducer, index: int) -> Callable[[Tensor], None]:
    known = weakref.ref(reducer)

    def hook(parameter: Tensor) -> None:
        found = known()
        if found is not None:
            found._arrive(index)

    return hook


def _remove(handles: list[Any]) -> None:
    for handle in handles:
        handle.remove()


class Reducer:
    """Copies one iteration's gradients to buckets as they arrive, sums them and writes them back.

    A forward arms it. A backward to all leaves, or its first gradient, starts a run. A bucket is
    sent when it and all buckets before it are full, so every rank sends the same ones in the same
    order. A second backward through the same outputs is averaged as well, without the parameters
    that it does not reach.

    Args:
        names: names of the parameters, for messages.
        caps: see ``_buckets.assign``.
        find_unused: whether a backward may miss some parameters; those count as zeros.
        as_views: whether ``.grad`` is a view into a bucket.
        static_graph: whether every backward reaches the same parameters, equally often, as the
            first.
        skip_unused: whether to skip buckets that have only unused parameters.
    """

    def __init__(
        self,
        names: Sequence[str],
        parameters: Sequence[Tensor],
        group: Any,
        *,
        caps: Sequence[int],
        find_unused: bool,
        as_views: bool,
        static_graph: bool,
        skip_unused: bool,
    ) -> None:
        self.names = list(names)
        self.parameters = list(parameters)
        self.group = group
        self.world: int = cograd.distributed.get_world_size(group)
        self.lane = lane_of(group)
        self.as_views = as_views
        self.static_graph = static_graph
        self.find_unused = find_unused and not static_graph
        self.skip_unused = skip_unused
        self.caps = list(caps)
        self.comm_hook: tuple[Any, Hook] | None = None
        self.rebuilt = False
        self.iterations = 0
        self.times: dict[str, int] = {}
        self.divide_by_all = True
        self._notice: Any = None
        self._arrived: list[int] = []
        self._fires: list[int] | None = None if static_graph else [1] * len(self.parameters)
        self._seen = [0] * len(self.parameters)
        self._left: list[int] = []
        self._armed = self._running = self._late = False
        self._absent: list[int] = []  # parameters that the next backward cannot reach
        self._used: Tensor | None = None
        self._used_work: Any = None
        self._known_used: list[int] | None = None  # used parameters of a static graph; None: all
        self._scale = 1.0
        self._dtypes = [p.dtype for p in self.parameters]
        self._nodes = {graph.get_gradient_edge(p).node: i for i, p in enumerate(self.parameters)}
        self._fill(assign(self.parameters, range(len(self.parameters) - 1, -1, -1), self.caps))
        handles = [
            p.register_post_accumulate_grad_hook(_hook_for(self, i))
            for i, p in enumerate(self.parameters)
        ]
        self._finalizer = weakref.finalize(self, _remove, handles)
        self._finalizer.atexit = False

    def _fill(self, groups: list[list[int]]) -> None:
        self.buckets = [Bucket(self.parameters, members) for members in groups]
        self._place = {
            index: (bucket, slot)
            for bucket in self.buckets
            for slot, index in enumerate(bucket.members)
        }

    # before backward

    def prepare_forward(self) -> None:
        """Raises RuntimeError if the previous backward has not reached every parameter."""
        if self._running:
            raise RuntimeError(self._unfinished())

    def rebuild(self) -> bool:
        """Orders the buckets as gradients arrived in rank 0's first iteration; True if done."""
        if self._dtypes != (dtypes := [p.dtype for p in self.parameters]):  # module.double()
            self._dtypes = dtypes
            now = [index for bucket in self.buckets for index in bucket.members]
            self._fill(assign(self.parameters, now, self.caps))
        if self.rebuilt or self.find_unused or self.iterations == 0:
            return False
        self.rebuilt = True
        order = cograd.tensor(self._order(), dtype=cograd.int64)
        broadcast_tensors([order], 0, self.group)
        self._fill(assign(self.parameters, order.tolist(), self.caps))
        self._arrived = []
        return True

    def _order(self) -> list[int]:
        order = list(dict.fromkeys(self._arrived))
        missing = set(range(len(self.parameters))) - set(order)
        return order + sorted(missing, reverse=True)

    def expect(self, notice: Any) -> None:
        """Stores ``notice``, whose result is the number of ranks with inputs."""
        self._notice = notice

    def prepare_backward(self, outputs: Sequence[Tensor]) -> None:
        """Arms the hooks for a backward from ``outputs``, the result of forward."""
        self._armed = True
        needed = [t for t in outputs if t.requires_grad]
        roots = list({graph.get_gradient_edge(t).node: None for t in needed})
        known = weakref.ref(self)

        def enter(gradients: Any) -> None:
            found = known()
            # A backward with respect to given inputs does not accumulate: don't start then.
            if found is not None and not found._running and cograd._C._is_checkpoint_valid():
                found._start(late=not found._armed)

        for root in roots:
            root.register_prehook(enter)
        self._absent = self._unreachable(roots) if self.find_unused else []

    def _unreachable(self, roots: list[Any]) -> list[int]:
        missing = dict(self._nodes)
        seen = set(roots)
        stack = list(roots)
        while stack:
            node = stack.pop()
            missing.pop(node, None)
            for following, _ in node.next_functions:
                if following is not None and following not in seen:
                    seen.add(following)
                    stack.append(following)
        return sorted(missing.values())

    # in backward

    def _start(self, late: bool = False) -> None:
        self._running, self._late = True, late
        self._seen = [0] * len(self.parameters)
        self._left = list(self._fires or ())
        self._next = 0
        self._scale = 1.0 if self.comm_hook is not None else 1.0 / self._divisor()
        maps = self.find_unused or late or self._fires is None
        self._used = cograd.zeros(len(self.parameters), dtype=cograd.int32) if maps else None
        self._used_work = None
        for bucket in self.buckets:
            bucket.pending, bucket.work = len(bucket.members), None
        self.times = {"start": time.perf_counter_ns()}
        if maps:
            graph.queue_callback(self._end_run)
        absent = [] if late else self._absent
        if self._fires is not None and not late:
            absent = absent + [i for i, n in enumerate(self._fires) if n == 0]
        for index in absent:
            self._left[index] = 0
            self._put(index, used=False)

    def _divisor(self) -> int:
        if self._notice is None or self.divide_by_all:
            return self.world
        return int(self._notice.result()[0].item())

    def _arrive(self, index: int) -> None:
        if not self._running:
            if not self._armed:
                return
            self._start()
        self._seen[index] += 1
        if self._fires is None:  # a static graph's first iteration only counts
            self._arrived.append(index)
            return
        self.poll()
        left = self._left[index]
        if left == 0:
            raise RuntimeError(self._twice(index))
        self._left[index] = left - 1
        if left == 1:
            if not self.rebuilt and not self._late:
                self._arrived.append(index)
            self._put(index, used=True)

    def poll(self) -> None:
        """Lets communication in progress go on."""
        if self.comm_hook is None:
            self.lane.poll()
        else:
            cograd.distributed.progress()

    def _put(self, index: int, used: bool) -> None:
        """Copies a gradient to its bucket, and sends buckets that are full."""
        bucket, slot = self._place[index]
        with cograd.no_grad():
            if bucket.alone:
                self._carry(bucket, self.parameters[index], used)
            else:
                self._copy(bucket.views[slot], self.parameters[index], used)
        if used and self._used is not None:
            self._used[index] = 1
        bucket.pending -= 1
        if bucket.pending == 0:
            self._send_full()

    def _carry(self, bucket: Bucket, parameter: Tensor, used: bool) -> None:
        grad = parameter.grad
        if grad is None:
            grad = cograd.zeros_like(parameter)
        elif not used or grad.requires_grad or grad.stride() != parameter.stride():
            grad = cograd.empty_like(parameter).copy_(grad.detach())
        bucket.carry(grad.detach() if grad.requires_grad else grad)
        if self._scale != 1.0:
            grad.mul_(self._scale)

    def _copy(self, view: Tensor, parameter: Tensor, used: bool) -> None:
        grad = parameter.grad
        if grad is None:
            view.zero_()
        elif grad is not view:
            if grad.requires_grad:
                grad = grad.detach()
            cograd.mul(grad, self._scale, out=view)
            if self.as_views and used:
                parameter.grad = view
        else:
            if not used:  # .grad keeps its own copy in case no other rank used the parameter
                parameter.grad = view.clone()
            if self._scale != 1.0:
                view.mul_(self._scale)

    def _send_full(self) -> None:
        while self._next < len(self.buckets) and self.buckets[self._next].pending == 0:
            bucket = self.buckets[self._next]
            self._next += 1
            self._send(bucket)
        if self._next < len(self.buckets):
            return
        if self._used is not None:
            self._used_work = self.lane.sum(self._used)
        else:
            graph.queue_callback(self._finish)

    def _send(self, bucket: Bucket) -> None:
        if self.skip_unused and all(index in self._absent for index in bucket.members):
            return
        self.times.setdefault("first_send", time.perf_counter_ns())
        bucket.work = self._reduce(bucket)

    def _reduce(self, bucket: Bucket) -> Any:
        """Begins the sum over the ranks; returns a Work, or with a hook a Future."""
        buffer = bucket.buffer
        assert buffer is not None
        if self.comm_hook is None:
            return self.lane.sum(buffer)
        state, hook = self.comm_hook
        chosen = [self.parameters[index] for index in bucket.members]
        number = self.buckets.index(bucket)
        last = number == len(self.buckets) - 1
        future = hook(state, GradBucket(number, last, buffer, chosen, bucket.offsets))
        if not hasattr(future, "wait"):
            raise TypeError(
                f"DDP communication hook: expected a torch.futures.Future to be returned, "
                f"got {type(future).__name__}"
            )
        return future

    # after backward

    def _end_run(self) -> None:
        """Ends the run after backward: parameters that got no gradient by now are unused."""
        if not self._running:
            return
        if self._fires is None:
            self._fires = list(self._seen)
            self._left = [1] * len(self.parameters)
        for index in self._place:
            if self._left[index]:
                self._left[index] = 0
                self._put(index, used=self._seen[index] > 0)
        self._finish()

    def _finish(self) -> None:
        """Waits for the sums and writes them to the parameters."""
        self.times["computed"] = time.perf_counter_ns()
        try:
            for bucket in self.buckets:
                self._receive(bucket)
            used = self._globally_used()
            with cograd.no_grad():
                for bucket in self.buckets:
                    for index, view in zip(bucket.members, bucket.views, strict=True):
                        if used is None or used[index]:
                            self._hand_back(self.parameters[index], view)
            if self._notice is not None:
                self._notice.wait()
        finally:
            self._armed = self._running = False
            self._notice = None
            for bucket in self.buckets:
                bucket.release()
        self.times["end"] = time.perf_counter_ns()
        if not self._late:
            self.iterations += 1

    def _receive(self, bucket: Bucket) -> None:
        if bucket.work is None or bucket.buffer is None:
            return
        result = bucket.work.wait()
        if self.comm_hook is None:
            return
        if isinstance(result, (list, tuple)):
            result = result[0]
        if not isinstance(result, Tensor) or result.numel() != bucket.numel:
            got = list(result.shape) if isinstance(result, Tensor) else type(result).__name__
            raise RuntimeError(
                f"DDP communication hook: expected a Future of a tensor of {bucket.numel} "
                f"elements, those of the bucket, got {got}"
            )
        if result.data_ptr() != bucket.buffer.data_ptr():
            with cograd.no_grad():
                bucket.buffer.copy_(result.reshape(-1))

    def _globally_used(self) -> list[int] | None:
        if self._used is None or self._used_work is None:
            return self._known_used
        self._used_work.wait()
        used: list[int] = self._used.tolist()
        if self.static_graph and not self._late:
            self._known_used = None if all(used) else used
        return used

    def _hand_back(self, parameter: Tensor, view: Tensor) -> None:
        grad = parameter.grad
        if grad is view:
            return
        if self.as_views:
            parameter.grad = view
        elif grad is None or grad.requires_grad:
            parameter.grad = view.clone()
        else:
            grad.copy_(view)

    # ranks without inputs

    def shadow(self) -> None:
        """Takes part with zeros in the sums of one iteration of the other ranks."""
        for bucket in self.buckets:
            if bucket.alone:
                bucket.carry(cograd.zeros_like(self.parameters[bucket.members[0]]).detach())
            assert bucket.buffer is not None
            bucket.buffer.zero_()
            bucket.work = self._reduce(bucket)
        known = self._known_used
        if self.find_unused or (self.static_graph and self.iterations == 0):
            used = cograd.zeros(len(self.parameters), dtype=cograd.int32)
            self.lane.sum(used).wait()
            known = used.tolist()
            if self.static_graph:
                self._known_used = known
        for bucket in self.buckets:
            self._receive(bucket)
            for index, view in zip(bucket.members, bucket.views, strict=True):
                if known is None or known[index]:
                    self._hand_back(self.parameters[index], view)
            bucket.release()
        self.iterations += 1

    # messages

    def _names(self, left: Sequence[int]) -> str:
        names = [name for name, n in zip(self.names, left, strict=True) if n]
        more = f" and {len(names) - 12} more" if len(names) > 12 else ""
        return ", ".join(names[:12]) + more

    def _unfinished(self) -> str:
        rank = cograd.distributed.get_rank()
        if not any(self._left):
            return (
                "Expected to have finished reduction in the prior iteration before starting a new "
                f"one. On rank {rank} an error ended its backward, and what was sent of its "
                "gradients is not what the other ranks wait for: make the module anew."
            )
        return (
            "Expected to have finished reduction in the prior iteration before starting a new one. "
            f"On rank {rank} these parameters got no gradient in it: {self._names(self._left)}. "
            "If forward does not use all of its parameters every time, pass "
            "find_unused_parameters=True to DistributedDataParallel; else make sure that all of "
            "what forward returns takes part in the loss."
        )

    def _twice(self, index: int) -> str:
        return (
            f"Expected to mark a variable ready only once, but parameter {self.names[index]} got a "
            "second gradient in one backward after its first had been sent. Parameters that are "
            "used outside of forward, or in several reentrant checkpoints, need static_graph=True."
        )
