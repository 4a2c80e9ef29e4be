# SPDX-License-Identifier: BSD-3-Clause
"""cograd/safetensors.h: reads what Python writes, and refuses damaged files."""

import json
import random
import shutil
import struct

import numpy as np
import pytest

import cograd as torch
from cograd.utils.cpp_extension import load_inline

pytestmark = pytest.mark.skipif(
    not any(map(shutil.which, ("c++", "g++", "clang++"))), reason="there is no C++ compiler"
)
SOURCE = """
#include <cograd/safetensors.h>
using cograd::SafeTensors;
using cograd::Tensor;

std::vector<std::string> names(const std::string& path) { return SafeTensors(path).names(); }
Tensor get(const std::string& path, const std::string& name) { return SafeTensors(path)[name]; }
std::vector<int64_t> sizes(const std::string& path, const std::string& name) {
  return SafeTensors(path).sizes(name);
}
int64_t loaded(const std::string& path) {
  return static_cast<int64_t>(cograd::load_safetensors(path).size());
}
std::vector<std::string> metadata(const std::string& path) {
  std::vector<std::string> out;
  const SafeTensors first(path);
  for (const auto& m : first.metadata()) out.push_back(m.first + "=" + m.second);
  return out;
}
// A moved file is still open, and reads another tensor after the path is gone.
Tensor moved(const std::string& path, const std::string& name) {
  SafeTensors first(path);
  std::remove(path.c_str());
  const SafeTensors second(std::move(first));
  return second.get(name);
}
"""
FUNCTIONS = ["names", "get", "sizes", "loaded", "metadata", "moved"]
DTYPES = (
    "bool uint8 int8 int16 int32 int64 uint16 uint32 uint64 float16 bfloat16 float32 float64"
    " complex64"
).split()


@pytest.fixture(scope="module")
def ops():
    flags = ["-D_GLIBCXX_ASSERTIONS", "-Wall", "-Wextra", "-Wconversion", "-Werror"]
    source = "#include <cstdio>\n" + SOURCE
    return load_inline("t_safetensors", source, functions=FUNCTIONS, extra_cflags=flags)


def write(path, header, data=b"", length=None):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    length = len(text) if length is None else length
    path.write_bytes(struct.pack("<Q", length) + text + data)
    return str(path)


def entry(dtype="F32", shape=(2,), begin=0, end=8):
    return {"dtype": dtype, "shape": list(shape), "data_offsets": [begin, end]}


def test_reads_what_python_writes(ops, tmp_path):
    path = str(tmp_path / "all.safetensors")
    tensors = {n: torch.tensor([[0, 1], [1, 0]], dtype=getattr(torch, n)) for n in DTYPES}
    tensors["turned"] = torch.arange(6.0).reshape(2, 3).t()
    tensors["zero dims"] = torch.tensor(2.5)
    tensors["empty"] = torch.zeros(0, 3)
    torch.save(tensors, path)
    assert ops.names(path) == sorted(tensors)
    assert ops.loaded(path) == len(tensors)
    for name, x in tensors.items():
        y = ops.get(path, name)
        assert y.dtype == x.dtype and y.shape == x.shape and y.is_contiguous()
        assert torch.equal(x, y), name
        assert ops.sizes(path, name) == list(x.shape)
    assert any(text.startswith("structure={") for text in ops.metadata(path))


def test_reads_what_the_package_safetensors_writes(ops, tmp_path):
    from safetensors.numpy import save_file

    path = str(tmp_path / "package.safetensors")
    arrays = {
        'quote" back\\ tab\t é 𝛼': np.arange(4, dtype=np.int16),
        "b": np.ones((2, 0, 3), dtype=np.float32),
    }
    save_file(arrays, path, metadata={"who": "ümläut"})
    assert ops.names(path) == sorted(arrays)
    for name, x in arrays.items():
        assert np.array_equal(ops.get(path, name).numpy(), x)
    assert ops.metadata(path) == ["who=ümläut"]


def test_special_values_keep_their_bits(ops, tmp_path):
    for dtype, name, bits in (("F16", "float16", 0x7E01), ("BF16", "bfloat16", 0xFFC1)):
        path = write(tmp_path / "x", {"x": entry(dtype, (1,), 0, 2)}, struct.pack("<H", bits))
        x = ops.get(path, "x")
        assert x.dtype == getattr(torch, name)
        assert x.view(torch.int16).item() & 0xFFFF == bits


def test_escapes_in_names(ops, tmp_path):
    header = rb'{ "\u0061\n\ud835\udefc\u00e9\/" : {"dtype":"U8","x":[1,{"y":null}],"shape":[],'
    header += rb'"data_offsets":[0,1]}}  '
    assert ops.names(write(tmp_path / "x", header, b"\7")) == ["a\n𝛼é/"]


def test_a_file_can_be_moved(ops, tmp_path):
    path = write(tmp_path / "x", {"x": entry()}, struct.pack("<2f", 1, 2))
    assert ops.moved(path, "x").tolist() == [1, 2]


GOOD = {"x": entry()}
BAD = {
    "nothing": (None, b"", "has 0 bytes"),
    "short": (None, b"abc", "has 3 bytes"),
    "other file": (None, b"PK\x03\x04" + b"\0" * 9 + b"\xff" * 9, "or no safetensors file"),
    "huge header": (b"{}", b"", "more than the format allows", 100_000_001),
    "cut header": (b"{}", b"", "the header should have 500 bytes, but only 2 follow", 500),
    "cut data": (GOOD, b"1234567", "'x' is at bytes 0 to 8 of the data, which has 7; .*truncated"),
    "more data": (GOOD, b"123456789", "the data has 9 bytes, but the tensors only 8"),
    "no json": (b"hello", b"", "expected an object at byte 0 of 5"),
    "end": (b"{} x", b"", "expected the end at byte 3"),
    "unclosed": (b'{"x', b"", "expected the end of a string"),
    "list": (b"[]", b"", "expected an object"),
    "comma": (b'{"__metadata__":{"a":"b" "c":"d"}}', b"", "expected a comma"),
    "escape": (rb'{"__metadata__":{"a":"\x"}}', b"", "expected an escape"),
    "half": (rb'{"__metadata__":{"a":"\ud835"}}', b"", "surrogate"),
    "low half": (rb'{"__metadata__":{"a":"\udc00"}}', b"", "surrogate"),
    "hex": (rb'{"__metadata__":{"a":"\u12g4"}}', b"", "hexadecimal"),
    "control": (b'{"__metadata__":{"a":"\n"}}', b"", "control character"),
    "lacks": ({"x": {"dtype": "F32", "shape": []}}, b"", "'x' lacks dtype, shape or data_offsets"),
    "one offset": ({"x": {**entry(), "data_offsets": [0]}}, b"", "has 1 data_offsets"),
    "negative": ({"x": entry(shape=(-2,))}, b"8" * 8, "whole number that is not negative"),
    "fraction": (b'{"x":{"shape":[1.5]}}', b"", "whole number"),
    "zeros": (b'{"x":{"shape":[01]}}', b"", "whole number"),
    "number": (b'{"x":{"shape":[99999999999999999999]}}', b"", r"a number below 2\^63"),
    "overflow": ({"x": entry(shape=(2**62, 2**62))}, b"8" * 8, "has 8 bytes in the file"),
    "wraps": ({"x": entry(shape=(2**62, 4))}, b"8" * 8, "has 8 bytes in the file"),
    "bytes": ({"x": entry(shape=(3,))}, b"8" * 8, r"'x', F32\[3\], has 8 bytes in the file"),
    "empty": ({"x": entry(shape=(0, 2))}, b"8" * 8, "no elements, but bytes"),
    "backwards": ({"x": entry(begin=8, end=0)}, b"8" * 8, "is at bytes 8 to 0"),
    "hole": ({"x": entry(begin=4, end=12)}, b"8" * 12, "begins at byte 4 of the data, where 0"),
    "overlap": ({"x": entry(), "y": entry(begin=4, end=12)}, b"8" * 12, "tensors overlap"),
    "dims": ({"x": entry(shape=[1] * 65, end=4)}, b"8" * 4, "has 65 dims"),
    "twice": (b'{"x":{"dtype":"U8","shape":[],"data_offsets":[0,1]},"x":{}}', b"1", "there twice"),
    "deep": (b'{"x":{"y":' + b"[" * 9999, b"", "fewer nested values"),
    "bool": ({"x": entry("BOOL", (2,), 0, 2)}, b"\1\2", "bool tensor 'x' has an element 2"),
}


@pytest.mark.parametrize("case", BAD)
def test_damaged_files_raise(case, ops, tmp_path):
    header, data, message, *length = BAD[case]
    path = tmp_path / "bad"
    if header is None:
        path.write_bytes(data)
    else:
        write(path, header, data, *length)
    with pytest.raises(ValueError, match=message) as e:
        ops.loaded(str(path))
    assert str(path) in str(e.value)


def test_files_that_cannot_be_read(ops, tmp_path):
    with pytest.raises(RuntimeError, match="cannot open .*nowhere: No such file or directory"):
        ops.loaded(str(tmp_path / "nowhere"))
    with pytest.raises(ValueError, match="it is not a file"):
        ops.loaded(str(tmp_path))


def test_unknown_names_and_dtypes(ops, tmp_path):
    header = {"x": entry(), "y": entry("F8_E4M3", (4,), 8, 12)}
    path = write(tmp_path / "x", header, struct.pack("<2f", 1, 2) + b"1234")
    assert ops.get(path, "x").tolist() == [1, 2]
    with pytest.raises(IndexError, match="has no tensor 'z'; it has x, y"):
        ops.get(path, "z")
    with pytest.raises(NotImplementedError, match="tensor 'y' has the dtype F8_E4M3"):
        ops.get(path, "y")


def test_random_damage_never_does_more_than_raise(ops, tmp_path):
    """What is accepted has the values that the package safetensors reads, if it accepts it."""
    import safetensors

    path = tmp_path / "fuzzed"
    tensors = {"a": torch.arange(3.0), "b": torch.tensor([True]), "c\n": torch.zeros(2, 2)}
    torch.save(tensors, str(path), format="safetensors")
    good = path.read_bytes()
    generator = random.Random(7)
    accepted = 0
    for _ in range(1500):
        data = bytearray(good)
        for _ in range(generator.choice([1, 1, 2, 5])):
            data[generator.randrange(len(data))] = generator.choice(b'{}[]",:0129 \\eE-') or 0
        if generator.random() < 0.2:
            del data[generator.randrange(len(data)) :]
        path.write_bytes(data)
        try:
            names = ops.names(str(path))
            found = {name: ops.get(str(path), name) for name in names}
        except (ValueError, NotImplementedError):
            continue
        accepted += 1
        try:
            theirs = {n: bytes(e["data"]) for n, e in safetensors.deserialize(bytes(data))}
        except safetensors.SafetensorError:
            continue
        assert sorted(theirs) == names
        for name, x in found.items():
            assert x.contiguous().view(torch.uint8).numpy().tobytes() == theirs[name]
    assert accepted > 20
