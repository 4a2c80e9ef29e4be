# SPDX-License-Identifier: BSD-3-Clause
"""Absent names raise an explanation; names of torch without effect here exist."""

import _thread
import difflib
import importlib
import inspect
import pickle
import re
import subprocess
import sys
import time
import traceback
from pathlib import Path

import pytest

import cograd as torch
from cograd._base import absent_names as _absent_names
from cograd._tensor import absent

DOCS = Path(__file__).resolve().parents[2] / "docs" / "coming_from_torch.md"
PLACES = [(module, topic) for module, topics in _absent_names.NAMES.items() for topic in topics]


@pytest.mark.parametrize(("module", "topic"), PLACES)
def test_every_name_of_the_table_is_absent_and_answers(module, topic):
    place = importlib.import_module(f"cograd.{module}" if module else "cograd")
    for name in _absent_names.NAMES[module][topic].split():
        with pytest.raises(AttributeError) as caught:
            getattr(place, name)
        text = str(caught.value)
        instead = _absent_names.INSTEAD.get(f"{module}.{name}" if module else name, "")
        assert name in text and (_absent_names.TOPICS[topic] in text or instead in text), name
        assert "python -m cograd docs " in text


def test_names_with_another_place():
    for path, instead in _absent_names.INSTEAD.items():
        module, _, name = path.rpartition(".")
        place = importlib.import_module(f"cograd.{module}" if module else "cograd")
        with pytest.raises(AttributeError, match=re.escape(instead)):
            getattr(place, name)


@pytest.mark.skipif(not DOCS.exists(), reason="docs/ is not here: no checkout")
def test_every_topic_has_its_section():
    headings = re.findall(r"^### (\w+)$", DOCS.read_text(encoding="utf-8"), re.MULTILINE)
    assert sorted(headings) == sorted(_absent_names.TOPICS)


def test_methods_of_tensors():
    x = torch.ones(2)
    for topic, names in absent.TENSOR.items():
        for name in names.split():
            with pytest.raises((NotImplementedError, RuntimeError)) as caught:
                getattr(x, name)()
            if caught.type is NotImplementedError:
                assert _absent_names.TOPICS[topic] in str(caught.value), name
    assert x.to_dense() is x and x.to_dense(torch.float64).dtype == torch.float64
    assert x.names == (None,) and not x.has_names() and not x.is_nested and not x.is_mkldnn


@pytest.mark.parametrize(
    ("module", "name", "near"),
    [
        ("", "zeroes", "zeros"),
        ("", "Float32", "float32"),
        ("nn", "Linaer", "Linear"),
        ("nn.functional", "cross_entrpy", "cross_entropy"),
        ("optim", "AdamX", "Adam"),
        ("linalg", "svd_vals", "svdvals"),
        ("utils", "benchmarks", "benchmark"),
        ("autograd", "gradd", "grad"),
        ("distributions", "Gausian", None),
    ],
)
def test_misspelt_names(module, name, near):
    place = importlib.import_module(f"cograd.{module}" if module else "cograd")
    with pytest.raises(AttributeError) as caught:
        getattr(place, name)
    text = str(caught.value)
    assert f"has no attribute {name!r}" in text
    assert ("did you mean" in text) == (near is not None) and (near is None or repr(near) in text)
    assert caught.value.name == name


def test_misspelt_methods():
    """Python suggests similar names after an uncaught error if dir() is short enough."""
    code = "import cograd, sys; x = cograd.nn.Parameter(cograd.ones(2)); x.squeez()"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert "Did you mean: 'squeeze'?" in run.stderr
    names = dir(torch.ones(2))
    assert "add_" in names and "grad" in names and "to_mkldnn" not in names and len(names) < 740


def test_from_imports_keep_the_explanation():
    with pytest.raises(ImportError, match="python -m cograd docs sparse"):
        from cograd import hspmm  # noqa: F401
    with pytest.raises(ImportError, match="did you mean 'Linear'"):
        from cograd.nn import Liner  # noqa: F401


def test_lookups_by_name_still_find_nothing():
    assert not hasattr(torch, "nested") and getattr(torch, "masked", 5) == 5
    assert not hasattr(torch, "__path_of_nothing__") and not hasattr(torch.nn, "_private")
    assert inspect.getdoc(torch) and inspect.unwrap(torch.compile) is torch.compile


def test_compile_returns_its_argument():
    model = torch.nn.Linear(2, 2)
    assert torch.compile(model, fullgraph=True, mode="max-autotune", backend="eager") is model

    @torch.compile(dynamic=True)
    def f(x):
        return x + 1

    @torch.compile
    def g(x):
        return f(x)

    assert g(torch.ones(1)).item() == 2 and not torch.compiler.is_compiling()
    assert model.compile() is None
    with pytest.raises(RuntimeError, match="both can't be"):
        torch.compile(model, mode="default", options={})
    with pytest.raises(RuntimeError, match="expected a module"):
        torch.compile(3)
    assert torch.compiler.disable(f) is f and torch.compiler.disable()(f) is f


def test_jit_runs_as_python():
    @torch.jit.script
    def f(x):
        return x * 2 if not torch.jit.is_scripting() else x

    class Net(torch.nn.Module):
        @torch.jit.ignore
        def a(self):
            return 1

        @torch.jit.unused
        def b(self):
            return 2

        @torch.jit.export
        def forward(self, x):
            return f(x) + self.a() + self.b()

    net = Net()
    assert torch.jit.script(net) is net and net(torch.ones(1)).item() == 5
    assert torch.jit.isinstance([1], list[int]) and torch.jit.annotate(int, 3) == 3


def test_no_gpu_is_answered():
    cuda = torch.cuda
    assert not cuda.is_available() and cuda.device_count() == 0 and not cuda.is_initialized()
    cuda.manual_seed(1), cuda.manual_seed_all(1), cuda.synchronize(), cuda.empty_cache()
    assert cuda.memory_allocated() == 0 and cuda.max_memory_allocated("cuda:0") == 0
    assert cuda.get_rng_state_all() == []
    for call in (cuda.current_device, cuda.init, lambda: cuda.set_device(0), cuda.get_rng_state):
        with pytest.raises(RuntimeError, match="there is no cuda device"):
            call()
    with cuda.device(-1):
        pass
    for name in ("mps", "xpu", "mtia", "accelerator"):
        assert not getattr(torch, name).is_available()
    assert torch.cpu.is_available() and torch.cpu.device_count() == 1
    with pytest.raises(AttributeError, match="support for accelerators is not offered"):
        cuda.nccl
    with pytest.raises(AttributeError, match="by MPI through distributed"):
        torch.distributed.rpc


def test_sync_batch_norm():
    model = torch.nn.Sequential(torch.nn.Conv1d(2, 3, 1), torch.nn.BatchNorm1d(3, eps=1e-4)).eval()
    twin = torch.nn.SyncBatchNorm.convert_sync_batchnorm(model)
    assert isinstance(twin[1], torch.nn.SyncBatchNorm) and twin[1].eps == 1e-4
    assert not twin[1].training and list(twin.state_dict()) == list(model.state_dict())
    x, layer, plain = torch.randn(4, 3, 5), torch.nn.SyncBatchNorm(3), torch.nn.BatchNorm1d(3)
    assert torch.equal(layer(x), plain(x))
    assert torch.equal(layer.running_var, plain.running_var)
    with pytest.raises(ValueError, match="at least 2D"):
        layer(torch.ones(3))


def test_native_ops(tmp_path):
    x = torch.randn(2, 3, 4)
    out, mean, rstd = torch.native_layer_norm(x, [3, 4], None, None, 1e-5)
    assert torch.equal(out, torch.nn.functional.layer_norm(x, [3, 4]))
    assert mean.shape == rstd.shape == (2, 1, 1)
    out, mask = torch.native_dropout(torch.ones(1000), 0.5, True)
    assert torch.equal(out, mask * 2.0) and 300 < mask.sum().item() < 700
    assert torch.native_dropout(x, 0.5, False)[1].all()
    path = str(tmp_path / "numbers")
    t = torch.from_file(path, shared=True, size=4, dtype=torch.int32)
    t.fill_(7)
    own = torch.from_file(path, size=2, dtype=torch.int32)
    own.zero_()
    assert torch.from_file(path, size=4, dtype=torch.int32).tolist() == [7] * 4
    with pytest.raises(RuntimeError, match="has 16 bytes, expected at least 20"):
        torch.from_file(path, size=5, dtype=torch.int32)


def moments_of(x, weight):
    """Returns mean and rstd of the native norms of x, (2, 4, 3), over the same groups of 12."""
    c = torch
    return {
        "layer": c.native_layer_norm(x, (4, 3), weight and c.ones(4, 3, dtype=weight), None, 1e-5),
        "group": c.native_group_norm(x, weight and c.ones(4, dtype=weight), None, 2, 4, 3, 1, 1e-5),
        "batch": c.native_batch_norm(
            x.reshape(1, 2, 12), weight and c.ones(2, dtype=weight), None, None, None, True, 0, 1e-5
        ),
    }


@pytest.mark.parametrize("grad", [False, True])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_moments_of_native_norms_have_torchs_dtype(dtype, grad):
    """Moments have the input's dtype, or float32 if the weights are wider."""
    x = (torch.randn(2, 4, 3) * 3 + 1).to(dtype).requires_grad_(grad)
    rows = x.detach().double().reshape(2, 12)
    exact = rows.mean(1), (rows.var(1, correction=0) + 1e-5).rsqrt()
    for weight in (None, dtype, torch.float32):
        for out in moments_of(x, weight).values():
            for got, want in zip(out[1:], exact):
                assert got.dtype == (weight or dtype)
                torch.testing.assert_close(
                    got.detach().reshape(2), want.to(got.dtype), rtol=3e-6, atol=0
                )


def test_moments_of_empty_groups():
    for x, args in ((torch.ones(2, 4, 0), (2, 4, 0, 2)), (torch.ones(2, 0, 3), (2, 0, 3, 1))):
        for leaf in (x, x.clone().requires_grad_()):
            _, mean, rstd = torch.native_group_norm(leaf, None, None, *args, 1e-5)
            assert (mean == 0).all() and rstd.isnan().all()
            assert mean.shape == rstd.shape == (2, args[3])
    _, mean, rstd = torch.native_layer_norm(torch.ones(2, 0), (0,), None, None, 1e-5)
    assert mean.tolist() == [[0.0], [0.0]] and rstd.isnan().all() and rstd.shape == (2, 1)


def test_layout_policy_and_old_names():
    with torch.autograd.enforce_grad_layout_policy(False):
        torch.ones(1, requires_grad=True).sum().backward()

    @torch.library.custom_op("absent_names::double", mutates_args=())
    def double(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    with pytest.warns(FutureWarning, match="register_fake"):
        torch.library.impl_abstract(double, lambda x: torch.empty_like(x))
    assert double(torch.ones(1)).item() == 2


def test_near_names_are_looked_for_when_printed(monkeypatch):
    looked = []
    search = difflib.get_close_matches

    def counting(*args, **kwargs):
        looked.append(args[0])
        return search(*args, **kwargs)

    monkeypatch.setattr(difflib, "get_close_matches", counting)
    assert not hasattr(torch, "zeross") and getattr(torch, "zeross", None) is None
    assert looked == []
    with pytest.raises(AttributeError) as caught:
        _ = torch.zeross
    error = caught.value
    assert error.name == "zeross" and error.obj is torch and looked == []
    assert "did you mean" in str(error) and "'zeros'" in str(error)
    last = traceback.format_exception_only(type(error), error)[-1]
    assert last.startswith(f"AttributeError: {error}")
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is AttributeError
    assert (str(again), again.name) == (str(error), "zeross")


def test_a_thread_without_frames_may_ask():
    answers = []
    _thread.start_new_thread(answers.extend, (map(hasattr, [torch], ["zeross"]),))
    end = time.monotonic() + 20
    while not answers and time.monotonic() < end:
        time.sleep(0.01)
    assert answers == [False]
