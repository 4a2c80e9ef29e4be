# SPDX-License-Identifier: BSD-3-Clause
"""Saving, loading, copying and printing of tensors on a GPU, on the fake driver."""

import io
import zipfile

import fakes
import pytest

import cograd as torch

pytestmark = pytest.mark.skipif(fakes.why_not() is not None, reason=str(fakes.why_not()))


def test_values_reach_python():
    fakes.run(
        """
import numpy as np
x = torch.arange(6.).reshape(2, 3).cuda()
assert x.tolist() == [[0, 1, 2], [3, 4, 5]] and x[1, 2].item() == 5 and float(x[0, 1]) == 1
assert [row.tolist() for row in x] == x.tolist() and len(x) == 2
assert bool(x[0, 1]) and not bool(x[0, 0]) and int(x[1, 0]) == 3 and f"{x[0, 2]:.1f}" == "2.0"
assert 4.0 in x and 9.0 not in x
assert (x.numpy(force=True) == np.arange(6).reshape(2, 3)).all()
y = x.clone().requires_grad_()
assert y.numpy(force=True).shape == (2, 3)
raises(TypeError, "can't convert cuda:0 device type tensor to numpy", np.asarray, x)
raises(TypeError, "can't convert cuda:0", x.numpy)
assert repr(x) == "tensor([[0., 1., 2.],\\n        [3., 4., 5.]], device='cuda:0')", repr(x)
assert "device='cuda:0', requires_grad=True" in repr(y), repr(y)
assert "device='cuda:0', grad_fn=<MulBackward0>" in repr(y * 2), repr(y * 2)
torch.set_printoptions(sci_mode=True, precision=1)
assert "e+00" in repr(x)
torch.set_printoptions(profile="default")
torch.set_printoptions(threshold=2, edgeitems=1)
assert "..." in repr(x)
"""
    )


def test_copies_and_pickles():
    fakes.run(
        """
import copy, pickle
x = torch.arange(6.).cuda()
both = copy.deepcopy([x, x[2:4]])
assert both[0].device == x.device and both[1].tolist() == [2, 3]
both[0][2] = 9
assert both[1].tolist() == [9, 3] and x[2].item() == 2  # shared among the copies only
assert copy.copy(x).data_ptr() == x.data_ptr()
for protocol in (2, 4, 5):
    a, b = pickle.loads(pickle.dumps([x, x[2:4]], protocol))
    assert a.device == x.device and torch.equal(a.cpu(), x.cpu())
    a[2] = 7
    assert b[0].item() == 7
p = torch.nn.Parameter(torch.ones(2).cuda())
p.extra = 3
q = pickle.loads(pickle.dumps(p))
assert type(q) is torch.nn.Parameter and q.is_cuda and q.extra == 3 and q.requires_grad
m = copy.deepcopy(torch.nn.Linear(2, 3).cuda())
assert m.weight.is_cuda
"""
    )


def test_storages():
    fakes.run(
        """
x = torch.arange(4, dtype=torch.int16).cuda()
s = x.untyped_storage()
assert s.device == torch.device("cuda", 0) and s.nbytes() == 8 and s.is_cuda
assert s.data_ptr() == x.data_ptr() and "device=cuda:0" in repr(s)
raises(BufferError, "cuda:0", bytes, s)
raises(BufferError, ".cpu()", memoryview, s)
assert bytes(s.cpu()) == bytes(torch.arange(4, dtype=torch.int16).untyped_storage())
assert s.cpu().device.type == "cpu" and s.cuda() is s and s.tolist() == [0, 0, 1, 0, 2, 0, 3, 0]
assert s[2] == 1 and s[2:4].device == s.device and s[2:4].tolist() == [1, 0]
c = s.clone()
assert c.device == s.device and c.data_ptr() != s.data_ptr() and c.tolist() == s.tolist()
c.fill_(1)
assert s[0] == 0 and c[0] == 1
s.copy_(c)
assert x.tolist() == [257] * 4
t = x.storage()
assert t.device == s.device and t.is_cuda and t.tolist() == [257] * 4
assert t.cpu().device.type == "cpu"
assert x.new([1, 2]).is_cuda and x.new(3).is_cuda
"""
    )


SAVE = """
import io
x = torch.arange(6.).cuda()
data = {"x": x, "view": x[2:4], "cpu": torch.ones(2), "b": torch.arange(3).to(torch.uint16).cuda(),
        "p": torch.nn.Parameter(torch.ones(2).cuda()), "where": x.device}
def load(f=None, **options):
    file.seek(0)
    return torch.load(file, **options)
"""


@pytest.mark.parametrize("form", ["torch", "safetensors"])
def test_save_and_load(form):
    fakes.run(
        SAVE
        + f"""
form = {form!r}
if form == "safetensors":
    del data["where"]
file = io.BytesIO()
torch.save(data, file, format=form)
got = load()
assert got["x"].device == x.device and torch.equal(got["x"].cpu(), x.cpu())
assert got["cpu"].device.type == "cpu" and got["b"].is_cuda and got["b"].dtype == torch.uint16
assert type(got["p"]) is torch.nn.Parameter and got["p"].is_cuda
if form == "torch":
    got["x"][2] = 9
    assert got["view"].tolist() == [9, 3] and got["where"] == x.device
for where in ("cpu", torch.device("cpu"), {{"cuda:0": "cpu"}}, lambda storage, location: storage):
    got = load(map_location=where)
    assert got["x"].device.type == "cpu" and got["x"].tolist() == list(range(6))
    assert got["view"].tolist() == [2, 3]
got = load(map_location={{"cpu": "cuda:1"}})
assert got["cpu"].device.index == 1 and got["x"].device.index == 0
got = load(map_location="cuda:1")
assert got["x"].device.index == got["cpu"].device.index == 1
seen = []
got = load(map_location=lambda storage, location: seen.append((storage.device.type, location)))
assert set(seen) == {{("cpu", "cuda:0"), ("cpu", "cpu")}} and got["x"].is_cuda
got = load(map_location=lambda storage, location: storage.cuda(1))
assert got["x"].device.index == 1
raises(RuntimeError, "CUDA device 7 but torch.cuda.device_count() is 2", load,
       map_location="cuda:7")
def refuse(storage, location):
    raise KeyError("mine")
raises(KeyError, "mine", load, map_location=refuse)
if form == "torch":
    assert load(map_location="meta")["x"].is_meta
    assert load(weights_only=False)["x"].is_cuda
""",
        FAKE_CUDA_DEVICES=2,
    )


def test_the_file_is_torchs(tmp_path):
    path = tmp_path / "x.pt"
    fakes.run(f"torch.save({{'x': torch.ones(3).cuda()}}, {str(path)!r})")
    with zipfile.ZipFile(path) as archive:
        text = archive.read("x/data.pkl")
        assert b"cuda:0" in text and b"FloatStorage" in text
        assert archive.read("x/data/0") == b"\0\0\x80\x3f" * 3
    if torch.cuda.is_available():
        return
    advice = "Attempting to deserialize object on a CUDA device.*map_location"
    with pytest.raises(RuntimeError, match=advice):
        torch.load(path)
    with pytest.raises(RuntimeError, match=advice):
        torch.load(path, weights_only=False)
    assert torch.load(path, map_location="cpu")["x"].tolist() == [1, 1, 1]
    assert torch.load(path, map_location="meta")["x"].is_meta
    with pytest.raises(RuntimeError, match=advice):
        torch.load(path, map_location="cuda")
    file = io.BytesIO()
    torch.save(torch.ones(2), file, format="torch")
    file.seek(0)
    assert torch.load(file, map_location={"cuda:0": "cpu"}).tolist() == [1, 1]
