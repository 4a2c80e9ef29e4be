# SPDX-License-Identifier: BSD-3-Clause
"""save and load on safetensors files."""

import io
import json
import math
import pickle
import zipfile
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
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("data.pkl", b"x")
    cases = {
        "a zip archive": archive.getvalue(),
        "a pickle": pickle.dumps([1]),
        "too short": b"abc",
        "first bytes": b"hello world, this is text",
        "header starts with": (10).to_bytes(8, "little") + b"not a json",
    }
    for text, content in cases.items():
        with pytest.raises(RuntimeError, match=text):
            torch.load(io.BytesIO(content))


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


def test_arguments(tmp_path):
    path = tmp_path / "x.safetensors"
    torch.save(torch.ones(1), path)
    assert torch.load(path, map_location="cpu").item() == 1
    with pytest.raises(ValueError, match="never unpickles"):
        torch.load(path, weights_only=False)
    with pytest.raises(RuntimeError, match="map_location"):
        torch.load(path, map_location="cuda:0")
    with pytest.raises(FileNotFoundError):
        torch.load(tmp_path / "absent")
