# SPDX-License-Identifier: BSD-3-Clause
"""Losses over labels, bags of embeddings, adaptive softmax and distances, compared with loops."""

import itertools
import math

import numpy as np
import pytest

import cograd as torch
from cograd import nn
from cograd.autograd import gradcheck, gradgradcheck
from cograd.nn import functional as F


def draw(*shape):
    return torch.randn(*shape, dtype=torch.float64, requires_grad=True)


def collapsed(path):
    return [k for k, _ in itertools.groupby(path) if k != 0]


@pytest.mark.parametrize("target", [[1, 2], [1, 1], [2], []])
def test_ctc_is_the_sum_over_all_alignments(target):
    torch.manual_seed(1)
    logits = draw(4, 1, 3)
    log_probs = logits.log_softmax(-1)
    p = log_probs.exp()[:, 0]
    total = sum(
        math.prod(p[t, k].item() for t, k in enumerate(path))
        for path in itertools.product(range(3), repeat=4)
        if collapsed(path) == target
    )
    labels = torch.tensor([target], dtype=torch.int64)
    loss = F.ctc_loss(log_probs, labels, [4], [len(target)], reduction="sum")
    assert loss.item() == pytest.approx(-math.log(total))
    run = lambda x: F.ctc_loss(x.log_softmax(-1), labels, [4], [len(target)], reduction="none")
    assert gradcheck(run, (logits,))


def test_ctc_of_targets_that_do_not_fit():
    log_probs = draw(2, 1, 3).log_softmax(-1)
    args = (torch.tensor([[1, 1]]), (2,), (2,))
    assert F.ctc_loss(log_probs, *args, reduction="sum").item() == math.inf
    x = log_probs.detach().requires_grad_()
    loss = F.ctc_loss(x, *args, zero_infinity=True)
    loss.backward()
    assert loss.item() == 0
    assert not x.grad.any()


@pytest.mark.parametrize(
    ("targets", "inputs", "lengths", "blank"),
    [
        ([[1, 9]], [4], [2], 0),
        ([[1, -1]], [4], [2], 0),
        ([[1, 2]], [5], [2], 0),
        ([[1, 2]], [4], [3], 0),
        ([[1, 2]], [4], [-1], 0),
        ([[1, 2]], [4, 4], [2], 0),
        ([1, 2, 1], [4], [2], 0),
        ([1], [4], [2**62], 0),
        ([[1, 2]], [4], [2], 3),
    ],
)
def test_ctc_refuses_what_does_not_fit(targets, inputs, lengths, blank):
    with pytest.raises(RuntimeError):
        F.ctc_loss(torch.zeros(4, 1, 3), torch.tensor(targets), inputs, lengths, blank)


def test_margins_are_their_sums():
    torch.manual_seed(2)
    x, w = draw(3, 4), torch.rand(4, dtype=torch.float64)
    y = [2, 0, 3]
    for p in (1, 2):
        want = [
            sum(
                max(0, 0.5 - x[i, y[i]].item() + x[i, j].item()) ** p for j in range(4) if j != y[i]
            )
            * w[y[i]].item()
            / 4
            for i in range(3)
        ]
        got = F.multi_margin_loss(x, torch.tensor(y), p, 0.5, w, reduction="none")
        np.testing.assert_allclose(got.detach().numpy(), want)
    labels = torch.tensor([[1, 3, -1, 0], [2, -1, 1, 1], [-1, 0, 0, 0]])
    sets = [{1, 3}, {2}, set()]
    want = [
        sum(
            max(0, 1 - x[i, a].item() + x[i, b].item())
            for a in sets[i]
            for b in set(range(4)) - sets[i]
        )
        / 4
        for i in range(3)
    ]
    got = F.multilabel_margin_loss(x, labels, reduction="none")
    np.testing.assert_allclose(got.detach().numpy(), want, atol=1e-15)
    assert gradcheck(lambda v: F.multilabel_margin_loss(v, labels), (x,))
    t = (x.detach() > 0).double()
    want = F.binary_cross_entropy_with_logits(x, t, reduction="none").mean(1)
    torch.testing.assert_close(F.multilabel_soft_margin_loss(x, t, reduction="none"), want)
    for call in (
        lambda: F.multi_margin_loss(x, torch.tensor(y), p=3),
        lambda: nn.MultiMarginLoss(weight=torch.zeros(2, 2)),
        lambda: F.triplet_margin_with_distance_loss(x, x, x, margin=0),
        lambda: nn.TripletMarginWithDistanceLoss(margin=-1.0),
    ):
        with pytest.raises(ValueError):
            call()
    with pytest.warns(FutureWarning, match="NLLLoss2d"):
        nn.NLLLoss2d()


def bags(index, offsets):
    ends = [*offsets[1:], len(index)]
    return [index[a:b] for a, b in zip(offsets, ends)]


INDEX, OFFSETS = [3, 1, 0, 4, 4, 2, 1], [0, 2, 2, 5]


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
@pytest.mark.parametrize("padding", [None, 1, -1])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_bags_are_sums_means_and_maxima(mode, padding, dtype):
    torch.manual_seed(3)
    w = torch.randn(5, 3, dtype=torch.float64).to(dtype).requires_grad_()
    got = F.embedding_bag(
        torch.tensor(INDEX), w, torch.tensor(OFFSETS), mode=mode, padding_idx=padding
    )
    skip = None if padding is None else padding % 5
    for row, bag in zip(got, bags(INDEX, OFFSETS)):
        rows = [w[i].double() for i in bag if i != skip]
        if not rows:
            assert not row.any()
            continue
        rows = torch.stack(rows)
        want = rows.amax(0) if mode == "max" else getattr(rows, mode)(0)
        torch.testing.assert_close(row.double(), want, atol=2e-2, rtol=2e-2, check_dtype=False)
    got.sum().backward()
    assert w.grad.dtype == dtype
    assert w.grad.shape == w.shape


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_derivatives_of_bags(mode):
    torch.manual_seed(4)
    index, offsets = torch.tensor(INDEX), torch.tensor([*OFFSETS, 6])
    options = {"mode": mode, "padding_idx": 2, "include_last_offset": True}
    run = lambda w: F.embedding_bag(index, w, offsets, **options)
    assert gradcheck(run, (draw(5, 3),))
    assert gradgradcheck(run, (draw(5, 3),))
    if mode == "sum":
        run = lambda w, s: F.embedding_bag(index, w, offsets, per_sample_weights=s, **options)
        assert gradcheck(run, (draw(5, 3), draw(7)))
        assert gradgradcheck(run, (draw(5, 3), draw(7)))
    if mode != "max":
        w = draw(5, 3)
        F.embedding_bag(index, w, offsets, scale_grad_by_freq=True, **options).sum().backward()
        plain = draw(5, 3)
        F.embedding_bag(index, plain, offsets, **options).sum().backward()
        often = torch.bincount(index[:6], minlength=5).clamp(min=1).unsqueeze(1)
        torch.testing.assert_close(w.grad, plain.grad / often)


@pytest.mark.parametrize(
    ("error", "call"),
    [
        (ValueError, lambda w: F.embedding_bag(torch.tensor([1]), w)),
        (ValueError, lambda w: F.embedding_bag(torch.tensor([[1]]), w, torch.tensor([0]))),
        (ValueError, lambda w: F.embedding_bag(torch.tensor(1), w, torch.tensor([0]))),
        (ValueError, lambda w: F.embedding_bag(torch.tensor([[1]]), w, mode="avg")),
        (RuntimeError, lambda w: F.embedding_bag(torch.tensor([[5]]), w)),
        (RuntimeError, lambda w: F.embedding_bag(torch.tensor([[-1]]), w)),
        (RuntimeError, lambda w: F.embedding_bag(torch.tensor([1]), w, torch.tensor([1]))),
        (RuntimeError, lambda w: F.embedding_bag(torch.tensor([1]), w, torch.tensor([0, 2]))),
        (RuntimeError, lambda w: F.embedding_bag(torch.tensor([1]), w, torch.tensor([0, 1, 0]))),
        (ValueError, lambda w: F.embedding_bag(torch.tensor([[1]]), w, sparse=True, mode="max")),
        (
            NotImplementedError,
            lambda w: F.embedding_bag(
                torch.tensor([[1]]), w, mode="max", per_sample_weights=torch.ones(1, 1)
            ),
        ),
    ],
)
def test_bags_refuse_what_does_not_fit(error, call):
    with pytest.raises(error):
        call(torch.zeros(5, 3))


def test_the_top_namespace_has_bags_and_losses():
    w = torch.randn(5, 3)
    out, bag, sizes, rows = torch.embedding_bag(
        w, torch.tensor(INDEX), torch.tensor(OFFSETS), False, 2
    )
    assert bag.tolist() == [0, 0, 2, 2, 2, 3, 3]
    assert sizes.tolist() == [2, 0, 3, 2]
    torch.testing.assert_close(w.gather(0, rows)[[0, 2, 3]], out[[0, 2, 3]])
    table = torch.ones(4, 3)
    assert torch.embedding_renorm_(table, torch.tensor([1]), 1.0, 2.0) is table
    np.testing.assert_allclose(table.norm(dim=1).numpy(), [3**0.5, 1, 3**0.5, 3**0.5], rtol=1e-6)
    a, b, c = torch.randn(3, 4), torch.randn(3, 4), torch.randn(3, 4)
    sign = torch.tensor([1.0, -1.0, 1.0])
    pairs = [
        (torch.kl_div(a, b.softmax(-1), 2), F.kl_div(a, b.softmax(-1), reduction="sum")),
        (torch.cosine_embedding_loss(a, b, sign), F.cosine_embedding_loss(a, b, sign)),
        (torch.hinge_embedding_loss(a[:, 0], sign), F.hinge_embedding_loss(a[:, 0], sign)),
        (
            torch.margin_ranking_loss(a[:, 0], b[:, 0], sign, 0.1, 0),
            F.margin_ranking_loss(a[:, 0], b[:, 0], sign, 0.1, reduction="none"),
        ),
        (
            torch.poisson_nll_loss(a, b.abs(), True, False, 1e-8, 1),
            F.poisson_nll_loss(a, b.abs()),
        ),
        (torch.triplet_margin_loss(a, b, c), F.triplet_margin_loss(a, b, c)),
        (torch.pairwise_distance(a, b), F.pairwise_distance(a, b)),
    ]
    for got, want in pairs:
        torch.testing.assert_close(got, want)


def test_adaptive_softmax_is_a_distribution():
    torch.manual_seed(5)
    module = nn.AdaptiveLogSoftmaxWithLoss(8, 12, [3, 7], div_value=2.0).double()
    x = draw(6, 8)
    full = module.log_prob(x)
    torch.testing.assert_close(full.exp().sum(1), torch.ones(6, dtype=torch.float64))
    y = torch.tensor([0, 2, 3, 6, 7, 11])
    out, loss = module(x, y)
    torch.testing.assert_close(out, full.gather(1, y[:, None])[:, 0])
    torch.testing.assert_close(loss, -out.mean())
    assert module.predict(x).tolist() == full.argmax(1).tolist()
    torch.testing.assert_close(module(x[2], y[2]).output, out[2])
    for cutoffs in ([], [5, 3], [3, 12], [0, 3], [3, 3]):
        with pytest.raises(ValueError, match="cutoffs"):
            nn.AdaptiveLogSoftmaxWithLoss(8, 12, cutoffs)
    with pytest.raises(RuntimeError, match="Target values"):
        module(x, y + 1)


@pytest.mark.parametrize("p", [0.0, 0.5, 1.0, 2.0, 3.0, math.inf])
def test_distances_of_all_pairs(p):
    torch.manual_seed(6)
    a, b = torch.randn(2, 37, 70, dtype=torch.float64), torch.randn(45, 70, dtype=torch.float64)
    d = np.abs(a.numpy()[:, :, None] - b.numpy()[None, None])
    norms = {0.0: (d != 0).sum(-1), math.inf: d.max(-1)}
    want = norms[p] if p in norms else (d**p).sum(-1) ** (1 / p)
    np.testing.assert_allclose(torch.cdist(a, b, p).numpy(), want)
    rows = F.pdist(b, p)
    i, j = np.triu_indices(45, 1)
    np.testing.assert_allclose(rows.numpy(), torch.cdist(b, b, p).numpy()[i, j])
    if p >= 1:
        small = (draw(3, 4), draw(5, 4))
        assert gradcheck(lambda x, y: torch.cdist(x, y, p), small)
        assert gradgradcheck(lambda x, y: torch.cdist(x, y, p), small)
        x, y = draw(30, 70), draw(20, 70)
        torch.cdist(x, y, p).sin().sum().backward()
        gx, gy = torch.autograd.grad((x[:, None] - y).norm(p, -1).sin().sum(), (x, y))
        torch.testing.assert_close(x.grad, gx)
        torch.testing.assert_close(y.grad, gy)


def test_equal_rows_have_no_slope():
    x = torch.ones(3, 5, requires_grad=True)
    torch.cdist(x, x).sum().backward()
    assert not x.grad.any()
    assert F.pdist(x[:1]).shape == (0,)
    assert torch.cdist(x[:0], x).shape == (0, 3)
    assert torch.cdist(x[:, :0], x[:, :0]).tolist() == [[0.0] * 3] * 3


@pytest.mark.parametrize("p", [1, 2])
def test_margin_losses_have_no_slope_at_the_margin(p):
    x = torch.tensor([[1.0, 0.0], [0.5, 0.0]], requires_grad=True)
    F.multi_margin_loss(x, torch.tensor([0, 0]), p=p, reduction="sum").backward()
    assert x.grad.tolist() == [[0.0, 0.0], [-0.5, 0.5]]
    x = torch.tensor([[1.0, 0.0], [0.5, 0.0]], requires_grad=True)
    F.multilabel_margin_loss(x, torch.tensor([[0, -1], [0, -1]]), reduction="sum").backward()
    assert x.grad.tolist() == [[0.0, 0.0], [-0.5, 0.5]]


def test_margin_losses_of_one_number():
    for shape in ((), (1,)):
        x = torch.tensor(0.5, requires_grad=True)
        loss = F.multi_margin_loss(x, torch.zeros(shape, dtype=torch.int64), reduction="none")
        assert loss.shape == shape
        loss.sum().backward()
        assert (loss.sum().item(), x.grad.item()) == (0.0, 0.0)
        for mark in (0, -1):
            target = torch.full(shape, mark)
            loss = F.multilabel_margin_loss(x, target, reduction="none")
            assert (loss.shape, loss.item()) == ((), 0.0)
            assert F.multilabel_margin_loss(x.reshape(1), target).item() == 0.0


def test_a_multi_margin_loss_without_reduction_has_the_shape_of_its_target():
    x = torch.tensor([0.5, 0.5, 0.5])
    y = torch.tensor(0)
    assert F.multi_margin_loss(x, y, reduction="none").shape == ()
    assert F.multi_margin_loss(x, y[None], reduction="none").shape == (1,)
    assert F.multi_margin_loss(x[None], y, reduction="none").shape == ()
    with pytest.raises(RuntimeError, match="non-empty vector or matrix"):
        F.multi_margin_loss(torch.zeros(0), y)
    with pytest.raises(RuntimeError, match="inconsistent target size"):
        F.multilabel_margin_loss(x, torch.tensor(0))


def test_the_second_derivative_of_an_embedding_scaled_by_frequency():
    index = torch.tensor([0, 1, 1, 3, 3, 3])
    weight = draw(4, 3)

    def scaled(g, padding):
        rows = F.embedding(index, weight, padding, scale_grad_by_freq=True)
        return torch.autograd.grad(rows, weight, g, create_graph=True)[0]

    for padding in (None, 1):
        g = draw(6, 3)
        assert gradcheck(lambda g, padding=padding: scaled(g, padding), g)  # linear in g
        (back,) = torch.autograd.grad(scaled(g, padding).sum(), g)
        want = torch.tensor([1, 0.5, 0.5, 1 / 3, 1 / 3, 1 / 3], dtype=torch.float64)
        if padding == 1:
            want[1:3] = 0
        torch.testing.assert_close(back, want.unsqueeze(1).expand(6, 3))


@pytest.mark.parametrize("z", [-700.0, -50.0, -30.0, -21.0, -1.0, 0.0, 1.0, 21.0, 30.0, 50.0])
def test_soft_margin_loss_keeps_its_digits_in_second_derivatives(z):
    for sign in (1.0, -1.0):
        x = torch.tensor(sign * z, dtype=torch.float64, requires_grad=True)
        loss = F.soft_margin_loss(x, torch.tensor(sign, dtype=torch.float64))
        (first,) = torch.autograd.grad(loss, x, create_graph=True)
        (second,) = torch.autograd.grad(first, x, create_graph=True)
        e = math.exp(-abs(z))
        assert loss.item() == pytest.approx(max(-z, 0) + math.log1p(e), rel=1e-14)
        assert first.item() == pytest.approx(-sign * (e if z > 0 else 1) / (1 + e), rel=1e-14)
        assert second.item() == pytest.approx(e / (1 + e) ** 2, rel=1e-13)
        (third,) = torch.autograd.grad(second, x)
        want = -sign * e / (1 + e) ** 2 * math.tanh(z / 2)
        assert third.item() == pytest.approx(want, rel=1e-12, abs=1e-16)


def test_cosine_similarity_of_zero_vectors_of_float16():
    x = torch.zeros(2, 3, dtype=torch.float16, requires_grad=True)
    out = F.cosine_similarity(x, torch.ones(2, 3, dtype=torch.float16))
    assert out.dtype == torch.float16
    assert out.tolist() == [0.0, 0.0]
    out.sum().backward()
    assert x.grad.dtype == torch.float16
    assert not x.grad.isnan().any()
    tiny = torch.full((1, 3), 1e-5, dtype=torch.float16)
    assert F.cosine_similarity(tiny, tiny).item() == pytest.approx(1, abs=1e-3)


def test_inputs_of_l1_loss_may_be_written_afterwards():
    x, t = torch.tensor([1.0, -2.0, 3.0], requires_grad=True), torch.tensor([2.0, -3.0, 3.0])
    for reduction, scale in (("mean", 3), ("sum", 1), ("none", 1)):
        given, target = x * 1, t.clone()
        loss = F.l1_loss(given, target, reduction=reduction).sum()
        with torch.no_grad():
            given.zero_()
            target.fill_(9)
        (g,) = torch.autograd.grad(loss, x)
        torch.testing.assert_close(g * scale, torch.tensor([-1.0, 1.0, 0.0]))


def test_bce_with_logits_has_the_dtype_of_its_target():
    x = torch.tensor([0.3, -2.0])
    for dtype in (torch.float16, torch.float32, torch.float64):
        target = torch.tensor([0.0, 1.0], dtype=dtype)
        for more in ({}, {"pos_weight": torch.tensor([2.0, 3.0], dtype=torch.float64)}):
            for weight in (None, torch.ones(2, dtype=torch.float64)):
                loss = F.binary_cross_entropy_with_logits(x, target, weight, **more)
                assert loss.dtype == dtype


def test_three_random_samples_of_fractional_pooling_are_for_depth_height_width():
    x = torch.arange(1000.0).reshape(1, 1, 10, 10, 10)
    moved = [[1, 4, 6, 9] if d == 0 else [1, 3, 6, 9] for d in range(3)]
    for d in range(3):
        samples = torch.zeros(1, 1, 3)
        samples[0, 0, d] = 0.9
        _, at = F.fractional_max_pool3d_with_indices(x, 2, (4, 4, 4), _random_samples=samples)
        at = at[0, 0]
        places = [at[:, 0, 0] // 100, at[0, :, 0] // 10 % 10, at[0, 0, :] % 10]
        assert places[d].tolist() == moved[0]
        assert all(places[k].tolist() == moved[1] for k in range(3) if k != d)
