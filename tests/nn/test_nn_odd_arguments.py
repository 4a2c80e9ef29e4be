# SPDX-License-Identifier: BSD-3-Clause
"""Layers, losses and optimizers with unusual shapes, options and inputs."""

import math
import warnings

import numpy as np
import pytest
from children import outcome

import cograd as torch
import cograd.nn.functional as F
from cograd import nn

# normalisation


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_running_variance_is_that_of_the_batch(dtype):
    x = torch.tensor([[1.0, 2.0], [1.0, 2.0 + 2.0**-6]], dtype=dtype)
    mean, var = torch.zeros(2), torch.ones(2)
    F.batch_norm(x, mean, var, training=True, momentum=1.0, eps=1.0)
    np.testing.assert_allclose(var.numpy(), [0, 2.0**-13], rtol=1e-6, atol=0)
    var = torch.ones(1)
    F.instance_norm(x.reshape(1, 1, 4), None, var, momentum=1.0, eps=1.0)
    np.testing.assert_allclose(var.numpy(), [x.double().var().item()], rtol=1e-6)


def test_running_statistics_are_written_both_or_neither():
    mean, var = torch.zeros(3), torch.ones(1).expand(3)
    for norm in (F.batch_norm, F.instance_norm):
        with pytest.raises(RuntimeError, match="single memory location"):
            norm(torch.randn(2, 3, 4), mean, var, None, None, True)
        assert mean.tolist() == [0, 0, 0]


def test_norms_of_too_few_values():
    with pytest.raises(ValueError, match="more than 1 spatial element"):
        F.instance_norm(torch.randn(4, 3))
    with pytest.raises(ValueError, match="more than 1 value per channel"):
        F.batch_norm(torch.randn(1, 3), None, None, training=True)
    assert F.batch_norm(torch.randn(4, 0, 2), None, None, training=True).shape == (4, 0, 2)


# losses


def test_no_classes_with_label_smoothing():
    loss = F.cross_entropy(
        torch.randn(2, 0), torch.tensor([-100, -100]), label_smoothing=0.1, reduction="sum"
    )
    assert loss.item() == 0


def test_ctc_of_nothing():
    with pytest.raises(RuntimeError, match="must not be empty"):
        F.ctc_loss(torch.zeros(0, 1, 3), torch.ones(1, 1, dtype=torch.int64), (0,), (1,))


@pytest.mark.parametrize("loss", [F.smooth_l1_loss, F.huber_loss])
def test_an_infinite_error_has_the_gradient_of_the_line(loss):
    x = torch.tensor([math.inf, -math.inf, 0.25], requires_grad=True)
    loss(x, torch.zeros(3), reduction="sum").backward()
    assert x.grad.tolist() == [1, -1, 0.25]
    bad = torch.tensor(math.nan, requires_grad=True)
    loss(bad, torch.zeros(())).backward()
    assert math.isnan(bad.grad.item())


@pytest.mark.parametrize(
    ("dtype", "beta"),
    [(torch.float16, 1e-8), (torch.float16, 1e-5), (torch.float32, 1e-50), (torch.float64, 5e-324)],
)
def test_smooth_l1_loss_of_a_beta_that_vanishes_is_l1_loss(dtype, beta):
    x = torch.tensor([0.01, -1, 0], dtype=dtype, requires_grad=True)
    loss = F.smooth_l1_loss(x, torch.zeros(3, dtype=dtype), reduction="none", beta=beta)
    loss.sum().backward()
    torch.testing.assert_close(loss, x.abs(), atol=beta, rtol=0)
    assert x.grad.tolist() == [1, -1, 0]


def test_negative_targets_of_kl_div_are_nan():
    x = torch.zeros(3)
    loss = F.kl_div(x, torch.tensor([-1.0, 0.0, 1.0]), reduction="none")
    assert math.isnan(loss[0].item()) and loss[1:].tolist() == [0, 0]


def test_an_infinite_variance_of_gaussian_nll_loss():
    x, var = torch.tensor([1.0], requires_grad=True), torch.tensor([math.inf])
    loss = F.gaussian_nll_loss(x, torch.zeros(1), var)
    loss.backward()
    assert loss.item() == math.inf and x.grad.tolist() == [0]


def test_a_margin_that_is_just_kept_has_no_gradient():
    for loss, target in ((F.multi_margin_loss, 0), (F.multilabel_margin_loss, [0, -1])):
        x = torch.tensor([1.0, 0.0], requires_grad=True)
        loss(x, torch.tensor(target)).backward()
        assert x.grad.tolist() == [0, 0], loss.__name__


def test_margins_are_kept():
    for kind, margin in (
        (nn.CosineEmbeddingLoss, 0.0),
        (nn.MarginRankingLoss, 0.0),
        (nn.HingeEmbeddingLoss, 1.0),
    ):
        assert kind().margin == margin
        assert kind(margin=0.5).margin == 0.5


# padding, pooling, sampling


@pytest.mark.parametrize(
    ("pad", "expected"),
    [((2, -1), [0, 1, 0, 1]), ((-1, 1), [1, 2, 1]), ((-1, 2), [1, 2, 1, 2]), ((-1, 0), [1, 2])],
)
def test_circular_padding_of_what_is_left(pad, expected):
    x = torch.tensor([[[0.0, 1, 2]]], requires_grad=True)
    y = F.pad(x, pad, "circular")
    assert y.tolist() == [[expected]]
    y.sum().backward()
    assert x.grad.tolist() == [[[expected.count(i) for i in range(3)]]]


def test_circular_padding_by_more_than_is_left():
    with pytest.raises(RuntimeError, match="more than once"):
        F.pad(torch.randn(1, 1, 3), (-2, 2), "circular")


@pytest.mark.parametrize(
    "call",
    [
        lambda x: F.adaptive_avg_pool1d(x, 2**40),
        lambda x: F.adaptive_max_pool1d(x, 2**40),
        lambda x: F.interpolate(x, 2**40),
        lambda x: F.adaptive_avg_pool1d(x[:0], 2**40),
    ],
)
def test_results_without_room_fail_at_once(call):
    # A child with limited memory: some systems promise more than they have.
    x = torch.zeros(1, 1, 1)
    text = outcome(lambda: call(x).shape)
    assert "MemoryError" in text, text


def test_indices_of_maxima_that_were_overwritten():
    x = torch.arange(8.0).reshape(1, 1, 8).requires_grad_()
    y, index = F.max_pool1d(x, 2, return_indices=True)
    index.numpy()[...] = 1 << 40
    with pytest.raises(RuntimeError, match="out of range"):
        y.sum().backward()


@pytest.mark.parametrize("mode", ["bilinear", "nearest", "bicubic"])
def test_grid_sample_of_no_images(mode):
    x = torch.zeros(0, 2, 3, 3, requires_grad=True)
    grid = torch.zeros(0, 4, 5, 2, requires_grad=True)
    y = F.grid_sample(x, grid, mode, align_corners=False)
    assert y.shape == (0, 2, 4, 5)
    y.sum().backward()
    assert x.grad.shape == x.shape
    assert grid.grad.shape == grid.shape


def test_grid_sample_nearest_has_a_gradient_of_zeros():
    grid = torch.tensor([[[[0.2, math.nan]]]], requires_grad=True)
    F.grid_sample(torch.ones(1, 1, 3, 3), grid, "nearest", align_corners=False).sum().backward()
    assert grid.grad.tolist() == [[[[0, 0]]]]


def test_grid_sample_far_outside():
    image = torch.arange(1.0, 5).reshape(1, 1, 1, 4)
    far = torch.tensor([[[[1e30, 0.0]]]])
    y = F.grid_sample(image, far, "bilinear", "reflection", align_corners=False)
    assert 1 <= y.item() <= 4
    for padding in ("border", "reflection"):
        nan = torch.full((1, 1, 1, 2), math.nan)
        y = F.grid_sample(image, nan, "bilinear", padding, align_corners=False)
        assert y.item() == 1
    nothing = torch.tensor([[[[math.nan, 0.0]]]])
    assert math.isnan(F.grid_sample(image, nothing, "bicubic", align_corners=False).item())


@pytest.mark.parametrize("mode", ["nearest", "nearest-exact"])
def test_labels_of_another_size(mode):
    labels = torch.arange(0, 240, 10, dtype=torch.uint8).reshape(1, 2, 3, 4)
    got = F.interpolate(labels, (5, 3), mode=mode)
    assert got.dtype == torch.uint8
    assert got.equal(F.interpolate(labels.double(), (5, 3), mode=mode).to(torch.uint8))


# The values are torch 2.13's.
@pytest.mark.parametrize(
    ("size", "first"),
    [
        ((3, 4), [0.115126611, -0.012557987, -0.089956318, 0.122570679]),
        ((10, 5), [0.464306948, 0.977289927, -0.869277149, -0.576150773]),
        ((1, 1), [-0.000318865, -0.000193552]),
    ],
)
def test_lanczos(size, first):
    x = torch.arange(126.0, dtype=torch.float64).reshape(1, 2, 7, 9).sin()
    y = F.interpolate(x, size, mode="lanczos", antialias=True)
    assert y.shape == (1, 2, *size)
    assert y.flatten()[: len(first)].tolist() == pytest.approx(first, abs=1e-8)


def test_lanczos_needs_antialias():
    x = torch.zeros(1, 1, 4, 4)
    with pytest.raises(ValueError, match="antialias=True"):
        F.interpolate(x, 2, mode="lanczos")
    with pytest.raises(ValueError, match="align_corners=True"):
        F.interpolate(x, 2, mode="lanczos", antialias=True, align_corners=True)


# statistics, recurrent layers


@pytest.mark.parametrize("at", [0, 1])
def test_running_statistics_are_constants(at):
    given = [torch.zeros(3), torch.ones(3)]
    given[at].requires_grad_()
    with pytest.raises(RuntimeError, match="not differentiable with respect to argument"):
        F.batch_norm(torch.ones(4, 3), *given)
    with pytest.raises(RuntimeError, match="not differentiable with respect to argument"):
        F.instance_norm(torch.ones(4, 3, 2), *given)
    with torch.no_grad():
        F.batch_norm(torch.ones(4, 3), *given)


@pytest.mark.parametrize("layer", [nn.RNN, nn.GRU])
@pytest.mark.parametrize("batch_first", [False, True])
def test_outputs_of_a_recurrent_layer_may_be_written_to(layer, batch_first):
    rnn = layer(3, 4, batch_first=batch_first)
    x = torch.randn(5, 2, 3)
    whole = torch.autograd.grad((rnn(x)[0] * 2).sum(), list(rnn.parameters()))
    y = rnn(x)[0]
    y.mul_(2)
    for a, b in zip(torch.autograd.grad(y.sum(), list(rnn.parameters())), whole, strict=True):
        torch.testing.assert_close(a, b)


def test_ctc_loss_of_integers():
    lengths = torch.tensor([3, 3])
    with pytest.raises(NotImplementedError, match="Long"):
        F.ctc_loss(
            torch.zeros(3, 2, 4, dtype=torch.int64), torch.ones(2, 2).long(), lengths, lengths - 1
        )


# embedding_bag


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_a_table_may_be_written_before_its_bags_gradient(mode):
    table = torch.randn(5, 3, requires_grad=True)
    y = F.embedding_bag(torch.tensor([[0, 1], [1, 4]]), table, mode=mode)
    with torch.no_grad():
        table.mul_(2)
    y.sum().backward()
    assert table.grad.sum().item() == pytest.approx(6 if mode != "sum" else 12)


def test_bag_offsets_begin_at_zero():
    with pytest.raises(RuntimeError, match="has to be 0"):
        F.embedding_bag(
            torch.tensor([0, 1]), torch.randn(3, 2), torch.tensor([2]), include_last_offset=True
        )


# recurrent layers


@pytest.mark.parametrize("kind", [nn.RNN, nn.LSTM, nn.GRU])
def test_second_derivative_of_no_samples(kind):
    layer = kind(2, 3)
    x = torch.zeros(4, 0, 2, requires_grad=True)
    first = torch.autograd.grad(layer(x)[0].sum(), layer.weight_ih_l0, create_graph=True)[0]
    (second,) = torch.autograd.grad(first.square().sum(), x, allow_unused=True)
    assert first.shape == layer.weight_ih_l0.shape
    assert second is None or second.shape == x.shape


# weights


def test_norm_except_dim_counts_from_the_end():
    v = torch.randn(2, 3, 4)
    for dim in (-2, -3):
        assert torch.norm_except_dim(v, 2, dim).equal(torch.norm_except_dim(v, 2, dim + 3))
    assert torch.norm_except_dim(v, 2, -1).equal(v.norm())
    with pytest.raises(IndexError):
        torch.norm_except_dim(v, 2, 3)


def test_weight_norm_of_a_row_of_zeros():
    v = torch.zeros(2, 3, requires_grad=True)
    torch.norm_except_dim(v).sum().backward()
    assert v.grad.tolist() == [[0, 0, 0], [0, 0, 0]]


# optimizers


@pytest.mark.parametrize("kind", ["SGD", "Adam", "Rprop", "ASGD", "RMSprop"])
@pytest.mark.parametrize("foreach", [True, False])
def test_parameters_without_elements(kind, foreach):
    p = nn.Parameter(torch.from_numpy(np.zeros((2, 0))))
    p.grad = torch.zeros(2, 0, dtype=torch.float64)
    getattr(torch.optim, kind)([p], lr=0.1, foreach=foreach).step()
    assert p.shape == (2, 0)


@pytest.mark.parametrize(
    "make",
    [
        lambda s, o: s.LambdaLR(o, lambda epoch: 0.5),
        lambda s, o: s.MultiplicativeLR(o, lambda epoch: 0.5),
        lambda s, o: s.CyclicLR(o, 0.1, 0.2, cycle_momentum=False),
    ],
)
def test_a_group_that_its_schedule_does_not_know(make):
    optimizer = torch.optim.SGD([nn.Parameter(torch.ones(1))], lr=0.1)
    schedule = make(torch.optim.lr_scheduler, optimizer)
    optimizer.add_param_group({"params": [nn.Parameter(torch.ones(1))]})
    optimizer.step()
    with pytest.raises(ValueError, match="zip"):
        for _ in range(2):
            schedule.step()


def test_old_names_of_hardtanh():
    with pytest.warns(FutureWarning, match="min_value"):
        layer = nn.Hardtanh(min_value=-2.0)
    assert (layer.min_val, layer.max_val) == (-2.0, 1.0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        nn.Hardtanh(-2.0, 2.0)


def test_crossed_limits_of_hardtanh():
    x = torch.tensor([1.0, 3.0, 6.0], requires_grad=True)
    with pytest.raises(ValueError, match="min_val cannot be greater"):
        F.hardtanh(x, 5, 2)
    y = F.hardtanh_(x * 1, 5, 2)  # torch checks nothing here
    (grad,) = torch.autograd.grad(y.sum(), x)
    assert y.tolist() == [2, 2, 2] and grad.tolist() == [0, 0, 0]
    assert F.hardtanh(x.detach().clone(), 2, 5, inplace=True).tolist() == [2, 3, 5]
    for call in (F.hardtanh, F.hardtanh_):
        with pytest.raises(RuntimeError, match="unsigned type with negative"):
            call(torch.ones(2, dtype=torch.uint8), -1, 2)


def test_limits_that_are_no_numbers_are_not_compared():
    # NumPy's comparison of a scalar with a list reads on after an item has cleared it.
    class Number(float):
        def __lt__(self, other):
            raise AssertionError("compared")

    x = torch.ones(2)
    for call in (F.hardtanh, F.rrelu, nn.Hardtanh):
        args = () if call is nn.Hardtanh else (x,)
        with pytest.raises(TypeError):
            call(*args, Number(2), [1.0])
        with pytest.raises(TypeError):
            call(*args, [1.0], Number(2))
        assert call(*args, Number(1), Number(2)) is not None
    assert F.hardtanh(x, torch.tensor(2.0), np.float32(3)).tolist() == [2.0, 2.0]


def test_arguments_that_torch_refuses():
    x, v = torch.ones(2, 3), torch.ones(3)
    with pytest.raises(RuntimeError, match="as many dims, but got 2, 1 and 2"):
        F.triplet_margin_loss(x, v, x)
    with pytest.raises(RuntimeError, match=r"\[2, 3\] does not broadcast to .* \[3\]"):
        F.soft_margin_loss(v, x)
    assert F.soft_margin_loss(x, v).item() == pytest.approx(math.log1p(math.exp(-1)))
    for alpha in (0, 0.0):
        with pytest.raises(RuntimeError, match="alpha"):
            F.celu(v, alpha)
    with pytest.raises(IndexError, match=r"range of \[-2, 1\], but got 5"):
        F.glu(x, 5)
    for n in (1, 2, 3):
        pad = getattr(nn, f"CircularPad{n}d")(1)
        assert pad(torch.ones([2] * (n + 1))).shape == (2,) + (4,) * n
        for dims in (n, n + 3):
            with pytest.raises(ValueError, match=f"expected {n + 1}D or {n + 2}D"):
                pad(torch.ones([2] * dims))


KINKS = [
    (nn.ReLU(), [0.0], [0.0]),
    (nn.ReLU6(), [0.0, 6.0], [0.0, 0.0]),
    (nn.LeakyReLU(0.1), [0.0], [0.1]),
    (nn.ELU(2.0), [0.0], [2.0]),
    (nn.CELU(2.0), [0.0], [1.0]),
    (nn.SELU(), [0.0], [1.7580993]),
    (nn.Hardsigmoid(), [-3.0, 3.0], [0.0, 0.0]),
    (nn.Hardswish(), [-3.0, 3.0], [0.0, 1.0]),
    (nn.Hardtanh(-2, 1), [-2.0, 1.0], [0.0, 0.0]),
    (nn.Threshold(1.0, 5.0), [1.0], [0.0]),
    (nn.Softplus(1.0, 2.0), [2.5], [1.0]),
    (nn.Softshrink(0.5), [-0.5, 0.5], [0.0, 0.0]),
    (nn.Hardshrink(0.5), [-0.5, 0.5], [0.0, 0.0]),
    (lambda x: nn.PReLU()(x), [0.0], [0.25]),
    (nn.RReLU(0.2, 0.2), [0.0], [0.2]),
    (nn.MaxPool1d(4), [[1.0] * 4], [[1.0, 0.0, 0.0, 0.0]]),
    (nn.AdaptiveMaxPool1d(1), [[1.0] * 4], [[1.0, 0.0, 0.0, 0.0]]),
    (nn.LPPool1d(2, 2), [[0.0, 0.0]], [[0.0, 0.0]]),
    (lambda x: nn.L1Loss()(x, torch.ones(1)), [1.0], [0.0]),
    (lambda x: nn.SmoothL1Loss(beta=0.0)(x, torch.ones(1)), [1.0], [0.0]),
    (lambda x: nn.MarginRankingLoss()(x, torch.ones(1), torch.ones(1)), [1.0], [-1.0]),
    (lambda x: nn.HingeEmbeddingLoss()(x, -torch.ones(1)), [1.0], [-1.0]),
    (lambda x: nn.PairwiseDistance(eps=0.0)(x, torch.ones(1, 2)), [[1.0, 1.0]], [[0.0, 0.0]]),
]


@pytest.mark.parametrize("layer, x, want", KINKS)
def test_gradients_at_kinks_are_those_of_the_reference(layer, x, want):
    x = torch.tensor(x, requires_grad=True)
    layer(x).sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), want, rtol=1e-6)


@pytest.mark.parametrize("target", [2.0, -0.1, float("nan")])
def test_binary_cross_entropy_refuses_targets_that_are_no_probabilities(target):
    x = torch.tensor([0.5, 0.5])
    with pytest.raises(RuntimeError, match="all elements of target should be between 0 and 1"):
        F.binary_cross_entropy(x, torch.tensor([1.0, target]))


def test_global_average_pooling_takes_any_leading_dims():
    for n, shape in ((2, (3, 4)), (2, (2, 3, 4, 5, 6)), (3, (3, 4, 5)), (3, (1, 2, 3, 4, 5, 6))):
        x = torch.randn(shape, dtype=torch.float64, requires_grad=True)
        pool = getattr(nn, f"AdaptiveAvgPool{n}d")
        dims = tuple(range(-n, 0))
        torch.testing.assert_close(pool(1)(x), x.mean(dims, keepdim=True))
        assert torch.autograd.gradcheck(pool(1), x)
        with pytest.raises(RuntimeError, match=f"adaptive_avg_pool{n}d"):
            pool(2)(x)


def test_probabilities_of_all_samples_are_looked_at():
    p, good = torch.tensor([0.2, 0.7]), torch.tensor([[0.5, 0.4], [0.5, 1.0]])
    assert torch.vmap(lambda t: F.binary_cross_entropy(p, t))(good).shape == (2,)
    bad = torch.tensor([[0.5, 0.4], [0.5, 1.5]])
    for f in (lambda t: F.binary_cross_entropy(p, t), lambda t: F.binary_cross_entropy(t, p)):
        with pytest.raises(RuntimeError, match="between 0 and 1, got values from 0.4.* to 1.5"):
            torch.vmap(f)(bad)
