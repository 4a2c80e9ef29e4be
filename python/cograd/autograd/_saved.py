# SPDX-License-Identifier: BSD-3-Clause
"""Hooks of saved tensors: pack and unpack, copying, and allowing in-place writes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, MutableMapping
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary, WeakValueDictionary

from cograd import _C
from cograd._C import Tensor
from cograd.autograd.grad_mode import _Mode, no_grad


class saved_tensors_hooks:
    """Context manager that passes tensors saved for backward through a pair of functions.

    ``pack_hook(tensor)`` is called when a tensor is saved (recording is off inside) and may return
    anything; ``unpack_hook`` is called with its result when backward needs the tensor, and must
    return a tensor of the same shape. ``pack_hook`` must not write its argument in place.

    The innermost of nested managers applies. With ``compose=True`` the manager around it packs the
    result of ``pack_hook``, if that is a tensor; unpacking runs in reverse order.

    Args:
        pack_hook: converts a tensor to the object that is saved.
        unpack_hook: converts the saved object back to the tensor.
        compose: whether the manager around this one applies too.

    Raises:
        RuntimeError: hooks are disabled on this thread, or ``pack_hook`` wrote its argument.
        TypeError: ``unpack_hook`` returned something that is not a tensor.
    """

    compose = False

    def __init__(
        self,
        pack_hook: Callable[[Tensor], Any],
        unpack_hook: Callable[[Any], Tensor],
        *,
        compose: bool = False,
    ) -> None:
        self.pack_hook = pack_hook
        self.unpack_hook = unpack_hook
        self.compose = compose

    __enter__ = _C._enter_saved_hooks
    __exit__ = _C._exit_saved_hooks


class save_on_cpu(saved_tensors_hooks):
    """Keeps saved tensors on the CPU until backward needs them.

    Tensors that are on the CPU already are copied, which protects them from later in-place writes.

    Args:
        pin_memory: whether the copies of GPUs' tensors go to pinned memory.
        device_type: accepted and ignored.
    """

    def __init__(self, pin_memory: bool = False, device_type: str = "cuda") -> None:
        def pack(tensor: Tensor) -> Any:
            with no_grad():  # no history, but tangents are kept
                if not tensor.is_cuda:
                    return tensor.clone()
                there = tensor.cpu()
                return tensor.device, there.pin_memory() if pin_memory else there

        def unpack(packed: Any) -> Tensor:
            if isinstance(packed, Tensor):
                return packed
            device, there = packed
            result: Tensor = there.to(device, non_blocking=pin_memory)
            return result

        super().__init__(pack, unpack)


class disable_saved_tensors_hooks(_Mode):  # noqa: N801: torch's name
    """Makes entering :class:`saved_tensors_hooks` raise RuntimeError with this message.

    A context manager; as a decorator, it is active during each call.

    Args:
        error_message: text of the exception.

    Raises:
        RuntimeError: raised on entry if hooks are active already.
    """

    def __init__(self, error_message: str) -> None:
        self.error_message = error_message
        self._before: list[str | None] = []

    def clone(self) -> disable_saved_tensors_hooks:
        return type(self)(self.error_message)

    __enter__ = _C._enter_hooks_disabled
    __exit__ = _C._exit_hooks_disabled


class _Handle:
    """Represents a saved tensor; dies with the graph that holds it."""

    __slots__ = ("__weakref__",)


_Key = tuple[int, int, int]


class _AllowMutationOnSavedContext:
    """The tensors saved under :func:`allow_mutation_on_saved_tensors`: originals and clones."""

    def __init__(self) -> None:
        self.cloned: MutableMapping[_Handle, Tensor] = WeakKeyDictionary()
        self.original: MutableMapping[_Handle, Tensor] = WeakKeyDictionary()
        self._handle_of: MutableMapping[_Key, _Handle] = WeakValueDictionary()
        self._keys_of: dict[int, set[_Key]] = defaultdict(set)

    def clear(self) -> None:
        """Removes everything; graphs recorded under the context cannot run any more."""
        self.cloned.clear()
        self.original.clear()
        self._handle_of.clear()
        self._keys_of.clear()

    def pack(self, tensor: Tensor) -> _Handle:
        """Returns the handle of ``tensor`` at its current version."""
        storage = _C._storage_key(tensor)
        key = (storage, id(tensor), tensor._version)
        handle = self._handle_of.get(key)
        if handle is None or self.original.get(handle) is not tensor:
            handle = _Handle()
            self._handle_of[key] = handle
            self.original[handle] = tensor
            self._keys_of[storage].add(key)
        return handle

    def unpack(self, handle: _Handle) -> Tensor:
        """Returns the tensor as it was when it was saved."""
        found = self.cloned.get(handle)
        if found is None:
            found = self.original.get(handle)
        if not _C._has_write_callback() or found is None:
            raise AssertionError(
                "Trying to backward outside of the 'allow_mutation_on_saved_tensors' context "
                "in which the graph was originally recorded."
            )
        return found

    def before_write(self, tensor: Tensor, op: str) -> None:
        """Clones all tensors saved from the memory that ``op`` is about to write."""
        storage = _C._storage_key(tensor)
        for key in self._keys_of.pop(storage, ()):
            handle = self._handle_of.pop(key, None)
            if handle is None or handle in self.cloned or handle not in self.original:
                continue
            original = self.original.pop(handle)
            with no_grad():
                self.cloned[handle] = original.detach().clone()


class allow_mutation_on_saved_tensors(_Mode):  # noqa: N801: torch's name
    """Allows in-place writes to tensors saved for backward, by cloning them before the write.

    Forward and backward must both run inside. Cannot be nested.

    Returns:
        A context with the mappings ``original`` and ``cloned``, and ``clear()``.
    """

    def __init__(self) -> None:
        self._context = _AllowMutationOnSavedContext()
        self._hooks = saved_tensors_hooks(self._context.pack, self._context.unpack)

    if TYPE_CHECKING:

        def __enter__(self) -> _AllowMutationOnSavedContext: ...  # type: ignore[override]

    else:
        __enter__ = _C._enter_mutation
    __exit__ = _C._exit_mutation
