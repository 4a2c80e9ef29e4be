# SPDX-License-Identifier: BSD-3-Clause
"""Storages, and the ways to give a tensor other memory: set_, new, unsafe_split."""

import pytest

import cograd as torch


def six():
    return torch.arange(6.0).reshape(2, 3)


def test_storages_count_bytes_and_elements():
    x = six()
    raw, typed = x.untyped_storage(), x[1:].storage()
    assert (raw.size(), raw.nbytes(), len(raw), raw.element_size()) == (24, 24, 24, 1)
    assert (typed.size(), typed.nbytes(), len(typed), typed.element_size()) == (6, 24, 6, 4)
    assert raw.data_ptr() == typed.data_ptr() == x.data_ptr()
    assert typed.untyped() is raw
    assert typed.dtype == torch.float32
    assert raw.device == typed.device == torch.device("cpu")
    assert typed.tolist() == list(typed) == [0, 1, 2, 3, 4, 5]
    assert raw.tolist()[4:8] == [0, 0, 128, 63]
    assert x.storage() == typed
    assert x.storage() != x.clone().storage()


def test_writes_to_a_storage_are_seen_by_tensors():
    x = six()
    version = x._version
    x.storage()[0] = 7.0
    x.storage()[1:3] = 1.0
    assert x.tolist() == [[7, 1, 1], [3, 4, 5]]
    assert x._version > version
    x.untyped_storage().fill_(0)
    assert not x.any()
    x.storage().copy_(six().storage())
    assert torch.equal(x, six())
    x.untyped_storage().copy_((six() + 1).untyped_storage())
    assert torch.equal(x, six() + 1)
    with pytest.raises(RuntimeError, match="size does not match"):
        x.untyped_storage().copy_(torch.ones(2).untyped_storage())


@pytest.mark.parametrize("n", [6, 5000, 3_000_000])
def test_a_storage_shrinks_to_nothing_and_back(n):
    x = torch.arange(float(n))
    raw = x.untyped_storage()
    assert raw.resize_(0) is raw
    assert (raw.size(), raw.data_ptr(), x.storage().size()) == (0, 0, 0)
    assert x.shape == (n,)
    x.sum()  # no error and no crash: the contents are undefined
    x.storage().resize_(n)
    assert raw.nbytes() == 4 * n
    assert raw.data_ptr() == x.data_ptr()
    x.copy_(torch.arange(float(n)))
    assert x[-1].item() == n - 1
    with pytest.raises(RuntimeError, match="to 0 and back, got 12"):
        raw.resize_(12)


def test_emptied_memory_of_a_saved_tensor_is_noticed():
    w = torch.ones(3, requires_grad=True)
    x = torch.ones(3)
    y = w * x
    x.untyped_storage().resize_(0)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


def test_read_only_memory_is_not_resized():
    with pytest.warns(UserWarning, match="not writable"):
        x = torch.frombuffer(b"12345678", dtype=torch.uint8)
    with pytest.raises(RuntimeError, match="read-only"):
        x.untyped_storage().resize_(0)


def test_set_shares_the_memory_of_a_tensor_or_storage():
    x, source = torch.zeros(2), six()
    version = x._version
    assert x.set_(source) is x
    assert torch.equal(x, source)
    assert x.data_ptr() == source.data_ptr()
    assert x._version > version
    assert torch.zeros(2).set_(source.storage()).tolist() == [0, 1, 2, 3, 4, 5]
    assert torch.zeros(2).set_(source.untyped_storage()).tolist() == [0, 1, 2, 3, 4, 5]
    for memory in (source, source.storage(), source.untyped_storage()):
        part = torch.zeros(2).set_(memory, 1, (2, 2), (2, 1))
        assert part.tolist() == [[1, 2], [3, 4]]
        assert torch.zeros(2).set_(memory, 1, (2, 2)).tolist() == [[1, 2], [3, 4]]
    assert torch.zeros(3).set_().shape == (0,)
    assert torch.zeros(3).set_(source=source[1]).tolist() == [3, 4, 5]


def test_set_refuses_what_it_cannot_do():
    with pytest.raises(RuntimeError, match="Could not set tensor of type"):
        torch.zeros(2, dtype=torch.int32).set_(six())
    with pytest.raises(RuntimeError, match="does not fit"):
        torch.zeros(2).set_(six(), 1, (20, 2), (2, 1))
    with pytest.raises(RuntimeError, match="does not fit"):
        torch.zeros(2).set_(six(), 0, (2,), (2**62,))
    leaf = torch.zeros(2, requires_grad=True)
    with pytest.raises(RuntimeError, match="a leaf Variable that requires grad"):
        leaf.set_(six())
    with pytest.raises(RuntimeError, match="the derivative is not implemented"):
        torch.zeros(2).set_(leaf * 2)
    with torch.no_grad():
        assert leaf.set_(six()).requires_grad


def test_new_makes_a_tensor_of_the_same_dtype():
    x = six()
    assert x.new().shape == (0,)
    assert x.new(2, 3).shape == x.new(torch.Size([2, 3])).shape == (2, 3)
    assert x.new([1, 2]).tolist() == x.new((1, 2)).tolist() == [1.0, 2.0]
    assert x.int().new([1.5]).tolist() == [1]
    assert x.int().new(4, device="cpu").dtype == torch.int32
    assert x.new(x).data_ptr() == x.data_ptr()
    assert x.new(x.storage()).tolist() == [0, 1, 2, 3, 4, 5]
    with pytest.raises(TypeError, match="expected a tensor of cograd.float32"):
        x.new(x.double())


def test_unsafe_splits_are_no_views():
    x = six()
    for got, want in [
        (torch.unsafe_split(x, 2, 1), torch.split(x, 2, 1)),
        (x.unsafe_split(split_size=1), x.split(1)),
        (torch.unsafe_chunk(x, 2, dim=1), torch.chunk(x, 2, 1)),
        (x.unsafe_chunk(5), x.chunk(5)),
        (torch.unsafe_split_with_sizes(x, [1, 2], 1), torch.split_with_sizes(x, [1, 2], 1)),
        (x.unsafe_split_with_sizes((1, 2), dim=-1), x.split_with_sizes(split_sizes=(1, 2), dim=1)),
    ]:
        assert [g.tolist() for g in got] == [w.tolist() for w in want]
        assert [g.data_ptr() for g in got] == [w.data_ptr() for w in want]
        assert not any(g._is_view() for g in got)
    leaf = six().requires_grad_()
    first, second = (leaf * 1).unsafe_split(1)
    first.mul_(3)  # a part of split, one view of several, does not allow this
    (first.sum() + second.sum() * 2).backward()
    assert leaf.grad.tolist() == [[3, 3, 3], [2, 2, 2]]
    with pytest.raises(RuntimeError, match="sum exactly to 3"):
        torch.unsafe_split_with_sizes(x, [1, 1], 1)


def test_to_copies_when_asked():
    x = six()
    assert x.to() is x
    for y in (x.to(copy=True), x.to("cpu", copy=True), x.to(torch.float32, copy=True)):
        assert y is not x
        assert y.data_ptr() != x.data_ptr()
        assert torch.equal(x, y)


def test_a_storage_over_a_file(tmp_path):
    path = tmp_path / "bytes"
    path.write_bytes(bytes(range(10)))
    own = torch.UntypedStorage.from_file(path, nbytes=6)
    assert own.untyped() is own and own.tolist() == [0, 1, 2, 3, 4, 5]
    own[0] = 9
    assert path.read_bytes()[0] == 0
    shared = torch.UntypedStorage.from_file(str(path), True, 12)
    shared[11] = 7
    assert path.read_bytes() == bytes(range(10)) + b"\0\7"
    with pytest.raises(RuntimeError, match="has 12 bytes, expected at least 13"):
        torch.UntypedStorage.from_file(path, False, 13)


def test_a_slice_of_a_storage_is_the_same_memory():
    raw = torch.arange(10, dtype=torch.uint8).untyped_storage()
    part = raw[2:-3]
    assert part.tolist() == [2, 3, 4, 5, 6] and raw[5:2].nbytes() == 0
    torch.asarray(part, dtype=torch.uint8)[0] = 77
    assert raw[2] == 77
    with pytest.raises(RuntimeError, match="step of a slice must be 1, got 2"):
        raw[::2]
