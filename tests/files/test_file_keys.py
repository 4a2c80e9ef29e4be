# SPDX-License-Identifier: BSD-3-Clause
"""Keys of dicts and items of sets in files: which are read, and how long that may take."""

import io
import json
import time
from collections import Counter, OrderedDict

import pytest
import safetensors
from test_torch_files import archive_of, through_file

import cograd as torch
from cograd._files import keys as _file_keys
from cograd._files.keys import Filler
from cograd.serialization import FileError

PRIME = 2**61 - 1  # ints are hashed modulo this prime


def colliding(kind, n):
    """Returns keys with the same hash."""
    if kind == "complex":  # the hash's factor of the imaginary part
        return [complex(-1000003 * k, k) for k in range(1, n + 1)]
    return [k * PRIME if kind == "int" else (k * PRIME, 0) for k in range(n)]


@pytest.fixture
def tight(monkeypatch):
    """Sets a smaller limit, so that fewer keys exceed it."""
    monkeypatch.setattr(_file_keys, "_SECONDS", 0.01)
    monkeypatch.setattr(_file_keys, "_SECONDS_A_BYTE", 2e-7)


def test_a_file_of_colliding_keys_is_refused_quickly():
    """Twice the keys would take four times as long: these take a minute."""
    keys = b"".join(
        b"\x8a\x0a" + key.to_bytes(10, "little") + b"N" for key in colliding("int", 10**5)
    )
    start = time.thread_time()
    with pytest.raises(FileError, match="take too long: their hashes collide"):
        torch.load(archive_of(b"}(" + keys + b"u."))
    assert time.thread_time() - start < 10


class _Saved:
    """Pickles as the container of the keys without creating it, which would take long."""

    def __init__(self, make, keys):
        self.parts = make, keys

    def __reduce__(self):
        make, keys = self.parts
        if issubclass(make, dict):
            return make, (), None, None, ((key, None) for key in keys)
        return make, (keys,)


@pytest.mark.parametrize(
    ("make", "kind"),
    [(dict, "int"), (dict, "complex"), (dict, "tuple"), (OrderedDict, "int"), (Counter, "int"),
     (set, "int"), (frozenset, "complex")],
)  # fmt: skip
def test_colliding_keys_are_refused(tight, make, kind):
    with pytest.raises(FileError, match="take too long: their hashes collide"):
        through_file(_Saved(make, colliding(kind, 8000)))


def test_colliding_keys_of_safetensors_files_are_refused(tight):
    rows = [[{"t": "int", "v": str(key)}, None] for key in colliding("int", 8000)]
    structure = json.dumps({"t": "dict", "v": rows})
    metadata = {"structure": structure, "format": "cograd", "version": "1"}
    file = io.BytesIO(safetensors.serialize({}, metadata=metadata))
    with pytest.raises(FileError, match="hashes collide"):
        torch.load(file)


def test_many_small_containers_share_the_limit(tight):
    keys = colliding("int", 300)
    filler = Filler(1000)
    with pytest.raises(ValueError, match="hashes collide"):
        for _ in range(10_000):
            filler.put({}, keys, keys)


@pytest.mark.parametrize(
    "keys",
    [
        list(range(40_000)),
        [-(k**3) for k in range(40_000)],
        [k * 1_000_003 % 2**64 for k in range(40_000)],
        [k / 7 for k in range(40_000)],
        [(k, str(k), (None, 0.5)) for k in range(20_000)],
        [str(k) for k in range(40_000)],
        [2**70, -(2**2000), True, None, b"x", 1j],
        [torch.float32, torch.device("cpu"), torch.strided, torch.channels_last],
        [torch.Size([1]), (torch.Size([2]), 3), frozenset([torch.Size([4])])],
    ],
    ids=["small", "negative", "large", "float", "tuple", "str", "mixed", "named", "sizes"],
)
def test_keys_that_are_read(keys):
    there = through_file([dict.fromkeys(keys, 1), set(keys)])
    assert there == [dict.fromkeys(keys, 1), set(keys)]
    assert [type(key) for key in there[0]] == [type(key) for key in dict.fromkeys(keys)]


@pytest.mark.parametrize(
    ("key", "message"),
    [
        (b"]", "a list"),
        (b"ctorch\nTensor\n", "a "),
        (b"ctorch._utils\n_rebuild_tensor_v2\n", "a Function"),
        (b"\x8b\x00\x04\x00\x00" + b"\x7f" * 1024, "an int of over 4096 bits"),
        (b"\x8b\x00\x04\x00\x00" + b"\x7f" * 1024 + b"\x85", "an int of over 4096 bits"),
    ],
)
def test_keys_that_are_refused(key, message):
    for text in (b"}" + key + b"Ns.", b"\x8f(" + key + b"\x90.", b"(" + key + b"\x91."):
        with pytest.raises(FileError, match=f"a key or an item of a set is {message}"):
            torch.load(archive_of(text))


def test_wide_keys_by_reference_are_bounded(tight):
    """Two bytes refer to a tuple of 4000 items, whose hash is computed each time."""
    text = b"(" + b"K\x01" * 4000 + b"tq\x00" + b"}" + b"h\x00Ns" * 50_000 + b"."
    with pytest.raises(FileError, match="take too long"):
        torch.load(archive_of(text))
