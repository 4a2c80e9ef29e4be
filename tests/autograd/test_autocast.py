# SPDX-License-Identifier: BSD-3-Clause
"""autocast and GradScaler: the dtype of each op, state of the thread, gradients."""

import gc
import threading
import warnings
import weakref

import pytest

import cograd as torch
from cograd import nn
from cograd.nn import functional as F
from cograd.testing import assert_close

LOW, HALF, WIDE, DOUBLE = torch.bfloat16, torch.float16, torch.float32, torch.float64


def square(n=3, *, dtype=WIDE):
    a = torch.rand(n, n)
    return (a @ a.mT + 3 * torch.eye(n)).to(dtype)


def edges(t):
    return {node for node, _ in t.grad_fn.next_functions if node is not None}


# The result's dtype for float32 arguments, as torch 2.13 determines it on a CPU.
CASES = {
    "matmul": (lambda x: x @ x, LOW),
    "mm": (lambda x: torch.mm(x, x), LOW),
    "bmm": (lambda x: torch.bmm(x[None], x[None]), LOW),
    "addmm": (lambda x: torch.addmm(x, x, x), LOW),
    "baddbmm": (lambda x: torch.baddbmm(x, x[None], x[None]), LOW),
    "inner": (lambda x: torch.inner(x, x), LOW),
    "linear": (lambda x: F.linear(x, x, x[0]), LOW),
    "conv2d": (lambda x: F.conv2d(x[None, None], x[None, None]), LOW),
    "conv_transpose1d": (lambda x: F.conv_transpose1d(x[None], x[:, :, None]), LOW),
    "einsum": (lambda x: torch.einsum("ij,jk->ik", x, x), LOW),
    "tensordot": (lambda x: torch.tensordot(x, x, 1), LOW),
    "chain_matmul": (lambda x: torch.linalg.multi_dot([x, x]), LOW),
    "prelu": (lambda x: F.prelu(x, x[0, :1]), LOW),
    "attention": (lambda x: F.scaled_dot_product_attention(x[None], x[None], x[None]), LOW),
    "lstm": (lambda x: nn.LSTM(3, 2)(x)[0], LOW),
    "cov": (lambda x: x.cov(), LOW),
    "mv": (lambda x: torch.mv(x, x[0]), None),
    "dot": (lambda x: torch.dot(x[0], x[0]), None),
    "softmax": (lambda x: F.softmax(x, -1), None),
    "layer_norm": (lambda x: F.layer_norm(x, [3]), None),
    "sum": (lambda x: x.sum(), None),
    "exp": (lambda x: x.exp(), None),
    "max_pool2d": (lambda x: F.max_pool2d(x[None], 2), None),
    "add_out": (lambda x: torch.mm(x, x, out=torch.empty_like(x)), None),
    "in_place": (lambda x: x.clone().addmm_(x, x), None),
    "prod": (lambda x: x.prod(), WIDE),
    "trace": (lambda x: x.trace(), WIDE),
    "quantile": (lambda x: x.quantile(0.5), WIDE),
    "cdist": (lambda x: torch.cdist(x, x), WIDE),
    "avg_pool3d": (lambda x: F.avg_pool3d(x[None, None], (1, 2, 2)), WIDE),
    "max_pool3d": (lambda x: F.max_pool3d(x[None, None], (1, 2, 2)), WIDE),
    "mse_loss": (lambda x: F.mse_loss(x, x), WIDE),
    "cross_entropy": (lambda x: F.cross_entropy(x, torch.arange(3)), WIDE),
    "nll_loss": (lambda x: F.nll_loss(x, torch.arange(3)), WIDE),
    "bce": (lambda x: F.binary_cross_entropy_with_logits(x, x), WIDE),
    "smooth_l1_loss": (lambda x: F.smooth_l1_loss(x, x), WIDE),
    "kl_div": (lambda x: F.kl_div(x, x, reduction="sum"), WIDE),
    "hinge": (lambda x: F.hinge_embedding_loss(x, x), WIDE),
    "multi_margin": (lambda x: F.multi_margin_loss(x, torch.arange(3)), WIDE),
    "grid_sample": (
        lambda x: F.grid_sample(x[None, None], x[None, :, None, :2], align_corners=False),
        WIDE,
    ),
    "inverse": (lambda x: x.inverse(), WIDE),
    "svdvals": (lambda x: torch.linalg.svdvals(x), WIDE),
    "qr": (lambda x: torch.linalg.qr(x)[0], WIDE),
    "solve": (lambda x: torch.linalg.solve(x, x), WIDE),
    "cholesky": (lambda x: torch.linalg.cholesky(x), WIDE),
}


@pytest.mark.parametrize("name", CASES)
def test_dtypes(name):
    run, want = CASES[name]
    for given in (WIDE, LOW, DOUBLE):
        if name == "lstm" and given is not WIDE:
            continue
        x = square(dtype=given)
        with torch.autocast("cpu", LOW):
            got = run(x).dtype
        keeps = given if want is None or given is DOUBLE else want
        if want is WIDE and given is WIDE:
            keeps = WIDE
        assert got == keeps, (name, given)


def test_values_are_those_of_explicit_casts():
    x, w, b = torch.randn(4, 3), torch.randn(5, 3), torch.randn(5)
    with torch.autocast("cpu", HALF):
        got = F.linear(x, w, b)
    assert torch.equal(got, F.linear(x.half(), w.half(), b.half()))


def test_complex_and_integers_stay():
    z, i = torch.ones(2, 2, dtype=torch.complex64), torch.ones(2, 2, dtype=torch.int64)
    with torch.autocast("cpu"):
        assert (z @ z).dtype == torch.complex64 and (i @ i).dtype == torch.int64


def test_least_squares_stay_wide():
    a, b = torch.eye(4, 3) + 0.3, torch.arange(8.0).reshape(4, 2)
    want = torch.linalg.lstsq(a, b, driver="gelsd")
    low = torch.bfloat16
    with torch.autocast("cpu", dtype=low):
        for x, y in ((a, b), (a.to(low), b), (a.to(low), b.to(low))):
            got = torch.linalg.lstsq(x, y, driver="gelsd")
            assert [t.dtype for t in got] == [torch.float32] * 2 + [torch.int64, torch.float32]
        assert_close(tuple(torch.linalg.lstsq(a, b, driver="gelsd")), tuple(want))
        assert torch.linalg.lstsq(a.double(), b.double()).solution.dtype is torch.float64


def test_gradients_come_back_in_the_parameters_dtype():
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.LayerNorm(8), nn.Linear(8, 3))
    x, y = torch.randn(6, 4), torch.tensor([0, 1, 2, 0, 1, 2])
    F.cross_entropy(model(x), y).backward()
    plain = [p.grad for p in model.parameters()]
    model.zero_grad()
    with torch.autocast("cpu", LOW):
        out = model(x)
        loss = F.cross_entropy(out, y)
    assert out.dtype == LOW and loss.dtype == WIDE
    loss.backward()
    for p, want in zip(model.parameters(), plain):
        assert p.grad.dtype == WIDE
        assert_close(p.grad, want, rtol=0.1, atol=0.02)


def test_training_falls_under_autocast():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(),
                          nn.Linear(4 * 36, 2))  # fmt: skip
    x = torch.randn(16, 1, 8, 8)
    y = (x.mean((1, 2, 3)) > 0).long()
    optimizer = torch.optim.Adam(model.parameters(), 1e-2)
    losses = []
    for _ in range(20):
        optimizer.zero_grad()
        with torch.autocast("cpu", LOW):
            loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.3 * losses[0]


def test_parameters_are_cast_once_and_no_longer_than_the_block():
    w = nn.Parameter(torch.randn(3, 3))
    x = torch.randn(2, 3)
    with torch.autocast("cpu"):
        a, b = F.linear(x, w), F.linear(x, w)
        cast = edges(a)
        assert cast & edges(b)
        with torch.no_grad():
            assert not F.linear(x, w).requires_grad
        with torch.no_grad():
            w.mul_(2)  # the earlier cast must not be used for the new values
        assert_close(F.linear(x, w), 2 * a, rtol=2e-2, atol=2e-2)
        assert torch.is_autocast_cache_enabled()
    (a.sum() + b.sum()).backward()
    ref = weakref.ref(w)
    del w, a, b, cast
    gc.collect()
    assert ref() is None


def test_without_the_cache():
    w, x = nn.Parameter(torch.randn(3, 3)), torch.randn(2, 3)
    with torch.autocast("cpu", cache_enabled=False):
        a, b = F.linear(x, w), F.linear(x, w)
        assert not torch.is_autocast_cache_enabled()
    assert not edges(a) & edges(b)
    assert torch.is_autocast_cache_enabled()


def test_nesting_and_exceptions():
    x = torch.ones(2, 2)
    block = torch.autocast("cpu", LOW)
    with pytest.raises(KeyError), block:
        assert (x @ x).dtype == LOW
        with torch.autocast("cpu", enabled=False):
            assert (x @ x).dtype == WIDE
            with torch.autocast("cpu", HALF):
                assert (x @ x).dtype == HALF and torch.get_autocast_dtype("cpu") == HALF
        with block:
            assert (x @ x).dtype == LOW
        assert (x @ x).dtype == LOW and torch.is_autocast_cpu_enabled()
        raise KeyError
    assert (x @ x).dtype == WIDE and not torch.is_autocast_enabled("cpu")
    assert torch.get_autocast_dtype("cpu") == LOW


def test_decorator():
    @torch.autocast("cpu", dtype=HALF)
    def double(x, n):
        """Words."""
        return double(x, n - 1) @ x if n else x @ x

    assert double(torch.ones(2, 2), 3).dtype == HALF and double.__doc__ == "Words."
    assert not torch.is_autocast_enabled("cpu")


def test_threads_have_their_own():
    x, seen = torch.ones(2, 2), []
    with torch.autocast("cpu"):
        thread = threading.Thread(target=lambda: seen.append((x @ x).dtype))
        thread.start()
        thread.join()
    assert seen == [WIDE]

    def run():
        torch.set_autocast_enabled("cpu", True)  # the mode ends like this, too
        seen.append((x @ x).dtype)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert seen[1] == LOW and (x @ x).dtype == WIDE


def test_transforms_and_checkpoint():
    from cograd.utils.checkpoint import checkpoint

    w, x = torch.randn(3, 3, requires_grad=True), torch.randn(4, 3)
    with torch.autocast("cpu"):
        got = torch.func.vmap(lambda row: F.linear(row, w))(x)
        grad = torch.func.grad(lambda v: F.linear(x, v).float().sum())(w.detach())
        y = checkpoint(lambda v: F.linear(x, v).relu(), w, use_reentrant=False)
    assert got.dtype == LOW and grad.dtype == WIDE
    assert_close(got, F.linear(x, w).to(LOW), rtol=2e-2, atol=2e-2)
    y.sum().backward()  # outside of the block: the second run uses autocast, as the first one did
    assert w.grad.dtype == WIDE


def test_other_devices_and_dtypes_warn():
    x = torch.ones(2, 2)
    with pytest.warns(UserWarning, match="CUDA is not available"):
        block = torch.autocast("cuda")
    with block:
        assert (x @ x).dtype == WIDE
    with pytest.warns(UserWarning, match="only supports"):
        block = torch.autocast("cpu", torch.float64)
    with block:
        assert (x @ x).dtype == WIDE
    with pytest.raises(RuntimeError, match="unknown device_type 'abacus'"):
        torch.autocast("abacus")
    with pytest.raises(ValueError, match="type `str`"):
        torch.autocast(5)
    with pytest.raises(TypeError, match=r"autocast\(\): argument 'dtype' .* not str"):
        torch.autocast("cpu", "float16")
    torch.set_autocast_enabled("cuda:0", True)
    try:
        assert torch.is_autocast_enabled("cuda")
    finally:
        torch.set_autocast_enabled("cuda", False)
    with pytest.raises(TypeError, match="floating dtype"):
        torch.set_autocast_dtype("cpu", torch.int8)
    with pytest.raises(TypeError, match="must be a dtype, not list"):
        torch.set_autocast_gpu_dtype([torch.ones(2)])
    with torch.cuda.amp.autocast(), torch.cpu.amp.autocast():
        assert (x @ x).dtype == LOW


def test_state_functions():
    assert torch.get_autocast_gpu_dtype() == HALF and not torch.is_autocast_enabled()
    torch.set_autocast_enabled("cpu", True)
    torch.set_autocast_cpu_dtype(HALF)
    try:
        assert (torch.ones(1, 1) @ torch.ones(1, 1)).dtype == HALF
        assert torch.autocast_increment_nesting() == 1
        assert torch.autocast_decrement_nesting() == 0
        torch.clear_autocast_cache()
    finally:
        torch.set_autocast_cpu_dtype(LOW)
        torch.set_autocast_enabled("cpu", False)
    assert torch.amp.is_autocast_available("cpu") and not torch.amp.is_autocast_available("cuda")


def test_custom_function():
    seen = []

    class Product(torch.autograd.Function):
        @staticmethod
        @torch.amp.custom_fwd(device_type="cpu", cast_inputs=WIDE)
        def forward(ctx, x, w):
            ctx.save_for_backward(x, w)
            seen.append((x.dtype, (x @ w).dtype))
            return x @ w

        @staticmethod
        @torch.amp.custom_bwd(device_type="cpu")
        def backward(ctx, g):
            x, w = ctx.saved_tensors
            seen.append((g @ w.mT).dtype)
            return g @ w.mT, x.mT @ g

    w = torch.randn(2, 2, requires_grad=True)
    with torch.autocast("cpu"):
        Product.apply(torch.ones(2, 2, dtype=LOW), w).sum().backward()
    assert seen == [(WIDE, WIDE), WIDE] and w.grad.dtype == WIDE


def test_grad_scaler():
    p = nn.Parameter(torch.ones(3))
    optimizer = torch.optim.SGD([p], 0.1)
    scaler = torch.amp.GradScaler("cpu", init_scale=8.0, growth_interval=2)
    for _ in range(2):
        optimizer.zero_grad()
        scaler.scale((p * 2).sum()).backward()
        assert p.grad.tolist() == [2 * scaler.get_scale()] * 3
        scaler.unscale_(optimizer)
        assert p.grad.tolist() == [2.0] * 3
        scaler.step(optimizer)
        scaler.update()
    assert scaler.get_scale() == 16.0
    assert_close(p.detach(), torch.full((3,), 0.6))
    optimizer.zero_grad()
    scaler.scale((p * float("inf")).sum()).backward()
    scaler.step(optimizer)
    with pytest.raises(RuntimeError, match="already been called"):
        scaler.step(optimizer)
    scaler.update()
    assert scaler.get_scale() == 8.0
    assert_close(p.detach(), torch.full((3,), 0.6))
    other = torch.amp.GradScaler("cpu")
    other.load_state_dict(scaler.state_dict())
    assert other.get_scale() == 8.0
    with pytest.raises(AssertionError, match="No inf checks"):
        other.update()


def test_scalers_for_a_gpu_do_nothing():
    with pytest.warns(UserWarning, match="Disabling"):
        scaler = torch.GradScaler()
    loss = torch.ones(())
    assert scaler.scale(loss) is loss and not scaler.is_enabled() and scaler.get_scale() == 1.0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert torch.cuda.amp.GradScaler(enabled=True).state_dict() == {}
