# SPDX-License-Identifier: BSD-3-Clause
"""The names that the text of a case may use: tensors of every layout, and objects that misbehave.

A case is Python text over these names, so that one can read, shrink and repeat it.
"""

import gc
import math
import random

import numpy as np

import cograd as torch

DTYPES = {
    n: getattr(torch, n)
    for n in (
        "bool uint8 int8 int16 int32 int64 float16 bfloat16 float32 float64 complex64 complex128"
    ).split()
}
TOP, LOW, BIG = 2**63 - 1, -(2**63), 2**62
LAYOUTS = (
    "plain expanded transposed strided offset overlapping view resized numpy readonly nonleaf conj "
    "channels_last inference subclass shared data chunk neg_offset"
).split()
FILLS = "random zeros ones nan inf mixed extreme small negative index".split()


class Boom(Exception):
    """Raised by objects that misbehave."""


class Sub(torch.Tensor):
    pass


class Scene:
    """Holds the tensors and lists of the running case, which misbehaving objects may change."""

    def __init__(self):
        self.tensors, self.lists, self.rng = [], [], random.Random(0)
        self.depth, self.again = 0, None


scene = Scene()


def _values(shape, fill, rng):
    n = math.prod(shape)
    if n > 1 << 16:
        raise Boom("a tensor too large to fill")
    pick = {
        "random": lambda: rng.uniform(-3, 3),
        "zeros": lambda: 0.0,
        "ones": lambda: 1.0,
        "nan": lambda: math.nan,
        "inf": lambda: rng.choice((math.inf, -math.inf)),
        "mixed": lambda: rng.choice((0.0, -0.0, 1.0, math.nan, math.inf, -math.inf, 1e-45, 3e38)),
        "extreme": lambda: rng.choice((2.0**62, -(2.0**63), 2.0**31, -(2.0**31), 1e300, 65504.0)),
        "small": lambda: float(rng.randrange(0, 3)),
        "negative": lambda: float(-rng.randrange(1, 9)),
        "index": lambda: float(rng.randrange(-4, 6)),
    }[fill]
    return [pick() for _ in range(n)]


def _base(shape, dtype, fill):
    values = torch.tensor(_values(shape, fill, scene.rng), dtype=torch.float64).reshape(shape)
    return values.to(DTYPES[dtype])


def _laid_out(t, layout):
    shape = tuple(t.shape)
    if layout == "expanded" and shape:
        d = scene.rng.randrange(len(shape))
        return t.narrow(d, 0, min(1, shape[d])).expand(shape) if shape[d] else t
    if layout == "transposed" and len(shape) > 1:
        return t.transpose(-1, -2).contiguous().transpose(-1, -2)
    if layout == "strided" and shape:
        return torch.stack([t, t], -1)[..., 0]
    if layout == "offset":
        return torch.cat([t.reshape(-1), t.reshape(-1)])[t.numel() :].view(shape)
    if layout == "overlapping" and len(shape) > 0:
        room = torch.cat([t.reshape(-1), torch.zeros(sum(shape) + 1, dtype=t.dtype)])
        return room.as_strided(shape, [1] * len(shape))
    if layout == "view":
        return t.unsqueeze(0)[0].view(shape)
    if layout == "resized":
        return torch.zeros(1, dtype=t.dtype).resize_(shape).copy_(t)
    if layout in ("numpy", "readonly") and t.dtype is not torch.bfloat16:
        a = np.array(t.numpy())
        a.flags.writeable = layout == "numpy"
        return torch.from_numpy(a)
    if layout == "conj" and t.is_complex():
        return t.conj()
    if layout == "channels_last" and len(shape) == 4:
        return t.contiguous(memory_format=torch.channels_last)
    if layout == "inference":
        with torch.inference_mode():
            return t.clone()
    if layout == "subclass":
        return t.as_subclass(Sub)
    if layout == "shared" and scene.tensors:
        other = scene.tensors[-1]
        if other.dtype is t.dtype and other.numel() >= t.numel() and other.is_contiguous():
            return other.detach().reshape(-1)[: t.numel()].view(shape)
    if layout == "data":
        return t.data
    if layout == "chunk" and shape and shape[0]:
        return torch.cat([t, t]).chunk(2)[1].view(shape)
    if layout == "neg_offset" and shape:
        return torch.cat([t[:1], t])[1:]
    return t


def W(t, dtype="float32", layout="plain", fill=None, grad=False):
    """Returns the tensor in another dtype and layout, and with other values if `fill` is given."""
    if not isinstance(t, torch.Tensor):
        return t
    if fill is not None:
        t = _base(tuple(t.shape), dtype, fill)
    t = _laid_out(t.to(DTYPES[dtype]) if dtype else t, layout)
    if grad and (t.is_floating_point() or t.is_complex()):
        t = t.detach().requires_grad_() if not t.is_inference() else t
        if layout in ("nonleaf", "view", "chunk"):
            t = t * 1
    scene.tensors.append(t)
    return t


def T(shape, dtype="float32", layout="plain", fill="random", grad=False):
    return W(_base(tuple(shape), dtype, fill), dtype, layout, None, grad)


def Huge(*sizes, dtype="float32"):
    """Returns one element that is expanded to more elements than memory could hold."""
    t = torch.ones(1, dtype=DTYPES[dtype]).expand(sizes or (BIG,))
    scene.tensors.append(t)
    return t


def Same(k=0):
    """Returns a tensor of the case once more."""
    return scene.tensors[k % len(scene.tensors)] if scene.tensors else T((2,))


def Part(k=0):
    """Returns a view of a part of a tensor of the case."""
    t = Same(k)
    return t[..., :-1] if t.dim() and t.shape[-1] > 1 else t.view(-1)


def L(*items):
    """Returns a list that misbehaving objects may change."""
    made = list(items)
    scene.lists.append(made)
    return made


def act(what, k=0):
    """Does something to the objects of the case, as the conversion of an argument may."""
    t = Same(k)
    if what == "raise":
        raise Boom("asked to")
    if what == "clear":
        for items in scene.lists:
            items.clear()
    elif what == "grow":
        for items in scene.lists:
            items += [1, None, t] * 50
    elif what == "resize":
        t.resize_(0)
    elif what == "enlarge":
        t.resize_(64, 3)
    elif what == "free":
        t.untyped_storage().resize_(0)
    elif what == "set":
        t.set_(torch.zeros(1, dtype=t.dtype))
    elif what == "data":
        t.data = torch.zeros(1, dtype=torch.float64)
    elif what == "transpose":
        t.t_() if t.dim() == 2 else t.unsqueeze_(0)
    elif what == "write":
        t.fill_(1)
    elif what == "grad":
        t.requires_grad_(not t.requires_grad)
    elif what == "backward":
        (t * t).sum().backward()
    elif what == "again" and scene.depth < 3 and scene.again is not None:
        scene.depth += 1
        try:
            scene.again()
        finally:
            scene.depth -= 1
    elif what == "forget":
        scene.tensors.clear()
        scene.lists.clear()
    elif what == "detach":
        t.detach_()
    elif what == "share":
        t.share_memory_()
    gc.collect(0)
    return [bytearray(64) for _ in range(64)]  # reuses memory that was just freed


ACTIONS = (
    "raise clear grow resize enlarge free set data transpose write grad backward again forget detach"
).split()


class Evil:
    """A number that runs act(what) first whenever it is converted, compared or measured."""

    def __init__(self, what="raise", value=1, k=0, times=10**9):
        self.what, self.value, self.k, self.times = what, value, k, times

    def _read(self):
        self.times -= 1
        if self.times >= 0:
            self.rubbish = act(self.what, self.k)
        return self.value

    def __index__(self):
        return int(self._read())

    __int__ = __index__

    def __float__(self):
        return float(self._read())

    def __complex__(self):
        return complex(self._read())

    def __bool__(self):
        return bool(self._read())

    def __len__(self):
        self._read()
        return 2

    def __hash__(self):
        return 1

    def __eq__(self, other):
        self._read()
        return False

    def __repr__(self):
        return f"Evil({self.what!r}, {self.value!r})"


class EvilSeq(Evil):
    """A sequence that changes while it is read and lies about its length."""

    def __init__(self, what="raise", items=(1, 2), k=0, claimed=None):
        super().__init__(what, 1, k)
        self.items, self.claimed = items, claimed

    def __len__(self):
        self._read()
        return len(self.items) if self.claimed is None else self.claimed

    def __getitem__(self, i):
        self._read()
        return self.items[i]

    def __iter__(self):
        for item in self.items:
            self._read()
            yield item


class EvilList(list):
    """A list that empties all lists of the case when it is read, and lies about its length."""

    def __init__(self, *items):
        super().__init__(items)
        scene.lists.append(self)

    def __len__(self):
        act("clear")
        return 3

    def __iter__(self):
        act("clear")
        return iter([1, 2])


class EvilArray:
    """Offers the array protocols and misbehaves in them."""

    def __init__(self, what="raise", how="array"):
        self.what, self.how = what, how

    def __getattr__(self, name):
        if name == "__array_interface__" and self.how == "interface":
            return {"shape": (2**40,), "typestr": "<f4", "data": (0, False), "version": 3}
        if name == "__dlpack__" and self.how == "dlpack":
            return lambda **k: act(self.what) and None
        if name == "__dlpack_device__" and self.how == "dlpack":
            return lambda: (1, 0)
        raise AttributeError(name)

    def __array__(self, *args, **kwargs):
        if self.how != "array":
            raise Boom("no array")
        act(self.what)
        return np.ones(2, dtype=object)


class Name(str):
    """A subclass of str that misbehaves in comparisons and has no hash."""

    def __eq__(self, other):
        act("clear")
        return True

    def __hash__(self):
        raise Boom("no hash")


def Fn(what):
    """Returns a callable that runs act(what), for hooks and for arguments that are functions."""

    def call(*args, **kwargs):
        act(what)
        return args[0] if args else None

    return call


ENVIRONMENT = {
    k: v
    for k, v in globals().items()
    if k
    in "T W Huge Same Part L Evil EvilSeq EvilList EvilArray Name Fn TOP LOW BIG math np torch gc".split()
} | {"inf": math.inf, "nan": math.nan, "F": torch.nn.functional, "_C": torch._C}
