# SPDX-License-Identifier: BSD-3-Clause
"""save and load with safetensors files."""

import argparse
import io
import json
import math
import pickle
from collections import OrderedDict

import numpy as np
import pytest

import cograd as torch
from cograd import nn, optim
from cograd.testing import assert_close

DTYPES = (
    "bool",
    "uint8",
    "int8",
    "int16",
    "int32",
    "int64",
    "uint16",
    "uint32",
    "uint64",
    "float16",
    "bfloat16",
    "float32",
    "float64",
)


def roundtrip(obj):
    file = io.BytesIO()
    torch.save(obj, file)
    file.seek(0)
    return torch.load(file)


@pytest.mark.parametrize("name", DTYPES)
def test_dtypes(name):
    dtype = getattr(torch, name)
    tensor = torch.arange(6).reshape(2, 3).to(dtype)
    back = roundtrip(tensor)
    assert back.dtype == dtype and back.shape == tensor.shape
    assert torch.equal(back, tensor)


@pytest.mark.parametrize("name", DTYPES)
def test_empty_and_zero_dim(name):
    dtype = getattr(torch, name)
    assert roundtrip(torch.empty((2, 0, 3), dtype=dtype)).shape == (2, 0, 3)
    assert roundtrip(torch.ones((), dtype=dtype)).item() == 1


def test_bfloat16_keeps_all_bits():
    tensor = torch.tensor([1.0, -0.0, math.inf, math.nan, 3e38, 1e-40]).to(torch.bfloat16)
    back = roundtrip(tensor)
    assert torch.equal(back.view(torch.int16), tensor.view(torch.int16))


def test_non_contiguous():
    tensor = torch.arange(12.0).reshape(3, 4).t()
    assert_close(roundtrip(tensor), tensor)


def test_nested_structure():
    obj = {
        "a": [1, 2.5, "text", None, True, (torch.ones(2), [])],
        "b": {"c": {3: torch.zeros(1)}, "big": 2**60, "nan": math.nan, "inf": -math.inf},
        "d.e": torch.ones(1),
        "d": {"e": torch.zeros(1)},
    }
    back = roundtrip(obj)
    assert back["a"][:5] == [1, 2.5, "text", None, True]
    assert isinstance(back["a"][5], tuple) and back["a"][5][1] == []
    assert list(back["b"]["c"]) == [3]
    assert back["b"]["big"] == 2**60 and math.isnan(back["b"]["nan"])
    assert back["b"]["inf"] == -math.inf
    assert back["d.e"].item() == 1 and back["d"]["e"].item() == 0


def test_shared_tensors_stay_shared():
    shared = torch.zeros(3)
    back = roundtrip({"x": shared, "y": shared, "z": shared.clone()})
    back["x"][0] = 5
    assert back["y"][0].item() == 5 and back["z"][0].item() == 0
    file = io.BytesIO()
    torch.save({"x": shared, "y": shared}, file)
    header = file.getvalue()
    size = int.from_bytes(header[:8], "little")
    assert len([k for k in json.loads(header[8 : 8 + size]) if k != "__metadata__"]) == 1


def test_requires_grad_and_parameter():
    back = roundtrip([torch.ones(2, requires_grad=True), nn.Parameter(torch.ones(1))])
    assert back[0].requires_grad and back[0].is_leaf
    assert isinstance(back[1], nn.Parameter) and back[1].requires_grad


def test_module_state_dict(tmp_path):
    model = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
    path = tmp_path / "model.safetensors"
    torch.save(model.state_dict(), path)
    other = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
    state = torch.load(str(path))
    assert isinstance(state, OrderedDict) and state._metadata[""] == {"version": 1}
    assert repr(other.load_state_dict(state)) == "<All keys matched successfully>"
    for a, b in zip(model.parameters(), other.parameters()):
        assert torch.equal(a, b)


def test_optimizer_state_dict():
    param = nn.Parameter(torch.ones(3))
    optimizer = optim.Adam([param], lr=0.1)
    param.grad = torch.ones(3)
    optimizer.step()
    back = roundtrip(optimizer.state_dict())
    assert back["param_groups"][0]["betas"] == (0.9, 0.999)
    other_param = nn.Parameter(param.detach().clone())
    other = optim.Adam([other_param], lr=0.5)
    other.load_state_dict(back)
    for p, o in ((param, optimizer), (other_param, other)):
        p.grad = torch.ones(3) * 2
        o.step()
    assert torch.equal(param, other_param)


def test_file_is_readable_by_safetensors(tmp_path):
    safetensors_numpy = pytest.importorskip("safetensors.numpy")
    path = tmp_path / "x.safetensors"
    torch.save({"w": torch.arange(3.0)}, path)
    np.testing.assert_array_equal(safetensors_numpy.load_file(path)["w"], [0, 1, 2])
    safetensors_numpy.save_file({"v": np.arange(4)}, path)
    back = torch.load(path)
    assert list(back) == ["v"] and back["v"].tolist() == [0, 1, 2, 3]


def test_loaded_tensors_are_writable():
    back = roundtrip(torch.ones(2))
    back += 1
    assert back.tolist() == [2, 2]


def test_refuses_other_files():
    cases = {
        "a pickle": pickle.dumps([1]),
        "too short": b"abc",
        "first bytes": b"hello world, this is text",
        "header starts with": (10).to_bytes(8, "little") + b"not a json",
    }
    for text, content in cases.items():
        with pytest.raises(RuntimeError, match=text):
            torch.load(io.BytesIO(content))


def test_a_header_whose_length_starts_as_a_pickle_does():
    """Lengths of 0x280 to 0x580 bytes begin with the bytes of pickle's protocols 2 to 5."""
    for length in (0x280, 0x380, 0x480, 0x580):
        content = io.BytesIO()
        name = "w"
        while int.from_bytes(content.getvalue()[:8], "little") != length:
            assert len(name) < 2000
            name += "w"
            content = io.BytesIO()
            torch.save({name: torch.ones(2)}, content)
        back = torch.load(io.BytesIO(content.getvalue()))
        assert back[name].tolist() == [1, 1]


def test_refuses_broken_header():
    content = io.BytesIO()
    torch.save(torch.ones(100), content)
    with pytest.raises(RuntimeError, match="not a valid safetensors file"):
        torch.load(io.BytesIO(content.getvalue()[:-40]))


def test_refuses_other_objects(tmp_path):
    path = tmp_path / "x.safetensors"
    with pytest.raises(TypeError, match="cannot store an object of type set at 'a.1'"):
        torch.save({"a": [1, {2}]}, path)
    with pytest.raises(TypeError, match="Linear"):
        torch.save(nn.Linear(1, 1), path)
    assert not path.exists()
    with pytest.raises(TypeError, match="dict keys"):
        torch.save({(1, 2): 3}, path)


@pytest.mark.parametrize("wrapped", [False, True])
@pytest.mark.parametrize(
    ("value", "advice"),
    [
        (nn.Linear(1, 1), "state_dict"),
        (np.ones(3), "from_numpy"),
        (torch.Size([1, 2]), r"tuple\(size\)"),
        (argparse.Namespace(a=1), r"vars\(namespace\)"),
        ({1, 2}, r"sorted\(values\)"),
        (torch.float32, "its name"),
        (torch.device("cpu"), "its name"),
        (1j, "as a tensor"),
        (range(3), "expected a Tensor"),
    ],
    ids=lambda v: type(v).__name__,
)
def test_says_what_to_do_with_other_objects(tmp_path, value, advice, wrapped):
    value = [value] if wrapped else value
    for file in (tmp_path / "x", io.BytesIO()):
        with pytest.raises(TypeError, match=advice):
            torch.save(value, file)
        with pytest.raises(TypeError, match='format="torch"'):
            torch.save(value, file)
    for file in (tmp_path / "x.pt", io.BytesIO()):  # advice that always holds
        torch.save(value, file, format="torch")


def test_arguments(tmp_path):
    path = tmp_path / "x.safetensors"
    torch.save(torch.ones(1), path)
    assert torch.load(path, map_location="cpu").item() == 1
    if not torch.cuda.is_available():
        with pytest.raises(
            RuntimeError, match=r"deserialize object on a CUDA device.*map_location"
        ):
            torch.load(path, map_location="cuda:0")
    with pytest.raises(RuntimeError, match="abacus"):
        torch.load(path, map_location="abacus")
    with pytest.raises(FileNotFoundError):
        torch.load(tmp_path / "absent")


def checkpoint():
    model = nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 2))
    return {
        "model": model.state_dict(),
        "step": 7,
        "rates": [0.1, (0.2, None), {"inf": math.inf, "big": 2**70}],
        "half": torch.ones(2, 3, dtype=torch.bfloat16, requires_grad=True),
        "none": torch.empty(0, 4),
    }


def damaged(content, seed):
    """Returns the bytes with one kind of damage: cut, flipped bits, overwritten or moved parts."""
    rng = np.random.default_rng(seed)
    data = bytearray(content)
    header = 8 + int.from_bytes(data[:8], "little")
    end = header if seed % 3 else len(data)  # most of the structure is in the header
    kind = seed % 6
    if kind == 0:
        del data[int(rng.integers(0, len(data))) :]
    elif kind == 1:
        for _ in range(int(rng.integers(1, 6))):
            data[int(rng.integers(0, end))] ^= 1 << int(rng.integers(0, 8))
    elif kind == 2:
        at = int(rng.integers(8, end - 8))
        data[at : at + 8] = rng.bytes(8)
    elif kind == 3:
        a, b = sorted(int(v) for v in rng.integers(8, end, 2))
        del data[a:b]
    elif kind == 4:  # changes what the JSON says; it stays JSON
        digits = [i for i in range(8, header) if chr(data[i]).isdigit()]
        for i in rng.choice(digits, 2):
            data[int(i)] = ord("0") + int(rng.integers(0, 10))
    else:
        words = (b"tensor", b"dict", b"list", b"dtype", b"shape", b"F32", b"BF16", b'"v"', b'"k"')
        old, new = words[seed // 6 % len(words)], words[int(rng.integers(0, len(words)))]
        body = bytes(data[8:header]).replace(old, new, int(rng.integers(1, 4)))
        data[8:header] = body
        data[:8] = len(body).to_bytes(8, "little")
    return bytes(data)


def test_damaged_files_raise_one_class_that_names_the_file(tmp_path):
    from cograd.serialization import FileError

    good = tmp_path / "good.safetensors"
    torch.save(checkpoint(), good)
    content = good.read_bytes()
    path = tmp_path / "damaged.safetensors"
    refused = 0
    for seed in range(600):
        path.write_bytes(damaged(content, seed))
        try:
            torch.load(path)
        except FileError as error:
            assert str(path) in str(error), (seed, error)
            assert isinstance(error, RuntimeError)
            refused += 1
    assert refused > 300
    assert torch.load(good)["step"] == 7


def test_deep_nesting_in_a_file_is_refused(tmp_path):
    import safetensors

    from cograd.serialization import FileError

    nested = '{"t":"list","v":[' * 20_000 + "1" + "]}" * 20_000
    metadata = {"structure": nested, "format": "cograd", "version": "1"}
    path = tmp_path / "deep.safetensors"
    path.write_bytes(safetensors.serialize({}, metadata=metadata))
    with pytest.raises(FileError, match="deep.safetensors"):
        torch.load(path)


def test_save_replaces_a_file_as_a_whole(tmp_path, monkeypatch):
    import os

    path = tmp_path / "model.safetensors"
    torch.save({"a": torch.ones(3)}, path)
    path.chmod(0o640)
    synced = []
    fsync = os.fsync
    monkeypatch.setattr(os, "fsync", lambda handle: (synced.append(handle), fsync(handle)))
    torch.save({"a": torch.zeros(3)}, path)
    assert len(synced) == 2, "the file and its folder are brought to the disk"
    assert path.stat().st_mode & 0o777 == 0o640
    assert torch.load(path)["a"].tolist() == [0.0, 0.0, 0.0]

    def fail(source, target):
        raise OSError("no space left")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(OSError, match="no space left"):
        torch.save({"a": torch.ones(9)}, path)
    monkeypatch.undo()
    assert torch.load(path)["a"].tolist() == [0.0, 0.0, 0.0], "the old file is untouched"
    assert [p.name for p in tmp_path.iterdir()] == ["model.safetensors"], "nothing is left behind"
    with pytest.raises(TypeError):
        torch.save(object(), path)
    assert torch.load(path)["a"].numel() == 3


def test_save_through_a_link_and_with_the_usual_mode(tmp_path):
    import os

    folder = tmp_path / "real"
    folder.mkdir()
    link = tmp_path / "link.safetensors"
    link.symlink_to(folder / "file.safetensors")
    torch.save(torch.ones(2), link)
    assert link.is_symlink() and torch.load(folder / "file.safetensors").tolist() == [1.0, 1.0]
    mask = os.umask(0)
    os.umask(mask)
    assert (folder / "file.safetensors").stat().st_mode & 0o777 == 0o666 & ~mask
    with pytest.raises(FileNotFoundError):
        torch.save(torch.ones(2), tmp_path / "missing" / "file.safetensors")


def test_complex128_is_kept_as_its_parts(tmp_path):
    z = torch.randn(3, 2, dtype=torch.complex128)
    shared = {"a": z, "again": z, "p": torch.nn.Parameter(z.t()), "empty": z[:0]}
    torch.save(shared, tmp_path / "z.safetensors")
    got = torch.load(tmp_path / "z.safetensors")
    assert got["a"].dtype == torch.complex128 and torch.equal(got["a"], z)
    assert torch.equal(got["p"], z.t()) and isinstance(got["p"], torch.nn.Parameter)
    assert got["a"].data_ptr() == got["again"].data_ptr()
    assert got["empty"].shape == (0, 2) and got["empty"].dtype == torch.complex128
