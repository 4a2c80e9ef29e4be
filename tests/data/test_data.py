# SPDX-License-Identifier: BSD-3-Clause
"""utils.data in one process: datasets, samplers, collating, and the loader without workers."""

import collections
import types
import warnings

import numpy as np
import pytest

import cograd as torch
from cograd.utils import data

Point = collections.namedtuple("Point", "x y")


def ten():
    return data.TensorDataset(torch.arange(20.0).reshape(10, 2), torch.arange(10))


class Stream(data.IterableDataset):
    def __init__(self, n=10):
        self.n = n

    def __iter__(self):
        return iter(range(self.n))


class Sized(Stream):
    def __len__(self):
        return 5


# ---------------------------------------------------------------- datasets


def test_tensor_dataset():
    x = ten()
    assert len(x) == 10 and isinstance(x[3], tuple)
    assert x[3][0].tolist() == [6, 7] and x[3][1].item() == 3
    assert x[-1][1].item() == 9 and x[2:4][1].tolist() == [2, 3]
    with pytest.raises(AssertionError, match="Size mismatch between tensors"):
        data.TensorDataset(torch.zeros(3), torch.zeros(4))
    with pytest.raises(IndexError):
        x[10]


def test_stack_dataset():
    a = data.StackDataset(range(4), "abcd")
    assert len(a) == 4 and a[1] == (1, "b") and a.__getitems__([0, 3]) == [(0, "a"), (3, "d")]
    b = data.StackDataset(x=ten(), y=range(10))
    assert b[2]["y"] == 2 and b.__getitems__([1, 5])[1]["y"] == 5
    assert data.StackDataset(data.Subset(range(9), [3, 5])).__getitems__([1]) == [(5,)]
    for args, kwargs in (((), {}), ((range(3), range(4)), {}), ((range(3),), {"a": range(3)})):
        with pytest.raises(ValueError):
            data.StackDataset(*args, **kwargs)

    class Wrong(list):
        def __getitems__(self, indices):
            return [0]

    with pytest.raises(ValueError, match="Expected 2, got 1"):
        data.StackDataset(Wrong([1, 2])).__getitems__([0, 1])


def test_concat_dataset():
    c = data.ConcatDataset([range(3), [], range(10, 14)])
    assert len(c) == 7 and [c[i] for i in range(7)] == [0, 1, 2, 10, 11, 12, 13]
    assert c[-1] == 13 and c[-7] == 0 and c.cumulative_sizes == [3, 3, 7]
    for index, kind in ((7, IndexError), (-8, ValueError)):
        with pytest.raises(kind):
            c[index]
    with pytest.raises(AssertionError, match="empty"):
        data.ConcatDataset([])
    with pytest.raises(AssertionError, match="IterableDataset"):
        data.ConcatDataset([Stream()])
    assert isinstance(ten() + ten(), data.ConcatDataset)
    with pytest.warns(DeprecationWarning, match="renamed"):
        assert c.cummulative_sizes == [3, 3, 7]


def test_chain_dataset():
    chain = Stream(2) + Stream(3)
    assert isinstance(chain, data.ChainDataset) and list(chain) == [0, 1, 0, 1, 2]
    assert len(data.ChainDataset([Sized(), Sized()])) == 10
    with pytest.raises(AssertionError, match="only supports IterableDataset"):
        list(data.ChainDataset([range(3)]))


def test_datasets_without_their_methods():
    class Empty(data.Dataset):
        pass

    class NoStream(data.IterableDataset):
        pass

    for use in (lambda: Empty()[0], lambda: Stream()[0], lambda: iter(NoStream())):
        with pytest.raises(NotImplementedError):
            use()
    with pytest.raises(TypeError):
        len(Empty())


def test_subset_and_random_split():
    s = data.Subset(ten(), [7, 1, 3])
    assert len(s) == 3 and s[0][1].item() == 7 and s[[0, 2]][1].tolist() == [7, 3]
    assert [v[1].item() for v in s.__getitems__([1, 0])] == [1, 7]
    a, b = data.random_split(range(10), [3, 7], torch.Generator().manual_seed(0))
    assert len(a) == 3 and sorted([*a, *b]) == list(range(10))
    again = data.random_split(range(10), [3, 7], generator=torch.Generator().manual_seed(0))
    assert list(again[1]) == list(b)
    parts = data.random_split(range(11), [0.5, 0.25, 0.25])
    assert [len(p) for p in parts] == [6, 3, 2]
    for lengths in ([3, 3], [0.5, 0.6], [0.5, -0.5], [1.5, -0.5]):
        with pytest.raises(ValueError):
            data.random_split(range(10), lengths)
    with pytest.warns(UserWarning, match="Length of split at index 1 is 0"):
        data.random_split(range(1), [0.5, 0.5])


# ---------------------------------------------------------------- samplers


def test_samplers():
    x = range(10)
    assert list(data.SequentialSampler(x)) == list(x)
    assert sorted(data.RandomSampler(x)) == list(x) and len(data.RandomSampler(x)) == 10
    assert len(list(data.RandomSampler(x, num_samples=25))) == 25
    drawn = list(data.RandomSampler(x, replacement=True, num_samples=100))
    assert len(drawn) == 100 and set(drawn) <= set(x)
    assert sorted(data.SubsetRandomSampler([5, 2, 8])) == [2, 5, 8]
    weighted = data.WeightedRandomSampler([0.0, 1.0, 3.0], 50)
    assert len(weighted) == 50 and set(weighted) == {1, 2}
    assert sorted(data.WeightedRandomSampler([1, 1, 1], 3, replacement=False)) == [0, 1, 2]
    g = torch.Generator().manual_seed(1)
    first = list(data.RandomSampler(x, generator=g))
    g.manual_seed(1)
    assert list(data.RandomSampler(x, generator=g)) == first
    with pytest.raises(NotImplementedError):
        iter(data.Sampler())


def test_batch_sampler():
    b = data.BatchSampler(range(7), 3, False)
    assert list(b) == [[0, 1, 2], [3, 4, 5], [6]] and len(b) == 3
    b = data.BatchSampler(data.SequentialSampler(range(7)), 3, True)
    assert list(b) == [[0, 1, 2], [3, 4, 5]] and len(b) == 2
    assert list(data.BatchSampler([], 3, False)) == []


@pytest.mark.parametrize(
    ("make", "error"),
    [
        (lambda: data.RandomSampler(range(3), replacement=1), TypeError),
        (lambda: data.RandomSampler(range(3), num_samples=0), ValueError),
        (lambda: data.RandomSampler(range(3), num_samples=2.0), ValueError),
        (lambda: data.RandomSampler([]), ValueError),
        (lambda: data.WeightedRandomSampler([1], 0), ValueError),
        (lambda: data.WeightedRandomSampler([[1]], 1), ValueError),
        (lambda: data.WeightedRandomSampler([1], 1, replacement=3), ValueError),
        (lambda: data.BatchSampler([1], 0, False), ValueError),
        (lambda: data.BatchSampler([1], True, False), ValueError),
        (lambda: data.BatchSampler([1], 2, 0), ValueError),
        (lambda: data.DistributedSampler(range(3)), ValueError),
        (lambda: data.DistributedSampler(range(3), 2, 2), ValueError),
    ],
)
def test_wrong_samplers(make, error):
    with pytest.raises(error):
        make()


def test_distributed_sampler():
    for n, drop in ((10, False), (10, True), (9, False), (2, False)):
        parts = [list(data.DistributedSampler(range(n), 4, r, drop_last=drop)) for r in range(4)]
        assert len({len(p) for p in parts}) == 1
        found = {i for p in parts for i in p}
        assert found == set(range(n)) if not drop else len(found) == 8
    s = data.DistributedSampler(range(10), 3, 1, shuffle=False, drop_last=True)
    assert list(s) == [1, 4, 7] and len(s) == 3
    s = data.DistributedSampler(range(50), 2, 0)
    first = list(s)
    s.set_epoch(1)
    assert list(s) != first


# ---------------------------------------------------------------- collating


def test_default_collate():
    c = data.default_collate
    assert c([1, 2]).dtype is torch.int64 and c([True, False]).dtype is torch.bool
    assert c([1.0, 2.0]).dtype is torch.float64 and c(["a", "b"]) == ["a", "b"]
    assert c([b"a"]) == [b"a"]
    pair = c([(1, torch.zeros(2)), (2, torch.ones(2))])
    assert isinstance(pair, list) and pair[0].tolist() == [1, 2] and pair[1].shape == (2, 2)
    nested = c([{"a": [1, 2.0]}, {"a": [3, 4.0]}])
    assert nested["a"][0].tolist() == [1, 3] and nested["a"][1].tolist() == [2, 4]
    point = c([Point(1, "u"), Point(2, "v")])
    assert isinstance(point, Point) and point.x.tolist() == [1, 2] and point.y == ("u", "v")
    assert c([np.arange(3), np.arange(3)]).tolist() == [[0, 1, 2]] * 2
    assert c([np.float32(1), np.float32(2)]).dtype is torch.float32
    assert c([np.bool_(True)]).dtype is torch.bool
    order = c([collections.OrderedDict(a=1), collections.OrderedDict(a=2)])
    assert isinstance(order, collections.OrderedDict)
    mapping = c([types.MappingProxyType({"a": 1})])
    assert mapping["a"].tolist() == [1]
    assert isinstance(c([collections.UserList([1, 2])]), collections.UserList)


@pytest.mark.parametrize(
    ("batch", "error", "text"),
    [
        ([object()], TypeError, "found <class 'object'>"),
        ([np.array(["a"])], TypeError, "found"),
        ([None], TypeError, "NoneType"),
        ([], IndexError, "out of range"),
        ([[1, 2], [1]], RuntimeError, "equal size"),
        ([torch.zeros(2), torch.zeros(3)], RuntimeError, "equal size"),
        ([{"a": 1}, {"b": 2}], KeyError, "a"),
    ],
)
def test_what_does_not_collate(batch, error, text):
    with pytest.raises(error, match=text):
        data.default_collate(batch)


def test_default_convert():
    value = data.default_convert(
        {"a": np.arange(2), "b": [1, Point(np.float64(2), "x")], "c": (3,)}
    )
    assert torch.is_tensor(value["a"]) and torch.is_tensor(value["b"][1].x)
    assert value["b"][0] == 1 and value["b"][1].y == "x" and value["c"] == [3]
    assert data.default_convert(np.array(["a"])).tolist() == ["a"]


def test_collate_of_own_types():
    from cograd.utils.data._utils.collate import collate, default_collate_fn_map

    class Own:
        pass

    def own(batch, *, collate_fn_map=None):
        return len(batch)

    assert collate([(Own(), 1)] * 3, collate_fn_map={Own: own, int: own}) == [3, 3]
    with pytest.raises(TypeError):
        collate([Own()], collate_fn_map=default_collate_fn_map)


# ---------------------------------------------------------------- the loader


def test_batches():
    loader = data.DataLoader(ten(), batch_size=4)
    assert len(loader) == 3 and [len(b[1]) for b in loader] == [4, 4, 2]
    assert len(data.DataLoader(ten(), 4, drop_last=True)) == 2
    assert [b.tolist() for b in data.DataLoader([1, 2, 3], batch_size=2)] == [[1, 2], [3]]
    shuffled = torch.cat([y for _, y in data.DataLoader(ten(), 3, shuffle=True)])
    assert sorted(shuffled.tolist()) == list(range(10))
    assert [b.tolist() for b in data.DataLoader(range(4), sampler=[3, 1])] == [[3], [1]]
    assert [b.tolist() for b in data.DataLoader(range(9), batch_sampler=[[1, 2], [5]])] == [
        [1, 2],
        [5],
    ]
    assert list(data.DataLoader(range(3), batch_size=None)) == [0, 1, 2]
    assert list(data.DataLoader(range(6), 3, collate_fn=sum)) == [3, 12]
    assert list(data.DataLoader([])) == []
    whole = list(
        data.DataLoader(ten(), sampler=data.BatchSampler(range(10), 5, False), batch_size=None)
    )
    assert whole[1][1].tolist() == [5, 6, 7, 8, 9]


def test_generator_gives_the_order():
    def order(seed):
        g = torch.Generator().manual_seed(seed)
        return torch.cat(list(data.DataLoader(range(50), 7, shuffle=True, generator=g))).tolist()

    assert order(1) == order(1) != order(2)
    torch.manual_seed(0)
    before = torch.get_rng_state()
    order(1)
    assert torch.equal(torch.get_rng_state(), before)


def strange_tensors():
    g = torch.Generator().manual_seed(0)
    return {
        "contiguous": torch.rand(10, 3, generator=g),
        "transposed": torch.rand(3, 10, generator=g).t(),
        "permuted": torch.rand(4, 5, 10, generator=g).permute(2, 1, 0),
        "expanded": torch.rand(1, 3, generator=g).expand(10, 3),
        "strided": torch.rand(20, 6, generator=g)[::2, ::3],
        "channels_last": torch.rand(10, 3, 4, 5).contiguous(memory_format=torch.channels_last),
        "empty": torch.zeros(10, 0),
        "bool": torch.arange(10) > 4,
        "bfloat16": torch.rand(10, 2).bfloat16(),
        "complex": torch.rand(10, 2, dtype=torch.complex64),
        "leaf": torch.rand(10, 2, requires_grad=True),
        "parameter": torch.nn.Parameter(torch.rand(10, 2)),
        "no samples": torch.rand(10),
    }


class OneByOne(data.TensorDataset):
    """Has the same samples, but in a class whose __getitem__ may do anything."""

    def __getitem__(self, index):
        return super().__getitem__(index)


@pytest.mark.parametrize("subset", [False, True])
@pytest.mark.parametrize("name", strange_tensors())
def test_the_gather_is_what_collating_gives(name, subset):
    tensors = strange_tensors()[name], torch.arange(10)
    sets = [kind(*tensors) for kind in (data.TensorDataset, OneByOne)]
    if subset:
        sets = [data.Subset(data.Subset(s, range(9, -1, -1)), [1, -1, 4, 4]) for s in sets]
    for a, b in zip(*(data.DataLoader(s, 3) for s in sets), strict=True):
        assert type(a) is type(b) is list
        for u, v in zip(a, b, strict=True):
            assert torch.equal(u, v) and u.dtype == v.dtype and type(u) is type(v)
            assert u.stride() == v.stride() and u.requires_grad == v.requires_grad
            if u.numel():
                assert u.data_ptr() != tensors[0].data_ptr()


def test_the_gather_fails_as_collating_does():
    for index in ([10], [-11], ["a"], [1.5], [], [1, True]):
        errors = []
        for kind in (data.TensorDataset, OneByOne):
            loader = data.DataLoader(kind(torch.arange(10)), batch_sampler=[index])
            with pytest.raises(Exception) as caught:
                list(loader)
            errors.append((caught.type, str(caught.value)))
        assert errors[0] == errors[1]
    last = next(iter(data.DataLoader(ten(), batch_sampler=[[-1, 0]])))
    assert last[1].tolist() == [9, 0]


def test_a_changed_dataset_is_seen():
    x = data.TensorDataset(torch.arange(4))
    batches = iter(data.DataLoader(x, 2))
    assert next(batches)[0].tolist() == [0, 1]
    x.tensors = (torch.arange(4) * 10,)
    assert next(batches)[0].tolist() == [20, 30]


def test_datasets_that_take_lists():
    class Many(data.Dataset):
        def __len__(self):
            return 6

        def __getitems__(self, indices):
            return [i * 10 for i in indices]

    assert [b.tolist() for b in data.DataLoader(Many(), 3)] == [[0, 10, 20], [30, 40, 50]]


def test_streams():
    assert [b.tolist() for b in data.DataLoader(Stream(5), 2)] == [[0, 1], [2, 3], [4]]
    assert [b.tolist() for b in data.DataLoader(Stream(5), 2, drop_last=True)] == [[0, 1], [2, 3]]
    assert list(data.DataLoader(Stream(3), batch_size=None)) == [0, 1, 2]
    assert len(data.DataLoader(Sized(), 2)) == 3 and len(data.DataLoader(Sized(), None)) == 5
    assert len(data.DataLoader(Sized(), 2, drop_last=True)) == 2
    with pytest.raises(TypeError):
        len(data.DataLoader(Stream()))
    loader = data.DataLoader(Sized(6))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(list(loader)) == 6
    assert len(loader) == 5
    with pytest.warns(UserWarning, match="was reported to be 5 .* but 6 samples"):
        list(loader)


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"num_workers": -1}, ValueError, "non-negative"),
        ({"timeout": -1}, ValueError, "timeout"),
        ({"prefetch_factor": 2}, ValueError, "prefetch_factor"),
        ({"prefetch_factor": -2, "num_workers": 1}, ValueError, "prefetch_factor"),
        ({"persistent_workers": True}, ValueError, "persistent_workers"),
        ({"sampler": [1], "shuffle": True}, ValueError, "mutually exclusive"),
        ({"batch_sampler": [[1]], "batch_size": 2}, ValueError, "mutually exclusive"),
        ({"batch_sampler": [[1]], "shuffle": True}, ValueError, "mutually exclusive"),
        ({"batch_size": None, "drop_last": True}, ValueError, "auto-batching"),
        ({"batch_size": 0}, ValueError, "batch_size"),
        ({"multiprocessing_context": "fork"}, ValueError, "num_workers"),
        ({"multiprocessing_context": "x", "num_workers": 1}, ValueError, "valid start method"),
        ({"multiprocessing_context": 3, "num_workers": 1}, TypeError, "context object"),
    ],
)
def test_wrong_loaders(options, error, text):
    with pytest.raises(error, match=text):
        data.DataLoader(ten(), **options)


def test_options_of_streams():
    for options in ({"shuffle": True}, {"sampler": [1]}, {"batch_sampler": [[1]]}):
        (name,) = options
        with pytest.raises(ValueError, match=f"unspecified {name} option"):
            data.DataLoader(Stream(), **options)
    data.DataLoader(Stream(), shuffle=False)


def test_attributes():
    loader = data.DataLoader(ten(), 4, shuffle=True, generator=torch.Generator())
    assert loader.batch_size == 4 and isinstance(loader.sampler, data.RandomSampler)
    assert isinstance(loader.batch_sampler, data.BatchSampler) and loader.num_workers == 0
    assert loader.prefetch_factor is None and loader.multiprocessing_context is None
    assert data.DataLoader(ten(), num_workers=1).prefetch_factor == 2
    for name in (
        "batch_size",
        "batch_sampler",
        "sampler",
        "drop_last",
        "dataset",
        "persistent_workers",
    ):
        with pytest.raises(ValueError, match=f"{name} attribute should not be set"):
            setattr(loader, name, None)
    loader.collate_fn = len
    assert list(loader) == [4, 4, 2]
    assert data.get_worker_info() is None


def test_warnings():
    with pytest.warns(UserWarning, match="no accelerator is found"):
        next(iter(data.DataLoader(ten(), pin_memory=True)))
    with pytest.warns(UserWarning, match="will create 4096 worker processes"):
        data.DataLoader(ten(), num_workers=4096)
    with pytest.raises(AssertionError, match="timeout == 0"):
        list(data.DataLoader(ten(), timeout=3))
