# SPDX-License-Identifier: BSD-3-Clause
"""Selective checkpointing: a policy decides for each op whether to save or to recompute it."""

from __future__ import annotations

import enum
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from cograd import Tensor
from cograd.overrides import TorchFunctionMode
from cograd.utils._checkpoint_frame import CheckpointError, active

__all__ = [
    "SAC_IGNORED_OPS",
    "CheckpointPolicy",
    "SelectiveCheckpointContext",
    "create_selective_checkpoint_contexts",
]

# Names of ops that compute no new values; the policy is not called for them.
SAC_IGNORED_OPS = frozenset(("detach", "is_contiguous", "numel", "size", "stride", "dim"))


class CheckpointPolicy(enum.Enum):
    """Says what to do with the result of an op. PREFER and MUST are the same without a compiler.

    Offloading to the CPU is the same as saving.
    """

    MUST_SAVE = 0
    PREFER_SAVE = 1
    MUST_RECOMPUTE = 2
    PREFER_RECOMPUTE = 3
    MUST_CPU_OFFLOAD = 4
    PREFER_CPU_OFFLOAD = 5


_SAVING = frozenset(
    (
        CheckpointPolicy.MUST_SAVE,
        CheckpointPolicy.PREFER_SAVE,
        CheckpointPolicy.MUST_CPU_OFFLOAD,
        CheckpointPolicy.PREFER_CPU_OFFLOAD,
    )
)


class SelectiveCheckpointContext:
    """The first argument of a policy function, before the op and its arguments.

    Attributes:
        is_recompute: False in the forward, True in the recomputation.
        op_output: reserved.
    """

    def __init__(self, *, is_recompute: bool, op_output: Any = None) -> None:
        self.is_recompute = is_recompute
        self.op_output = op_output


def _tensors(value: Any) -> Iterator[Tensor]:
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from _tensors(item)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _tensors(item)


def _mapped(value: Any, function: Callable[[Tensor], Tensor]) -> Any:
    if isinstance(value, Tensor):
        return function(value)
    if isinstance(value, (list, tuple)):
        items = [_mapped(item, function) for item in value]
        return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
    return value


def _same(a: Tensor, b: Tensor) -> bool:
    return (
        a.data_ptr() == b.data_ptr()
        and a.shape == b.shape
        and a.stride() == b.stride()
        and a.dtype == b.dtype
    )


class _Entry:
    """The saved result of one op, and the sources of the tensors that the op saved for backward."""

    def __init__(self, args: Any, kwargs: Any, result: Any, packed: list[Tensor]) -> None:
        given = list(_tensors((args, kwargs)))
        made = list(_tensors(result))
        self.sources: list[tuple[str, Any]] = []
        for tensor in packed:
            places = [("result", i) for i, t in enumerate(made) if _same(t, tensor)]
            places += [("argument", i) for i, t in enumerate(given) if _same(t, tensor)]
            self.sources.append(places[0] if places else ("kept", tensor))
        self.requires_grad = [t.requires_grad for t in made]
        self.result = _mapped(result, lambda t: t.detach())
        self.versions = [t._version for t in _tensors(self.result)]

    def check_unchanged(self, name: str) -> None:
        if any(t._version != v for t, v in zip(_tensors(self.result), self.versions, strict=True)):
            raise RuntimeError(
                f"a result of {name} that selective checkpointing keeps has been modified in "
                "place. Pass allow_cache_entry_mutation=True to allow it, or clone the tensor "
                "before writing it."
            )

    def replay(self, args: Any, kwargs: Any) -> Any:
        """Passes the op's saved tensors to the checkpoint and returns the op's result."""
        given, made = list(_tensors((args, kwargs))), list(_tensors(self.result))
        refill = active.refills[-1]
        for kind, what in self.sources:
            refill({"result": made, "argument": given}[kind][what] if kind != "kept" else what)
        flags = iter(self.requires_grad)
        # A clone, because the function may write it.
        return _mapped(
            self.result, lambda t: t.detach().requires_grad_().clone() if next(flags) else t.clone()
        )


class _Store:
    """State shared by the two contexts of one checkpointed call."""

    def __init__(self, policy: Callable[..., Any], allow_mutation: bool) -> None:
        self.policy = policy
        self.allow_mutation = allow_mutation
        self.entries: dict[str, list[_Entry]] = defaultdict(list)

    def saves(self, func: Any, args: Any, kwargs: Any, is_recompute: bool) -> bool:
        name = getattr(func, "__name__", "")
        if name in SAC_IGNORED_OPS or name.startswith("__") or name.endswith("_"):
            return False  # always run metadata, indexing and in-place ops
        context = SelectiveCheckpointContext(is_recompute=is_recompute)
        policy = self.policy(context, func, *args, **kwargs)
        if isinstance(policy, bool):
            return policy
        if not isinstance(policy, CheckpointPolicy):
            raise TypeError(
                "a selective checkpoint policy must return a CheckpointPolicy, got "
                f"{type(policy).__name__}"
            )
        return policy in _SAVING


class _Forward(TorchFunctionMode):
    """Saves the results of the ops that the policy selects."""

    def __init__(self, store: _Store) -> None:
        super().__init__()
        self.store = store

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        if not active.forwards or not self.store.saves(func, args, kwargs, False):
            return func(*args, **kwargs)
        frame = active.forwards[-1]
        frame.packed = []
        try:
            result = func(*args, **kwargs)
            entry = _Entry(args, kwargs, result, frame.packed)
        finally:
            frame.packed = None
        self.store.entries[func.__name__].append(entry)
        return result


class _Recompute(TorchFunctionMode):
    """Returns saved results instead of running their ops again."""

    def __init__(self, store: _Store) -> None:
        super().__init__()
        self.store = store
        self.used: dict[str, int] = defaultdict(int)

    def __enter__(self) -> Any:
        self.used.clear()
        return super().__enter__()

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        if not active.refills or not self.store.saves(func, args, kwargs, True):
            return func(*args, **kwargs)
        name = func.__name__
        index = self.used[name]
        self.used[name] += 1
        kept = self.store.entries.get(name, [])
        if index >= len(kept):
            raise CheckpointError(
                f"selective checkpoint: {name} must be replayed from its saved results, but the "
                f"forward saved only {len(kept)} of them: the policy or the function is not "
                "deterministic"
            )
        if not self.store.allow_mutation:
            kept[index].check_unchanged(name)
        return kept[index].replay(args, kwargs)


def _policy_of(policy_fn_or_list: Any) -> Callable[..., Any]:
    if callable(policy_fn_or_list):
        return policy_fn_or_list  # type: ignore[no-any-return]
    if not isinstance(policy_fn_or_list, Iterable):
        raise TypeError("policy_fn_or_list must be either a function or a list of ops.")
    names = set()
    for op in policy_fn_or_list:
        name = op if isinstance(op, str) else getattr(op, "__name__", None)
        if name is None:
            raise ValueError(
                f"Expected an op, a function with a name, or a name in `op_list` but got: {op}"
            )
        names.add(name)

    def policy(context: Any, op: Any, *args: Any, **kwargs: Any) -> CheckpointPolicy:
        kept = getattr(op, "__name__", "") in names
        return CheckpointPolicy.MUST_SAVE if kept else CheckpointPolicy.PREFER_RECOMPUTE

    return policy


def create_selective_checkpoint_contexts(
    policy_fn_or_list: Any, allow_cache_entry_mutation: bool = False
) -> tuple[TorchFunctionMode, TorchFunctionMode]:
    """Returns contexts for ``checkpoint(..., context_fn=...)`` that save results of chosen ops.

    Args:
        policy_fn_or_list: ``policy(ctx, op, *args, **kwargs) -> CheckpointPolicy``, or a list of
            the ops to save: ``[cograd.mm]``. Ops are identified by name, so ``cograd.mm`` and
            ``Tensor.mm`` are the same; ``a @ b`` is ``matmul``.
        allow_cache_entry_mutation: disables the check that saved results are not written in place.

    Use it as ``checkpoint(f, x, use_reentrant=False, context_fn=functools.partial(
    create_selective_checkpoint_contexts, [cograd.mm]))``: each call needs its own contexts.
    """
    store = _Store(_policy_of(policy_fn_or_list), allow_cache_entry_mutation)
    return _Forward(store), _Recompute(store)
