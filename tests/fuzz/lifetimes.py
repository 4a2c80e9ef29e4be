# SPDX-License-Identifier: BSD-3-Clause
"""Exports, imports, resizes and forgets memory that several libraries share, in random order.

Each holder must keep seeing what was written, and no memory may outlive its last holder.
"""

import array
import copy
import gc
import pickle
import random
import threading
import weakref

import numpy as np

import cograd as torch
from fuzz.execute import Wrong, judge


class Array(np.ndarray):
    """An ndarray that allows weak references."""


def sources(r):
    n = r.choice((0, 1, 4, 7, 64, 5000))
    return r.choice(
        [
            lambda: torch.full((n,), 3.0),
            lambda: np.full(n, 3.0).view(Array),
            lambda: np.full((n, 2), 3.0)[:, 0].view(Array),
            lambda: np.full(n, 3.0)[::-1].view(Array),
            lambda: array.array("d", [3.0] * n),
            lambda: bytearray(np.full(n, 3.0).tobytes()),
            lambda: memoryview(bytearray(np.full(max(n, 1), 3.0).tobytes())).cast("d"),
            lambda: torch.full((n, 2), 3.0).t()[0],
            lambda: torch.full((2, n), 3.0, requires_grad=True).detach(),
        ]
    )()


def step(r, held):
    """Uses a random held object; returns the result, which the caller holds, too."""
    x = r.choice(held)
    if isinstance(x, torch.Tensor):
        return r.choice(
            [
                lambda: x.numpy(), lambda: memoryview(x), lambda: np.from_dlpack(x), lambda: np.asarray(x),
                lambda: x.__dlpack__(), lambda: torch.from_dlpack(x), lambda: x[1:], lambda: x.view(-1),
                lambda: x.detach(), lambda: x.untyped_storage(), lambda: x.as_strided((1,), (1,)) if x.numel() else x,
                lambda: x.resize_(r.choice((0, 1, 3, 9000))) and None, lambda: setattr(x, "data", torch.full((2,), 3.0)),
                lambda: x.set_(torch.full((3,), 3.0)) and None, lambda: x.share_memory_(), lambda: copy.deepcopy(x),
                lambda: pickle.loads(pickle.dumps(x)), lambda: iter(x), lambda: x.unbind(0), lambda: x.expand(2, *x.shape),
                lambda: torch.from_numpy(x.numpy()), lambda: torch.zeros(7, out=x).fill_(3), lambda: x.t_() if x.dim() == 2 else x,
                lambda: x.to(torch.float64), lambda: x.storage() if hasattr(x, "storage") else x, lambda: x.fill_(3.0),
            ]
        )()  # fmt: skip
    if isinstance(x, np.ndarray):
        return r.choice(
            [
                lambda: torch.from_numpy(x), lambda: torch.as_tensor(x), lambda: torch.from_dlpack(x), lambda: x[1:],
                lambda: torch.asarray(x), lambda: x.resize(3, refcheck=True), lambda: x.setflags(write=False),
                lambda: memoryview(x), lambda: torch.tensor(x), lambda: torch.frombuffer(x, dtype=torch.float64),
            ]
        )()  # fmt: skip
    if isinstance(x, (bytearray, array.array, memoryview)):
        return r.choice(
            [
                lambda: torch.frombuffer(x, dtype=torch.float64), lambda: memoryview(x), lambda: np.frombuffer(x),
                lambda: x.release() if isinstance(x, memoryview) else x.append(0), lambda: torch.as_tensor(x),
                lambda: x.clear() if isinstance(x, bytearray) else None, lambda: torch.frombuffer(x, dtype=torch.float64, offset=8),
            ]
        )()  # fmt: skip
    if type(x).__name__ == "PyCapsule":
        return torch.from_dlpack(x)
    if isinstance(x, (tuple, list)):
        return x[0] if x else None
    if type(x).__name__ == "UntypedStorage":
        return r.choice(
            (
                lambda: torch.zeros(0, dtype=torch.float64).set_(x),
                lambda: x.resize_(0) and None,
                lambda: bytes(x)[:8],
            )
        )()
    return next(x, None) if hasattr(x, "__next__") else None


def look(held):
    """Reads everything that is held."""
    for x in held:
        if isinstance(x, torch.Tensor) and x.numel() < 1 << 20:
            x.detach().sum().item()
        elif isinstance(x, np.ndarray):
            float(np.asarray(x, dtype=float).sum())
        elif isinstance(x, memoryview):
            try:
                x.tobytes()
            except ValueError:
                pass


def case(seed):
    r = random.Random(seed)
    held = [sources(r) for _ in range(2)]
    watched = []
    for _ in range(r.choice((5, 10, 30))):
        try:
            made = step(r, held)
        except Exception as e:
            judge(e)
            made = None
        if made is not None:
            held.append(made)
            if isinstance(made, (torch.Tensor, Array)):
                watched.append(weakref.ref(made))
        made = None
        if len(held) > 1 and r.random() < 0.3:
            del held[r.randrange(len(held))]
        if r.random() < 0.05:
            box = [held.pop()] if len(held) > 1 else []
            thread = threading.Thread(target=box.clear)
            thread.start()
            thread.join()
        if r.random() < 0.3:
            look(held)
    look(held)
    held.clear()
    if any(w() is not None for w in watched):
        gc.collect()
    if alive := sum(w() is not None for w in watched):
        raise Wrong(f"{alive} tensors or arrays were left behind")


def describe(seed):
    return f"lifetimes {seed}"
