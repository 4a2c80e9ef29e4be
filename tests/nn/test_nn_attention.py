# SPDX-License-Identifier: BSD-3-Clause
"""Blocked scaled_dot_product_attention compared with its formula, and the modules that use it."""

import math

import pytest

import cograd as torch
from cograd import nn
from cograd.autograd import gradcheck, gradgradcheck
from cograd.nn import functional as F

attention = F.scaled_dot_product_attention


def formula(q, k, v, mask=None, is_causal=False, scale=None):
    """Computes attention by ops on the whole scores; rows that see no key are zero."""
    s = q @ k.mT * (1 / math.sqrt(q.shape[-1]) if scale is None else scale)
    if is_causal:
        mask = torch.ones(s.shape[-2:], dtype=torch.bool).tril()
    if mask is not None and mask.dtype == torch.bool:
        s = s.masked_fill(~mask, -math.inf)
        return s.softmax(-1).nan_to_num(0.0) @ v
    return (s if mask is None else s + mask).softmax(-1) @ v


def draw(*shape, grad=True):
    return torch.randn(*shape, dtype=torch.float64, requires_grad=grad)


# Rows and keys below, at and above the sizes of blocks (96 and 128) and of vectors.
@pytest.mark.parametrize(("rows", "keys"), [(1, 1), (5, 130), (96, 128), (97, 129), (200, 64)])
@pytest.mark.parametrize("kind", ["plain", "causal", "bool", "float", "broadcast"])
def test_blocks_are_the_formula(rows, keys, kind):
    torch.manual_seed(rows + keys)
    q, k, v = draw(2, 3, rows, 7), draw(2, 3, keys, 7), draw(2, 3, keys, 5)
    options = {}
    if kind == "causal":
        options = {"is_causal": True}
    elif kind == "bool":
        options = {"mask": torch.rand(2, 1, rows, keys) > 0.5}
    elif kind == "float":
        options = {"mask": draw(rows, keys, grad=False)}
    elif kind == "broadcast":
        options = {"mask": (torch.rand(2, 3, 1, keys) > 0.3).expand(2, 3, rows, keys)}
    want = formula(q, k, v, **options)
    mask = options.pop("mask", None)
    got = attention(q, k, v, mask, **options)
    torch.testing.assert_close(got, want)
    seed = torch.randn_like(got)
    for g, w in zip(
        torch.autograd.grad(got, (q, k, v), seed),
        torch.autograd.grad(want, (q, k, v), seed),
        strict=True,
    ):
        torch.testing.assert_close(g, w)


@pytest.mark.parametrize("scale", [None, -0.05, 0.0])
@pytest.mark.parametrize("causal", [False, True])
def test_more_heads_than_are_packed_at_once(scale, causal):
    torch.manual_seed(5)
    # The keys and values of a head take 8 MB; 32 MB are packed at once.
    q, k, v = (torch.randn(1, 6, rows, 1024) for rows in (3, 1000, 1000))
    got = attention(q, k, v, is_causal=causal, scale=scale)
    mask = torch.ones(3, 1000, dtype=torch.bool).tril() if causal else None
    want = formula(q.double(), k.double(), v.double(), mask, scale=scale)
    torch.testing.assert_close(got, want.float(), rtol=1e-4, atol=1e-5)


def test_layouts_make_no_difference():
    torch.manual_seed(1)
    q, k, v = (draw(2, 9, 3, 4) for _ in range(3))
    got = attention(*(x.transpose(1, 2) for x in (q, k, v)))
    want = attention(*(x.transpose(1, 2).contiguous() for x in (q, k, v)))
    torch.testing.assert_close(got, want)
    assert got.transpose(1, 2).is_contiguous()  # so that joining heads copies nothing
    strided = torch.randn(2, 3, 4, 9, dtype=torch.float64).mT
    torch.testing.assert_close(
        attention(strided, strided, strided), formula(strided, strided, strided)
    )
    wide = torch.randn(1, 1, 9, 4, dtype=torch.float64).expand(2, 3, 9, 4)
    torch.testing.assert_close(attention(wide, wide, wide), formula(wide, wide, wide))


def test_grouped_heads_and_one_matrix():
    torch.manual_seed(2)
    q, k, v = draw(2, 6, 11, 4), draw(2, 2, 13, 4), draw(2, 2, 13, 4)
    want = formula(q, k.repeat_interleave(3, 1), v.repeat_interleave(3, 1))
    got = attention(q, k, v, enable_gqa=True)
    torch.testing.assert_close(got, want)
    for g, w in zip(
        torch.autograd.grad(got.sin().sum(), (q, k, v)),
        torch.autograd.grad(want.sin().sum(), (q, k, v)),
        strict=True,
    ):
        torch.testing.assert_close(g, w)
    single = attention(q[0, 0], k[0, 0], v[0, 0])
    torch.testing.assert_close(single, formula(q[0, 0], k[0, 0], v[0, 0]))
    with pytest.raises(RuntimeError, match="divide"):
        attention(draw(5, 3, 4), draw(2, 3, 4), draw(2, 3, 4), enable_gqa=True)


@pytest.mark.parametrize("options", [{}, {"is_causal": True}, {"scale": 0.3}, {"mask": True}])
def test_derivatives_of_both_orders_and_modes(options):
    torch.manual_seed(3)
    options = dict(options)
    mask = torch.rand(5, 5) > 0.4 if options.pop("mask", False) else None
    inputs = (draw(2, 5, 3), draw(2, 5, 3), draw(2, 5, 2))
    run = lambda q, k, v: attention(q, k, v, mask, **options)
    assert gradcheck(run, inputs, check_forward_ad=True)
    assert gradgradcheck(run, inputs)


def test_a_mask_may_have_a_gradient():
    torch.manual_seed(4)
    inputs = (draw(3, 4), draw(5, 4), draw(5, 4), draw(3, 5))
    assert gradcheck(lambda q, k, v, m: attention(q, k, v, m), inputs)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("low", [-1e9, -math.inf, None])
def test_a_row_of_hidden_keys_has_the_gradients_of_a_mean(dtype, low):
    # Beside scores of -1e9 the log of a sum of weights is rounded away.
    rows, keys = 100, 300
    q, k, v = (torch.randn(2, n, 8, dtype=dtype, requires_grad=True) for n in (rows, keys, keys))
    mask = torch.zeros(rows, keys, dtype=dtype)
    mask[3:] = torch.finfo(dtype).min if low is None else low
    mask[3:, 250] = mask[3, 0]
    grads, results = [], []
    for m in (mask, mask.clone().requires_grad_()):  # the second is composed of other ops
        if low == -math.inf:
            m = m.detach().masked_fill(torch.arange(rows)[:, None] == rows - 1, 0.0)
        out = F.scaled_dot_product_attention(q, k, v, m)
        results.append(out.detach())
        grads.append(torch.autograd.grad(out.sum(), (q, k, v)))
    close = {"rtol": 0, "atol": 1e-4 if dtype is torch.float32 else 1e-12}
    torch.testing.assert_close(*results, **close)
    for one, two in zip(*grads, strict=True):
        torch.testing.assert_close(one, two, **close)
    seen = 3 + 1 if low == -math.inf else rows
    assert abs(grads[0][2].sum().item() - 2 * 8 * seen) < 0.05


def test_rows_that_see_nothing_are_zero():
    q, k, v = draw(3, 4), draw(5, 4), draw(5, 4)
    mask = torch.ones(3, 5, dtype=torch.bool)
    mask[1] = False
    out = attention(q, k, v, mask)
    assert not out[1].any()
    out.sum().backward()
    assert q.grad.isfinite().all()
    assert not q.grad[1].any()
    hidden = torch.zeros(3, 5, dtype=torch.float64).masked_fill(~mask, -math.inf)
    torch.testing.assert_close(attention(q, k, v, hidden), out)


def test_dropout_is_drawn_from_the_generator_and_scaled():
    torch.manual_seed(5)
    value = torch.ones(1, 2, 150, 3, dtype=torch.float64)
    zeros = torch.zeros(1, 2, 90, 4, dtype=torch.float64)
    keys = torch.zeros(1, 2, 150, 4, dtype=torch.float64)
    shares = attention(zeros, keys, value, dropout_p=0.25)
    assert abs(shares.mean().item() - 1) < 0.02
    assert shares.std().item() > 0.01
    inputs = (draw(2, 5, 3), draw(2, 6, 3), draw(2, 6, 2))

    def run(q, k, v):
        torch.manual_seed(6)
        return attention(q, k, v, dropout_p=0.4)

    assert torch.equal(run(*inputs), run(*inputs))
    assert gradcheck(run, inputs)
    assert gradgradcheck(run, inputs)
    assert not attention(*inputs, dropout_p=1.0).any()


def test_samples_of_vmap():
    torch.manual_seed(7)
    q, k = draw(3, 2, 5, 4), draw(3, 2, 6, 4)
    got = torch.vmap(lambda a, b: attention(a, b, b))(q, k)
    torch.testing.assert_close(got, attention(q, k, k))
    got = torch.vmap(lambda a: attention(a, k[0], k[0]))(q)
    torch.testing.assert_close(got[1], attention(q[1], k[0], k[0]))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_types(dtype):
    q = torch.randn(2, 9, 4).to(dtype).requires_grad_()
    out = attention(q, q, q, is_causal=True)
    assert out.dtype == dtype
    wide = q.detach().float()
    torch.testing.assert_close(
        out.float(), attention(wide, wide, wide, is_causal=True), atol=2e-2, rtol=2e-2
    )
    out.sum().backward()
    assert q.grad.dtype == dtype


@pytest.mark.parametrize(
    "call",
    [
        lambda x: attention(x, x, x, torch.ones(3, 3, dtype=torch.bool), is_causal=True),
        lambda x: attention(x, x.float(), x),
        lambda x: attention(x[0], x, x),
        lambda x: attention(x, x, x, torch.ones(3, 3, dtype=torch.int64)),
        lambda x: attention(x, x[:, :2], x),
        lambda x: attention(x, x, x, dropout_p=1.5),
        lambda x: attention(x.long(), x.long(), x.long()),
        lambda x: attention(x, x, x, torch.ones(4, 3, dtype=torch.bool)),
    ],
)
def test_what_does_not_fit_is_refused(call):
    x = torch.zeros(3, 4, dtype=torch.float64)
    with pytest.raises((RuntimeError, NotImplementedError)):
        call(x)


def test_empty_operands():
    none = torch.zeros(2, 0, 4)
    some = torch.zeros(2, 3, 4)
    assert attention(none, some, some).shape == (2, 0, 4)
    assert not attention(some, none, none).any()
    assert attention(none[:0], none[:0], none[:0]).shape == (0, 0, 4)


@pytest.mark.parametrize("batch_first", [False, True])
def test_weights_do_not_change_the_output(batch_first):
    torch.manual_seed(8)
    module = nn.MultiheadAttention(6, 2, batch_first=batch_first, add_bias_kv=True)
    x = torch.randn(4, 4, 6)
    padding = torch.rand(4, 4) > 0.7
    out, weights = module(x, x, x, key_padding_mask=padding)
    bare, none = module(x, x, x, key_padding_mask=padding, need_weights=False)
    assert none is None
    assert weights.shape == (4, 4, 5)
    torch.testing.assert_close(out, bare)
    torch.testing.assert_close(weights.sum(-1), torch.ones(4, 4))
    each = module(x, x, x, average_attn_weights=False)[1]
    assert each.shape == (4, 2, 4, 5)


def test_a_causal_mask_is_seen_as_one():
    torch.manual_seed(9)
    layer = nn.TransformerEncoderLayer(6, 2, 8, dropout=0.0)
    encoder = nn.TransformerEncoder(layer, 2)
    x = torch.randn(5, 2, 6)
    mask = nn.Transformer.generate_square_subsequent_mask(5)
    out = encoder(x, mask=mask)
    torch.testing.assert_close(out, encoder(x, mask=mask, is_causal=True))
    torch.testing.assert_close(out, encoder(x, mask=mask == -math.inf))
    later = x.clone()
    later[3:] = 0
    torch.testing.assert_close(encoder(later, mask=mask)[:3], out[:3])
    assert not torch.allclose(encoder(x)[:3], out[:3])


def test_refusals_of_the_modules():
    with pytest.raises(ValueError, match="greater than 0"):
        nn.MultiheadAttention(0, 1)
    with pytest.raises(AssertionError, match="divisible"):
        nn.MultiheadAttention(5, 2)
    with pytest.raises(RuntimeError, match="relu/gelu"):
        nn.TransformerEncoderLayer(4, 2, activation="tanh")
    model = nn.Transformer(4, 2, 1, 1, 4)
    with pytest.raises(RuntimeError, match="batch number"):
        model(torch.zeros(3, 2, 4), torch.zeros(3, 1, 4))
    with pytest.raises(RuntimeError, match="feature number"):
        model(torch.zeros(3, 2, 5), torch.zeros(3, 2, 5))
    module = nn.MultiheadAttention(4, 2)
    x = torch.zeros(3, 2, 4)
    with pytest.raises(RuntimeError, match="is_causal"):
        module(x, x, x, is_causal=True)


@pytest.mark.parametrize("averaged", [True, False])
@pytest.mark.parametrize("batched", [True, False])
def test_the_output_does_not_depend_on_the_weights_that_are_returned(averaged, batched):
    layer = nn.MultiheadAttention(8, 2)
    x = torch.randn(4, 2, 8) if batched else torch.randn(4, 8)
    out, weights = layer(x, x, x, average_attn_weights=averaged)
    assert torch.autograd.grad(out.sum(), weights, allow_unused=True) == (None,)


class Doubling(nn.TransformerEncoderLayer):
    def _sa_block(self, x, attn_mask, key_padding_mask, is_causal=False):
        return 2 * super()._sa_block(x, attn_mask, key_padding_mask, is_causal=is_causal)

    def _ff_block(self, x):
        return 3 * super()._ff_block(x)


class DoublingDecoder(nn.TransformerDecoderLayer):
    def _sa_block(self, x, attn_mask, key_padding_mask, is_causal=False):
        return 2 * super()._sa_block(x, attn_mask, key_padding_mask, is_causal)

    def _mha_block(self, x, mem, attn_mask, key_padding_mask, is_causal=False):
        return 3 * super()._mha_block(x, mem, attn_mask, key_padding_mask, is_causal)

    def _ff_block(self, x):
        return 4 * super()._ff_block(x)


@pytest.mark.parametrize("norm_first", [False, True])
def test_transformer_layers_call_the_blocks_that_programs_override(norm_first):
    torch.manual_seed(6)
    x, memory = torch.randn(3, 2, 4), torch.randn(5, 2, 4)
    layer = Doubling(4, 2, 8, dropout=0.0, norm_first=norm_first)

    def attended(y):
        return 2 * layer.self_attn(y, y, y)[0]

    def fed(y):
        return 3 * layer.linear2(layer.linear1(y).relu())

    if norm_first:
        want = x + attended(layer.norm1(x))
        want = want + fed(layer.norm2(want))
    else:
        want = layer.norm1(x + attended(x))
        want = layer.norm2(want + fed(want))
    torch.testing.assert_close(layer(x), want)
    other = DoublingDecoder(4, 2, 8, dropout=0.0, norm_first=norm_first)

    def step(y, norm, block):
        return y + block(norm(y)) if norm_first else norm(y + block(y))

    want = step(x, other.norm1, lambda y: 2 * other.self_attn(y, y, y)[0])
    want = step(want, other.norm2, lambda y: 3 * other.multihead_attn(y, memory, memory)[0])
    want = step(want, other.norm3, lambda y: 4 * other.linear2(other.linear1(y).relu()))
    torch.testing.assert_close(other(x, memory), want)


@pytest.mark.parametrize("batched", [True, False])
def test_weights_of_each_head_under_a_mask_of_two_dims(batched):
    layer = nn.MultiheadAttention(8, 2)
    x = torch.randn(4, 3, 8) if batched else torch.randn(4, 8)
    mask = torch.ones(4, 4, dtype=torch.bool).triu(1)
    out, heads = layer(x, x, x, attn_mask=mask, average_attn_weights=False)
    same, mean = layer(x, x, x, attn_mask=mask)
    assert heads.shape == ((3, 2, 4, 4) if batched else (2, 4, 4))
    assert not heads.masked_select(mask).any()
    torch.testing.assert_close(heads.sum(-1), torch.ones(heads.shape[:-1]))
    torch.testing.assert_close(heads.mean(-3), mean)
    torch.testing.assert_close(out, same)
