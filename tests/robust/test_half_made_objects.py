# SPDX-License-Identifier: BSD-3-Clause
"""Objects created without their constructors, and private functions called with anything."""

import copy
import copyreg
import gc
import itertools
import pickle
import random
import types

import pytest
from children import is_error, outcome

import cograd as torch
from cograd import _C
from cograd.autograd import Function


class Twice(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * 2

    @staticmethod
    def backward(ctx, g):
        return g * 2


def graph():
    x = torch.ones(2, requires_grad=True)
    y = x * x
    return x, y, y.grad_fn, Twice.apply(x).grad_fn


def inside(module):
    """Yields (path, value) of everything in _C and its submodules."""
    for name in dir(module):
        value = getattr(module, name)
        if isinstance(value, types.ModuleType):
            if value.__name__.startswith("cograd._C"):
                yield from ((f"{name}.{path}", v) for path, v in inside(value))
        else:
            yield name, value


def exported_types():
    found = {v for _, v in inside(_C) if isinstance(v, type)}
    x, y, node, ctx = graph()
    for value in (x, node, ctx, node._raw_saved_self, x.shape, x.dtype, x.device, x.grad_fn):
        found.update(type(value).__mro__)
    found.update(type(v) for _, v in inside(_C))
    return sorted((t for t in found if "cograd" in str(t.__module__)), key=str)


TYPES = exported_types()
WAYS = {
    "__new__": lambda t: t.__new__(t),
    "object.__new__": lambda t: object.__new__(t),
    "reconstructor": lambda t: copyreg._reconstructor(t, object, None),
    "pickle": lambda t: pickle.loads(
        b"\x80\x02c" + f"{t.__module__}\n{t.__qualname__}\n".encode() + b")\x81."
    ),
    "pickle with a state": lambda t: pickle.loads(
        b"\x80\x02c" + f"{t.__module__}\n{t.__qualname__}\n".encode() + b")\x81}b."
    ),
    "subclass": lambda t: (lambda s: s.__new__(s))(type("Sub", (t,), {})),
    "subclass without __init__": lambda t: type("Sub", (t,), {"__init__": lambda self: None})(),
}


def try_all(function, *arguments):
    for given in arguments:
        try:
            function(*given)
        except BaseException:
            pass


def poke(value):
    """Calls everything that an object offers, with arguments of every kind."""
    for name in dir(type(value)):
        try:
            member = getattr(value, name)
        except BaseException:
            continue
        if callable(member):
            ones = [(a,) for a in (None, 1, "x", value, {}, [])]
            try_all(member, (), *ones, (1, 2), (None, None))
        else:
            try_all(lambda v, name=name: setattr(value, name, v), (None,), (1,), (value,), ([],))
    try_all(repr, (value,))
    try_all(copy.copy, (value,))
    try_all(pickle.dumps, (value,))


@pytest.mark.parametrize("kind", TYPES, ids=lambda t: t.__name__)
@pytest.mark.parametrize("way", WAYS)
def test_an_object_without_its_constructor(kind, way):
    def make_and_use():
        value = WAYS[way](kind)
        poke(value)
        del value
        gc.collect()

    seen = outcome(make_and_use)
    assert is_error(seen), seen


def test_classes_made_by_the_core_say_so():
    for kind in (_C.UntypedStorage, _C.SavedTensor):
        for make in (kind, lambda kind=kind: kind.__new__(kind)):
            with pytest.raises(TypeError):
                make()
    for base in (_C.Generator.__base__, _C.device.__base__):
        with pytest.raises(TypeError):
            base()
    node = _C.Node.__new__(_C.Node)
    with pytest.raises(TypeError, match="bare"):
        node.next_functions


def test_generators_are_whole_however_they_are_made():
    made = torch.Generator.__new__(torch.Generator)
    made.manual_seed(3)
    want = torch.rand(3, generator=torch.Generator().manual_seed(3))
    assert torch.equal(torch.rand(3, generator=made), want)
    again = pickle.loads(pickle.dumps(torch.Generator().manual_seed(3)))
    assert torch.equal(torch.rand(3, generator=again), want)
    assert torch.equal(
        torch.rand(3, generator=copy.deepcopy(again)), torch.rand(3, generator=again)
    )
    with pytest.raises((RuntimeError, TypeError, ValueError)):
        torch.Generator("cuda")
    with pytest.raises(TypeError):
        torch.Generator(1, 2)


class Broken:
    def __index__(self):
        raise ZeroDivisionError

    __float__ = __bool__ = __len__ = __iter__ = __index__


def values():
    x, y, node, ctx = graph()
    return [
        None, 1, -1, 2**62, 1.5, True, "x", b"x", [], (), {}, [None], ["x"], [1], Broken(),
        object(), torch.ones(2), x, y, torch.zeros(0), torch.tensor(1), torch.ones(2, 2),
        [torch.ones(2)], (torch.ones(2), None), torch.float32, int, lambda *a: None, node, ctx,
        torch.Generator(), node._raw_saved_self, x.untyped_storage(), "cpu", 2**70, -(2**63),
    ]  # fmt: skip


def private_functions():
    """Returns all of _C's functions and the internal ops; public ops have separate tests."""
    public = {name for name in dir(torch) if not name.startswith("_")}
    for path, value in inside(_C):
        name = path.rpartition(".")[2]
        if callable(value) and not isinstance(value, type):
            if not path.startswith(("_ops.", "_nn.")) or name.startswith("_"):
                if name not in public or not path.startswith("_ops."):
                    yield path, value


FUNCTIONS = dict(private_functions())


@pytest.mark.parametrize("path", FUNCTIONS)
def test_private_functions_given_anything(path):
    function = FUNCTIONS[path]

    def call():
        given = values()
        choose = random.Random(path)
        try_all(function, (), *[(v,) for v in given])
        for n in range(2, 8):
            for v in given:
                for rest in (None, 1, [], torch.ones(2)):
                    try_all(function, (v, *[rest] * (n - 1)), (rest, v, *[rest] * (n - 2)))
            for _ in range(100):
                try_all(function, [choose.choice(given) for _ in range(n)])

    seen = outcome(call, seconds=120)
    assert is_error(seen), seen


def test_there_is_something_to_walk():
    assert len(TYPES) > 10 and len(FUNCTIONS) > 60
    assert {t.__name__ for t in TYPES} >= {"Generator", "Node", "SavedTensor", "UntypedStorage"}
    assert list(itertools.islice(FUNCTIONS, 1))
