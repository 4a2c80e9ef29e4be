# SPDX-License-Identifier: BSD-3-Clause
"""jit.save and jit.load: what comes back, and what a file cannot do."""

import copy
import io
import pickle
import shutil
from pathlib import Path

import pytest

import cograd as torch
from cograd import nn
from cograd.jit import _archive
from cograd.utils import cpp_extension

FILES = Path(__file__).parents[1] / "recorded" / "torch_files"


class Shared(nn.Module):
    def __init__(self):
        super().__init__()
        self.one = nn.Linear(3, 3)
        self.two = self.one
        self.tied = nn.Linear(3, 3)
        self.tied.weight = self.one.weight
        self.tied.bias.requires_grad_(False)
        self.register_buffer("count", torch.zeros(1), persistent=False)
        self.none = None

    def forward(self, x):
        y = self.tied(self.two(self.one(x)))[..., None, ::2].to(torch.float64)
        return y.sum(-1, dtype=torch.float32) * torch.tensor([2.0]), self.count


def saved(traced, **options):
    buffer = io.BytesIO()
    torch.jit.save(traced, buffer, **options)
    buffer.seek(0)
    return buffer


def test_module(tmp_path):
    traced = torch.jit.trace(Shared().eval(), torch.ones(2, 3))
    traced.save(tmp_path / "model.pt")
    x = torch.arange(12.0).view(4, 3)
    for source in (tmp_path / "model.pt", str(tmp_path / "model.pt"), saved(traced)):
        loaded = torch.jit.load(source)
        assert isinstance(loaded, torch.jit.ScriptModule)
        assert all(torch.equal(a, b) for a, b in zip(loaded(x), traced(x), strict=True))
        assert loaded.code == traced.code
        assert not loaded.training
        assert list(loaded.state_dict()) == list(traced.state_dict())
        assert loaded.one is loaded.two
        assert loaded.one.weight is loaded.tied.weight
        assert not loaded.tied.bias.requires_grad
        loaded(x)[0].sum().backward()
        assert loaded.one.weight.grad.any()


def test_function_and_extra_files():
    traced = torch.jit.trace(
        lambda x, y: (x - y, {"k": y.mT}), (torch.ones(1, 2),) * 2, strict=False
    )
    extra = {"note": "", "absent": "kept"}
    loaded = torch.jit.load(saved(traced, _extra_files={"note": "text"}), _extra_files=extra)
    assert extra == {"note": b"text", "absent": "kept"}
    assert isinstance(loaded, torch.jit.ScriptFunction)
    first, second = loaded(torch.ones(1, 2), torch.zeros(1, 2))
    assert first.tolist() == [[1, 1]]
    assert second["k"].tolist() == [[0], [0]]


@pytest.mark.parametrize(
    "make", [lambda: nn.LSTM(3, 4), lambda: nn.TransformerEncoderLayer(4, 2, 8)]
)
def test_layers(make):
    module = make().eval()
    traced = torch.jit.trace(
        module,
        torch.ones(5, 3 if hasattr(module, "mode") else 2, 4)[
            ..., : 3 if hasattr(module, "mode") else 4
        ],
    )
    x = torch.ones(2, 3, 3 if hasattr(module, "mode") else 4)
    found, wanted = torch.jit.load(saved(traced))(x), module(x)
    if isinstance(wanted, tuple):
        found, wanted = found[0], wanted[0]
    assert torch.equal(found, wanted)


def test_what_cannot_be_saved():
    with pytest.raises(RuntimeError, match="expected what jit.trace returns, but got Linear"):
        torch.jit.save(nn.Linear(2, 2), io.BytesIO())


def spectrum(x):
    window = torch.ones(4)
    return torch.istft(x.stft(4, window=window, return_complex=True), 4, window=window)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: nn.functional.dropout(x, 0.5, True),
        lambda x: nn.functional.dropout1d(x[None], 0.5, True),
        lambda x: torch.dropout(x, 0.5, True),
        lambda x: torch.fft.fftshift(torch.fft.ifft(torch.fft.fft(x))).real,
        lambda x: torch.stft(x, 4, window=torch.ones(4), return_complex=True).abs(),
        spectrum,
        lambda x: x[:, None].adjoint(),
    ],
)
def test_functions_of_other_namespaces(function):
    x = torch.arange(16.0)
    traced = torch.jit.trace(function, x, check_trace=False)
    others = torch.jit.load(saved(traced)), copy.deepcopy(traced._module)
    others += (pickle.loads(pickle.dumps(traced._module)),)
    for other in others:
        torch.manual_seed(0)
        wanted = function(x)
        torch.manual_seed(0)
        assert torch.equal(other(x), wanted)


@pytest.mark.skipif(
    not any(map(shutil.which, ("c++", "g++", "clang++"))), reason="there is no C++ compiler"
)
def test_ops_of_libraries(tmp_path, monkeypatch):
    monkeypatch.setenv("COGRAD_EXTENSIONS_DIR", str(tmp_path))
    code = """
    #include <cograd/extension.h>
    static cograd::Tensor plus(const cograd::Tensor& x) { return x + 1; }
    COGRAD_LIBRARY(t_archive, m) { m.def("plus", &plus, "x"); }
    """
    cpp_extension.load_inline("t_archive", code)
    traced = torch.jit.trace(lambda x: torch.ops.t_archive.plus(x), torch.ones(2))
    loaded = torch.jit.load(saved(traced))
    assert loaded(torch.ones(3)).tolist() == [2, 2, 2]
    data = _archive.to_data(traced)
    (graph,) = data["graphs"].values()
    assert graph[1][2] == "library.t_archive::plus"
    graph[1][2] = "library.t_archive::minus"
    with pytest.raises(RuntimeError, match="the op 't_archive::minus', which is not registered"):
        _archive.from_data(data)


def own(x):
    return x


def test_messages_name_no_other_function():
    traced = torch.jit.trace(torch.relu, torch.ones(1))
    next(iter(traced.graph.find_nodes(op="call_function"))).target = own
    with pytest.raises(RuntimeError, match="^jit.save: the trace calls own, which is no op"):
        torch.jit.save(traced, io.BytesIO())
    with pytest.raises(RuntimeError, match="^the trace calls own"):
        copy.deepcopy(traced._module)


def test_other_files():
    with pytest.raises(
        RuntimeError, match="TorchScript archive of libtorch, which cograd cannot read"
    ):
        torch.jit.load(FILES / "script.pt")
    with open(FILES / "script.pt", "rb") as file:
        with pytest.raises(RuntimeError, match="TorchScript archive of libtorch"):
            torch.jit.load(file)
    buffer = io.BytesIO()
    torch.save({"a": torch.ones(1)}, buffer)
    buffer.seek(0)
    with pytest.raises(RuntimeError, match="not written by cograd's jit.save"):
        torch.jit.load(buffer)


def node(op="call_function", name="y", target="op.relu", args=({"node": "x"},), kwargs=None):
    return [op, name, target, list(args), kwargs or {"dict": []}]


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (node(target="op._load_library", args=["x.so"]), "no op of cograd"),
        (node(target="os.system", args=["true"]), "no op of cograd"),
        (node(target="operator.methodcaller", args=["x"]), "no op of cograd"),
        (node(target="op.__loader__"), "no op of cograd"),
        (node(target="fft.math"), "no op of cograd"),
        (node(target="python.load"), "no op of cograd"),
        (node(target="library.os::system"), "not registered"),
        (node("call_method", target="share_memory_"), "no op of cograd"),
        (node("call_method", target="__reduce__"), "no op of cograd"),
        (node("call_method", target="add(1) or exit"), "no op of cograd"),
        (node(target="getattr", args=[{"node": "x"}, "__class__"]), "reads the attribute"),
        (node("get_attr", target="a.__class__"), "not a valid name"),
        (node("get_attr", target="a b", args=[]), "not a valid name"),
        (node("call_module", target="a"), "unknown kind"),
        (node(name="y = exit()"), "not a valid name"),
        (node(name="class"), "not a valid name"),
        (node(kwargs={"dict": [["a=exit()", 1]]}), "not a valid name"),
        (node(args=[{"eval": "1"}]), "unknown kind"),
        (node(args=[{"dtype": "save"}]), "unknown kind"),
    ],
)
def test_names_that_are_code_are_refused(bad, message):
    data = _archive.to_data(torch.jit.trace(torch.relu, torch.ones(1)))
    (graph,) = data["graphs"].values()
    assert graph[1][:3] == ["call_function", "relu", "op.relu"]
    graph[0][1] = graph[0][2] = "x"
    graph[1:] = [bad, ["output", "output", "output", [{"node": bad[1]}], {"dict": []}]]
    with pytest.raises(RuntimeError, match=message):
        _archive.from_data(data)
