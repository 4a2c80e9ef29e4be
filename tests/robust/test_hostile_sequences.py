# SPDX-License-Identifier: BSD-3-Clause
"""Sequences that change while they are read, lie about their length, or change the tensor."""

import gc

import pytest
from children import is_error, outcome

import cograd as torch


class Clears:
    """An integer whose __index__ empties the list that contains it."""

    def __init__(self, target, value=1):
        self.target, self.value = target, value

    def __index__(self):
        self.target.clear()
        gc.collect()
        self.rubbish = [bytearray(64) for _ in range(64)]  # reuses the memory just freed
        return self.value

    def __float__(self):
        return float(self.__index__())


def trap(n=6):
    """Returns a list whose first item is a trap; nothing else references the other items."""
    items = []
    items += [Clears(items)] + [_Int(i % 2) for i in range(n - 1)]
    return items


class _Int:
    def __init__(self, value):
        self.value = value

    def __index__(self):
        return self.value

    def __float__(self):
        return float(self.value)


def nested():
    outer = []
    outer += [[Clears(outer, 1), _Int(2)], [_Int(3), _Int(4)], [_Int(5), _Int(6)]]
    return outer


def mixed_indices():
    items = []
    items += [Clears(items, 0), [_Int(0), _Int(1)], slice(_Int(0), _Int(2)), torch.tensor([0, 1])]
    return items


x = torch.arange(64.0).reshape(2, 2, 2, 2, 2, 2)

READERS = {
    "zeros": lambda: torch.zeros(trap()),
    "ones": lambda: torch.ones(trap()),
    "empty": lambda: torch.empty(trap()),
    "full": lambda: torch.full(trap(), 1.0),
    "rand": lambda: torch.rand(trap()),
    "view": lambda: x.view(trap()),
    "reshape": lambda: x.reshape(trap()),
    "permute": lambda: x.permute(trap()),
    "expand": lambda: torch.ones(1).expand(trap()),
    "repeat": lambda: x.repeat(trap()),
    "sum": lambda: x.sum(trap()),
    "amax": lambda: x.amax(trap()),
    "flip": lambda: x.flip(trap()),
    "split": lambda: x.split(trap()),
    "tensor_split": lambda: torch.tensor_split(x, trap()),
    "as_strided": lambda: x.as_strided(trap(), trap()),
    "roll": lambda: x.roll(trap(), trap()),
    "new_zeros": lambda: x.new_zeros(trap()),
    "tensor": lambda: torch.tensor(trap()),
    "tensor float": lambda: torch.tensor(trap(), dtype=torch.float32),
    "tensor nested": lambda: torch.tensor(nested()),
    "as_tensor": lambda: torch.as_tensor(trap()),
    "Tensor": lambda: torch.Tensor(trap()),
    "getitem list": lambda: x.flatten()[trap()],
    "getitem tuple": lambda: x[tuple(trap(2))],
    "getitem nested": lambda: x.flatten()[nested()],
    "getitem items": lambda: x[mixed_indices()],
    "setitem list": lambda: x.clone().flatten().__setitem__(trap(), 1.0),
    "setitem items": lambda: x.clone().__setitem__(mixed_indices(), 1.0),
    "Size": lambda: torch.Size(trap()),
    "resize_": lambda: torch.ones(4).resize_(trap()),
    "einsum path": lambda: torch.einsum(trap(), trap()),
}


@pytest.mark.parametrize("name", READERS)
def test_a_list_that_its_items_clear(name):
    """Any result or any exception is right, but freed objects must not be read."""

    def read():
        for _ in range(20):
            try:
                READERS[name]()
            except Exception:
                pass

    assert is_error(outcome(read)), name


def test_a_cleared_list_counts_as_it_was():
    items = []
    items += [Clears(items, 2), _Int(3)]
    assert torch.zeros(items).shape == (2, 3)
    items = []
    items += [Clears(items, 2), _Int(3)]
    with pytest.raises(RuntimeError, match="changed its length while it was read"):
        torch.tensor(items, dtype=torch.int64)
    items = []
    items += [Clears(items, 1), _Int(0)]
    assert x.flatten()[:2][items].tolist() == [1.0, 0.0]


class Liar:
    """A sequence that claims any given length and items."""

    def __init__(self, length, item):
        self.length, self.item = length, item

    def __len__(self):
        return self.length() if callable(self.length) else self.length

    def __getitem__(self, i):
        if i >= 50:
            raise IndexError(i)
        return self.item(i) if callable(self.item) else self.item


def growing():
    growing.n += 1
    return growing.n


growing.n = 0


@pytest.mark.parametrize("length", [0, 1, 3, 2**40, 2**62, growing])
def test_sequences_that_lie(length):
    def read():
        for item in (1, 1.5, [1], Liar(3, 1), Liar(2**62, 1), None, "x"):
            liar = Liar(length, item)
            for use in (
                torch.tensor,
                torch.as_tensor,
                torch.Tensor,
                torch.zeros,
                x.sum,
                x.view,
                lambda v: x[v],
                lambda v: x[v, v],
                lambda v: x.clone().__setitem__(v, 1.0),
                lambda v: torch.cat(v),
                torch.Size,
            ):
                try:
                    use(liar)
                except Exception:
                    pass

    assert is_error(outcome(read)), length


CHANGES = {
    "resize_ smaller": lambda t: t.resize_(1),
    "resize_ larger": lambda t: t.resize_(100_000),
    "data": lambda t: setattr(t, "data", torch.ones(1)),
    "squeeze_": lambda t: t.resize_(1).squeeze_(),
    "as_strided_": lambda t: t.as_strided_((1,), (1,)),
}


class Changes:
    """An integer whose __index__ changes the tensor that is being indexed."""

    def __init__(self, change, value):
        self.change, self.value = change, value

    def __index__(self):
        self.change()
        return self.value


@pytest.mark.parametrize("name", CHANGES)
def test_an_index_that_changes_the_tensor(name):
    """The op uses the tensor as it is after the whole key has been read."""

    def read():
        for key in (
            lambda i: (5000, i(0)),
            lambda i: i(5000),
            lambda i: slice(i(4000), i(6000)),
            lambda i: (slice(4000, 6000), None, i(3)),
            lambda i: [5000, i(1)],
            lambda i: ([5000, 4000], [i(1), 2]),
            lambda i: (torch.tensor([5000]), i(1)),
            lambda i: [slice(5000, None), i(3)],
        ):
            for use in ("get", "set"):
                t = torch.ones(10_000, 4)

                def index(value, t=t):
                    return Changes(lambda: CHANGES[name](t), value)

                try:
                    if use == "get":
                        t[key(index)].sum().item()
                    else:
                        t[key(index)] = 7.0
                except (IndexError, RuntimeError, TypeError, ValueError):
                    pass

    seen = outcome(read)
    assert is_error(seen), seen


def test_a_key_is_resolved_against_the_tensor_it_leaves():
    t = torch.arange(12.0).reshape(3, 4)
    got = t[Changes(lambda: t.resize_(2, 2), 1), 1]
    assert got.item() == 3.0
    with pytest.raises(IndexError):
        t[1, Changes(lambda: t.resize_(1, 1), 0)]


def test_index_tensors_that_are_the_target():
    """An index that is overwritten while it is read must not lead outside the tensor."""
    for name in ("index_copy_", "index_add_", "scatter_", "scatter_add_"):

        def write(name=name):
            for _ in range(10):
                t = torch.arange(512)
                getattr(t, name)(0, t, torch.full((512,), 2**40))
            return t.sum().item()

        assert is_error(outcome(write)), name
    for use in (
        lambda t: t.index_fill_(0, t, 2**40),
        lambda t: t.put_(t, torch.full((512,), 2**40)),
        lambda t: t.index_put_((t,), torch.full((512,), 2**40)),
        lambda t: t.__setitem__(t, 2**40),
        lambda t: t.scatter_reduce_(0, t, torch.full((512,), 2**40), "amax"),
    ):
        assert is_error(outcome(lambda use=use: use(torch.arange(512)).sum().item()))
