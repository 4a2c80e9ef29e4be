# SPDX-License-Identifier: BSD-3-Clause
"""The meta device: tensors and models with shapes and dtypes but no data."""

import copy
import pickle
import threading

import pytest

import cograd as torch
from cograd import nn

META = torch.device("meta")


def meta(*shape, **options):
    return torch.empty(*shape, device="meta", **options)


def test_a_meta_tensor_has_everything_but_values():
    x = meta(3, 4, dtype=torch.float64)
    assert x.is_meta
    assert not x.is_cpu
    assert x.device == META
    assert x.device.index is None
    assert (x.shape, x.dtype, x.stride()) == ((3, 4), torch.float64, (4, 1))
    assert x.data_ptr() == 0
    assert x.t().is_meta
    assert x[1:, None].shape == (2, 1, 4)
    assert repr(meta(3)) == "tensor(..., device='meta', size=(3,))"
    assert repr(x.long()) == "tensor(..., device='meta', size=(3, 4), dtype=cograd.int64)"


def test_memory_is_not_needed():
    x = meta(1 << 20, 1 << 20)
    y = (x @ x).relu() + 1
    assert y.shape == (1 << 20, 1 << 20)
    assert y.sum(0).is_meta


@pytest.mark.parametrize(
    "read",
    [
        lambda x: x.item(),
        bool,
        float,
        lambda x: x.tolist(),
        lambda x: x.numpy(),
        lambda x: x.cpu(),
        lambda x: x.to("cpu"),
        lambda x: torch.zeros(1).copy_(x),
        lambda x: torch.equal(x, x.clone() + 1),
        lambda x: torch.allclose(x, x),
        lambda x: x.nonzero(),
        lambda x: torch.unique(x),
        lambda x: x[x > 0],
        lambda x: memoryview(x),
        lambda x: x.__dlpack__(),
        lambda x: x in [1.0],
        lambda x: 1.0 in x,
        list,
    ],
)
def test_reading_values_raises(read):
    x = meta(1)
    if read is list:
        assert [t.is_meta for t in x] == [True]
        return
    with pytest.raises((NotImplementedError, TypeError, RuntimeError, BufferError), match="meta"):
        read(x)


def test_devices_do_not_mix():
    with pytest.raises(RuntimeError, match="Expected all tensors to be on the same device, but"):
        torch.ones(3) + meta(3)
    with pytest.raises(RuntimeError, match="argument 'mat2' is on meta|'mat2'"):
        torch.mm(torch.ones(2, 2), meta(2, 2))
    with pytest.raises(RuntimeError, match="out="):
        torch.add(torch.ones(3), torch.ones(3), out=meta(3))
    with pytest.raises(RuntimeError, match="same device"):
        torch.cat([torch.ones(3), meta(3)])


def test_numbers_and_scalars_of_the_cpu_go_along():
    x = meta(3)
    for y in (x + 1, x * torch.tensor(2.0), torch.where(x > 0, x, 0.0), x.clamp(0, 1), x**2):
        assert y.is_meta
        assert y.dtype is torch.float32
    assert (x + torch.tensor(2.0, dtype=torch.float64)).dtype is torch.float32


def test_in_place_and_out():
    x = meta(3)
    before = x._version
    assert x.add_(1).zero_().copy_(torch.ones(3)) is x
    assert x._version == before + 3
    out = meta(0)
    torch.add(x, x, out=out)
    assert out.shape == (3,)
    values, indices = (
        torch.empty(0, device="meta"),
        torch.empty(0, dtype=torch.int64, device="meta"),
    )
    torch.max(meta(2, 3), 1, out=(values, indices))
    assert (values.shape, indices.shape) == ((2,), (2,))


FACTORIES = {
    "zeros": lambda **k: torch.zeros(2, 3, **k),
    "ones": lambda **k: torch.ones(2, 3, **k),
    "full": lambda **k: torch.full((2, 3), 7.0, **k),
    "arange": lambda **k: torch.arange(5, **k),
    "linspace": lambda **k: torch.linspace(0, 1, 5, **k),
    "eye": lambda **k: torch.eye(3, **k),
    "rand": lambda **k: torch.rand(2, **k),
    "randn": lambda **k: torch.randn(2, **k),
    "randint": lambda **k: torch.randint(5, (2,), **k),
    "randperm": lambda **k: torch.randperm(4, **k),
    "tensor": lambda **k: torch.tensor([1.0, 2.0], **k),
    "as_tensor": lambda **k: torch.as_tensor([1.0, 2.0], **k),
    "tril_indices": lambda **k: torch.tril_indices(3, 3, **k),
    "empty_strided": lambda **k: torch.empty_strided((2, 2), (1, 2), **k),
}


@pytest.mark.parametrize("name", FACTORIES)
def test_factories_create_where_they_are_told_to(name):
    make = FACTORIES[name]
    there = make(device="meta")
    here = make()
    assert there.is_meta
    assert here.is_cpu
    assert (there.shape, there.dtype, there.stride()) == (here.shape, here.dtype, here.stride())
    with torch.device("meta"):
        assert make().is_meta
        assert make(device="cpu").is_cpu
    assert make().is_cpu
    assert torch.zeros_like(there, device="cpu").is_cpu
    assert torch.zeros_like(here, device="meta").is_meta
    assert there.new_zeros(2).is_meta
    assert there.new_tensor([1]).is_meta


def test_the_default_device_is_that_of_the_thread():
    found = []
    torch.set_default_device("meta")
    try:
        assert torch.get_default_device() == META
        assert torch.ones(2).is_meta
        assert (torch.ones(2, device="cpu") + 1).is_cpu
        thread = threading.Thread(target=lambda: found.append(torch.ones(2).is_cpu))
        thread.start()
        thread.join()
        with torch.device("cpu"):
            assert torch.ones(2).is_cpu
        assert torch.ones(2).is_meta
    finally:
        torch.set_default_device(None)
    assert found == [True]
    assert torch.ones(2).is_cpu

    @META
    def make():
        return torch.ones(2)

    assert make().is_meta
    assert make.__name__ == "make"
    with pytest.raises(RuntimeError, match="not available"):
        torch.set_default_device("cuda")


def test_gradients_have_shapes():
    x = meta(3, 4, requires_grad=True)
    w = meta(5, 4, requires_grad=True)
    y = torch.nn.functional.layer_norm(x @ w.t(), (5,)).relu().sum()
    assert y.requires_grad
    y.backward()
    assert x.grad.is_meta
    assert (x.grad.shape, w.grad.shape) == ((3, 4), (5, 4))
    (g,) = torch.autograd.grad((x * x).sum(), x, create_graph=True)
    (h,) = torch.autograd.grad(g.sum(), x)
    assert h.is_meta
    assert h.shape == (3, 4)


def test_user_code_in_a_backward_finds_the_cpu():
    made = []

    class Double(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            made.append(torch.ones(1).device.type)
            return x * 2

        @staticmethod
        def backward(ctx, g):
            made.append(torch.ones(1).device.type)
            return g * 2

    x = meta(3, requires_grad=True)
    x.register_hook(lambda g: made.append(torch.ones(1).device.type))
    pack = lambda t: (made.append(torch.ones(1).device.type), t)[1]
    with torch.autograd.graph.saved_tensors_hooks(pack, pack):
        y = Double.apply(x).exp().sum()
    y.backward()
    assert x.grad.is_meta
    assert set(made) == {"cpu"}
    assert len(made) >= 5


def test_transforms_see_shapes():
    from cograd.func import grad, jacrev, jvp, vmap

    x = meta(3, 4)
    assert vmap(lambda v: v.sum() * v)(x).shape == (3, 4)
    assert grad(lambda v: (v**3).sum())(x).is_meta
    assert jacrev(lambda v: v.sin())(meta(4)).shape == (4, 4)
    value, tangent = jvp(torch.exp, (x,), (torch.ones_like(x),))
    assert value.is_meta
    assert tangent.is_meta


def model():
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(128, 16),
        nn.LayerNorm(16),
        nn.Dropout(0.5),
        nn.Linear(16, 4),
    )


def test_models_are_built_counted_and_filled_later():
    with torch.device("meta"):
        big = model()
    assert all(p.is_meta for p in big.parameters())
    assert all(b.is_meta for b in big.buffers())
    assert sum(p.numel() for p in big.parameters()) == sum(p.numel() for p in model().parameters())
    assert big(meta(2, 3, 8, 8)).shape == (2, 4)
    with pytest.raises(NotImplementedError, match="Cannot copy out of meta tensor; no data!"):
        big.to("cpu")
    state = model().state_dict()
    with pytest.warns(UserWarning, match="which is a no-op"):
        big.load_state_dict(state)
    big.load_state_dict(state, assign=True)
    assert all(p.is_cpu and isinstance(p, nn.Parameter) for p in big.parameters())
    assert big(torch.ones(2, 3, 8, 8)).isfinite().all()


def test_to_empty_and_back():
    layer = nn.Linear(3, 4, device="meta", dtype=torch.float64)
    assert layer.weight.is_meta
    assert layer.weight.dtype is torch.float64
    weight = layer.weight
    layer.to_empty(device="cpu")
    assert layer.weight.is_cpu
    assert layer.weight is not weight
    assert layer.weight.requires_grad
    layer.to("meta")
    assert layer.bias.is_meta
    assert isinstance(layer.bias, nn.Parameter)


def test_optimizers_step_over_meta_parameters():
    layer = nn.Linear(3, 4, device="meta")
    for kind in (torch.optim.SGD, torch.optim.Adam, torch.optim.AdamW):
        opt = kind(layer.parameters(), lr=0.1)
        layer(meta(2, 3)).sum().backward()
        opt.step()
        opt.zero_grad()


def test_copies_and_pickles():
    x = meta(3, 4).t()
    for y in (copy.deepcopy(x), copy.copy(x), pickle.loads(pickle.dumps(x))):
        assert y.is_meta
        assert (y.shape, y.stride()) == (x.shape, x.stride())
    p = pickle.loads(pickle.dumps(nn.Parameter(meta(2))))
    assert isinstance(p, nn.Parameter)
    assert p.is_meta


def test_saved_files_load_onto_meta(tmp_path):
    path = tmp_path / "state.pt"
    torch.save(model().state_dict(), path)
    loaded = torch.load(path, map_location="meta")
    assert all(t.is_meta for t in loaded.values())
    torch.save(loaded, tmp_path / "shapes.pt")
    again = torch.load(tmp_path / "shapes.pt")
    assert {k: v.shape for k, v in again.items()} == {k: v.shape for k, v in loaded.items()}


def test_data_of_another_device_is_refused():
    x = torch.ones(3)
    with pytest.raises(RuntimeError, match="set_data"):
        x.data = meta(3)


def other_device(g):
    return meta(300)


def test_gradients_of_another_device_raise():
    x = torch.ones(300, requires_grad=True)
    with pytest.raises(RuntimeError, match="expected device cpu but got meta"):
        x.sin().backward(meta(300))
    y = x.sin()
    y.register_hook(other_device)
    with pytest.raises(RuntimeError, match="expected device cpu but got meta"):
        y.sum().backward()
    with pytest.raises(RuntimeError, match="different device"):
        x.grad = meta(300)
    there = meta(300, requires_grad=True)
    with pytest.raises(RuntimeError, match="different device"):
        there.grad = torch.ones(300)
    with pytest.raises(RuntimeError, match="expected device meta but got cpu"):
        there.sin().backward(torch.ones(300))
    with torch.autograd.graph.saved_tensors_hooks(other_device, lambda t: t):
        y = x.sin()
    with pytest.raises(RuntimeError, match="unpack hook returned a tensor on meta"):
        y.sum().backward()


def test_shapes_of_another_device_are_read():
    x = torch.ones(6)
    assert x.view_as(meta(2, 3)).shape == (2, 3)
    assert x.expand_as(meta(2, 6)).is_cpu


def test_lazy_modules_stay_where_they_are():
    layer = nn.LazyLinear(3, device="meta")
    assert layer(meta(2, 4)).shape == (2, 3)
    assert layer.weight.is_meta


@pytest.mark.parametrize("stream", ["philox", "torch"])
def test_random_ops_leave_the_generator_alone(stream):
    """A model that is built on meta first gets the same numbers afterwards, as in torch."""
    old = torch.get_rng()
    torch.set_rng(stream)
    try:
        x = torch.full((5,), 0.5, device="meta")
        before = torch.get_rng_state()
        (
            torch.rand(3, device="meta"),
            torch.randn(3, device="meta"),
            torch.randperm(3, device="meta"),
        )
        x.uniform_(), x.normal_(), x.exponential_(), x.random_(), torch.randint_like(x, 3)
        (
            x.bernoulli(),
            torch.normal(x, x),
            torch.nn.functional.dropout(x),
            torch.rrelu(x, 0.1, 0.3, True),
        )
        torch.nn.Linear(3, 4, device="meta")
        assert torch.equal(torch.get_rng_state(), before)
    finally:
        torch.set_rng(old)
