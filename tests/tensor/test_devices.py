# SPDX-License-Identifier: BSD-3-Clause
"""Features that create tensors by themselves: on the device of their arguments, not on the CPU.

The tests run in a process where the fake device is enabled; they are functions of this file.
`pytest --device fake` runs the rest of the suite there.
"""

import copy
import io
import os
import pickle
import subprocess
import sys
import warnings

import pytest

import cograd as torch
from cograd import distributions as D
from cograd import nn

FAKE = os.environ.get("COGRAD_FAKE_DEVICE") == "1"
DEVICE = "fake"
on_device = pytest.mark.skipif(not FAKE, reason="runs in the process of test_on_the_fake_device")


@pytest.mark.skipif(FAKE, reason="this is that process")
def test_on_the_fake_device():
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", __file__],
        env=os.environ | {"COGRAD_FAKE_DEVICE": "1", "PYTEST_ADDOPTS": ""},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:]
    assert " failed" not in done.stdout and " passed" in done.stdout, done.stdout[-300:]


@pytest.mark.skipif(FAKE, reason="the other process does not repeat it")
def test_a_tenth_of_the_suite_runs_on_the_fake_device():
    """`make nightly` runs all of it."""
    here = os.path.dirname(os.path.dirname(__file__))
    files = [os.path.join(here, name) for name in ("nn", "autograd", "optim", "sparse")]
    options = ["-q", "-p", "no:cacheprovider", "--device", "fake", "--every", "10"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, *files],
        env=os.environ | {"PYTEST_ADDOPTS": ""},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:]


def ones(*shape, **options):
    return torch.ones(*shape, device=DEVICE, **options)


def there(*tensors):
    return all(t.device.type == DEVICE for t in tensors)


@on_device
def test_copies_keep_the_device():
    x = ones(2, 3).t()
    for y in (copy.deepcopy(x), pickle.loads(pickle.dumps(x)), copy.copy(x)):
        assert there(y) and y.stride() == x.stride() and torch.equal(y, x)
    file = io.BytesIO()
    for kind in ("torch", "safetensors"):
        torch.save({"a": x}, file, format=kind)
        assert there(torch.load(io.BytesIO(file.getvalue()))["a"])
        file = io.BytesIO()
    torch.save(x, file)
    assert torch.load(io.BytesIO(file.getvalue()), map_location="cpu").is_cpu
    raw = x.untyped_storage()
    assert raw.device.type == raw.clone().device.type == raw[5:2].device.type == DEVICE
    assert x.share_memory_() is x
    assert x.numpy(force=True).shape == (3, 2)
    lazy = copy.deepcopy(nn.LazyBatchNorm1d(device=DEVICE))
    assert there(lazy(ones(4, 2)), *lazy.buffers())


@on_device
def test_lazy_modules_stay_lazy_where_they_move():
    moved = nn.LazyLinear(2).to(DEVICE)
    assert there(moved(ones(3, 4))) and moved.weight.shape == (2, 4)
    nowhere = nn.LazyLinear(2).to("meta")
    assert isinstance(nowhere.weight, nn.UninitializedParameter)
    assert nowhere(torch.ones(3, 4, device="meta")).shape == (3, 2)


def nan_of(device):
    x = torch.zeros(2, device=device, requires_grad=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with (
            torch.autograd.detect_anomaly(),
            pytest.raises(RuntimeError, match="returned nan values in its 0th output") as raised,
        ):
            (x.sqrt() * 0).sum().backward()
    return str(raised.value)


@on_device
def test_anomaly_mode_explains_a_nan():
    assert nan_of(DEVICE) == nan_of("cpu")
    assert "0 * inf" in nan_of(DEVICE)


@on_device
def test_sparse_tensors_move_with_their_indices():
    s = torch.eye(3, dtype=torch.float64).to_sparse().to(DEVICE)
    assert there(s, s.indices(), s.values()) and s.cpu().indices().is_cpu
    for kind in (s, s.to_sparse_csr(), s.to_sparse_csc()):
        x = ones(3, 2, dtype=torch.float64).requires_grad_()
        (kind @ x).sum().backward()
        assert there(x.grad) and x.grad.tolist() == [[1, 1]] * 3
    table = nn.Embedding(3, 2, sparse=True, device=DEVICE)
    table(torch.tensor([1, 1], device=DEVICE)).sum().backward()
    assert there(table.weight.grad) and table.weight.grad.to_dense()[1].tolist() == [2, 2]
    made = torch.sparse_coo_tensor([[0, 1], [1, 0]], ones(2))
    assert there(made, made.coalesce().indices())


@on_device
def test_functions_get_zeros_for_missing_tangents():
    seen = []

    class Product(torch.autograd.Function):
        @staticmethod
        def forward(ctx, a, b):
            return a * b

        @staticmethod
        def jvp(ctx, a, b):
            seen.extend((a, b))
            return a

    with torch.autograd.forward_ad.dual_level():
        Product.apply(torch.autograd.forward_ad.make_dual(ones(2), ones(2)), ones(2))
    assert there(*seen) and len(seen) == 2


class Twice(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, g):
        return g * 2


@on_device
def test_gradient_checks_run_there():
    x = ones(2, 2, dtype=torch.float64).mul_(0.5).requires_grad_()
    for options in (
        {},
        {"fast_mode": True},
        {"check_forward_ad": True, "check_batched_grad": True},
    ):
        assert torch.autograd.gradcheck(lambda t: (t @ t).sin(), (x,), **options)
    assert torch.autograd.gradgradcheck(lambda t: t.pow(3), (x,))
    assert torch.autograd.gradcheck(Twice.apply, (x,), check_forward_ad=True)
    torch.testing.check(Twice, x)
    y = x * 1
    (g,) = torch.autograd.grad(
        ones(1, requires_grad=True), y, allow_unused=True, materialize_grads=True
    )
    assert there(g)


@on_device
def test_transforms_of_signals_and_their_gradients():
    x = torch.arange(6.0, dtype=torch.float64, device=DEVICE).requires_grad_()
    y = torch.fft.rfft(x)
    assert there(y)
    assert torch.allclose(y.detach().cpu(), torch.fft.rfft(x.detach().cpu()))
    y.abs().square().sum().backward()
    assert there(x.grad)


@on_device
@pytest.mark.parametrize(
    "make",
    [
        lambda p: D.Normal(p, 1.0),
        lambda p: D.LowRankMultivariateNormal(p, p[:, None], p),
        lambda p: D.VonMises(p, 2.0),
        lambda p: D.StudentT(p, 0.0, 1.0),
        lambda p: D.Categorical(p),
        lambda p: D.Geometric(p / 2),
        lambda p: D.LKJCholesky(3, p),
        lambda p: D.Wishart(p + 2, torch.eye(2, device=DEVICE)),
        lambda p: D.RelaxedBernoulli(0.5, p / 2),
        lambda p: D.Kumaraswamy(p, 2.0),
        lambda p: D.Laplace(p, 1.0),
    ],
)
def test_distributions_sample_where_their_parameters_are(make):
    d = make(ones(2))
    value = d.sample((3,))
    assert there(value, d.log_prob(value))


@on_device
def test_sequences_and_losses():
    x = torch.randn(3, 2, 4).to(DEVICE)
    packed = nn.utils.rnn.pack_padded_sequence(x, [2, 3], enforce_sorted=False)
    assert packed.batch_sizes.is_cpu and there(packed.data, packed.sorted_indices)
    out, state = nn.GRU(4, 5, device=DEVICE)(packed)
    padded, lengths = nn.utils.rnn.pad_packed_sequence(out)
    assert there(padded, state) and lengths.tolist() == [2, 3]
    labels = torch.ones(2, 2, dtype=torch.int64, device=DEVICE)
    lengths = torch.tensor([3, 3]), torch.tensor([2, 1])
    assert there(nn.functional.ctc_loss(x.log_softmax(-1), labels, *lengths))


@on_device
def test_transformers_look_at_their_mask():
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(4, 2, 8, dropout=0.0)
    encoder, x = nn.TransformerEncoder(layer, 1), torch.randn(5, 2, 4)
    mask = nn.Transformer.generate_square_subsequent_mask(5)
    wanted = encoder(x, mask)
    found = encoder.to(DEVICE)(x.to(DEVICE), mask.to(DEVICE))
    assert there(found) and torch.equal(found.cpu(), wanted)


@on_device
def test_what_else_creates_tensors():
    x = torch.randn(8, 2).to(DEVICE)
    found = torch.histogramdd(x, [2, 2])
    assert there(found.hist, *found.bin_edges)
    assert there(*torch.lobpcg(torch.eye(6, device=DEVICE), 1))
    assert there(nn.grad.conv1d_input((1, 1, 3), ones(1, 1, 2), ones(1, 1, 2)))
    layer = nn.Linear(3, 2, device=DEVICE)
    nn.utils.prune.random_unstructured(layer, "weight", 2)
    nn.utils.prune.random_structured(layer, "weight", 1, dim=1)
    assert there(layer(ones(1, 3)))
    swa = torch.optim.swa_utils.AveragedModel(nn.Linear(2, 2), device=DEVICE)
    assert there(swa.n_averaged, *swa.module.parameters())


@on_device
def test_hooks_get_zeros_where_no_gradient_arrives():
    class Two(nn.Module):
        def forward(self, x, y):
            return x * 2, y * 3

    seen, module = [], Two()
    module.register_full_backward_hook(lambda m, given, out: seen.extend((*given, *out)))
    x, y = ones(1, requires_grad=True), ones(1, requires_grad=True)
    module(x, y)[0].sum().backward()
    assert there(*(t for t in seen if t is not None)) and x.grad.item() == 2


@on_device
def test_indices_on_the_cpu():
    x = torch.zeros(3, device=DEVICE)
    x[torch.tensor([True, False, True])] = 5.0
    x[torch.tensor([1])] = 2.0
    assert x.tolist() == [5, 2, 5]
    assert [len(p) for p in torch.tensor_split(x, torch.tensor([1, 2]))] == [1, 1, 1]
    with pytest.raises(RuntimeError, match="Expected all tensors to be on the same device"):
        torch.ones(3).add_(x)


@on_device
def test_saved_tensors_go_to_disk_and_back():
    x = ones(100, requires_grad=True)
    budget = torch.autograd.graph.saved_tensor_budget(500)
    with budget:
        y = x.exp().sin().exp().sum()
    assert budget.spilled_bytes > 0
    y.backward()
    z = torch.ones(100, requires_grad=True)
    z.exp().sin().exp().sum().backward()
    assert there(x.grad) and torch.equal(x.grad.cpu(), z.grad)


@on_device
def test_deep_runs_keep_the_default_device():
    """A nested backward that is too deep for the stack runs on a thread of the engine."""
    made = []

    class Nested(torch.autograd.Function):
        @staticmethod
        def forward(ctx, depth, x):
            ctx.depth = depth
            return x * 1

        @staticmethod
        def backward(ctx, g):
            made.append(torch.zeros(1).device.type)
            if ctx.depth > 0:
                with torch.enable_grad():
                    x = torch.ones(1, requires_grad=True)
                    Nested.apply(ctx.depth - 1, x).sum().backward()
            return None, g

    with torch.device(DEVICE):
        Nested.apply(150, torch.ones(1, requires_grad=True)).sum().backward()
    assert set(made) == {DEVICE} and len(made) == 151


@on_device
def test_a_trace_notices_sizes_there():
    with pytest.warns(torch.jit.TracerWarning, match="keeps a size"):
        torch.jit.trace(lambda x: x * int(x.shape[0]), ones(3))


def test_storages_on_meta_are_told_apart():
    x, y = torch.empty(2, device="meta"), torch.empty(2, device="meta")
    assert x.untyped_storage().data_ptr() == 0 and x.untyped_storage().nbytes() == 8
    assert x.untyped_storage().device.type == "meta"
    assert torch._C._storage_key(x) == torch._C._storage_key(x[1:]) != torch._C._storage_key(y)


def test_full_backward_hooks_run_on_meta():
    seen = []
    layer = nn.Linear(2, 3, device="meta")
    layer.register_full_backward_hook(lambda m, given, out: seen.append(given[0].shape))
    layer(torch.empty(4, 2, device="meta", requires_grad=True)).sum().backward()
    assert seen == [(4, 2)]


def test_the_cpu_has_no_index():
    x = torch.ones(2, device="cpu:0")
    assert x.device == torch.device("cpu") and x.to("cpu:0") is x
    assert torch.device("cpu:0") != torch.device("cpu")
    with torch.device("cpu:0"):
        assert torch.get_default_device() == torch.device("cpu")
        assert (torch.ones(2) + x).device == torch.device("cpu")
    assert torch.from_dlpack(x, device="cpu:0").device == torch.device("cpu")
    assert torch.tensor([1.0], device="cpu:0").device == torch.device("cpu")
