# SPDX-License-Identifier: BSD-3-Clause
"""RNN, LSTM, GRU, their cells, and sequences of different lengths."""

import pytest

import cograd as torch
from cograd import nn
from cograd.autograd import gradcheck, gradgradcheck
from cograd.nn.utils import rnn as sequences

LAYERS = {"RNN": nn.RNN, "LSTM": nn.LSTM, "GRU": nn.GRU}
CELLS = {"RNN": nn.RNNCell, "LSTM": nn.LSTMCell, "GRU": nn.GRUCell}


def step_by_step(kind, weights, x, state):
    """Computes the formulas of the docstrings by ops."""
    w_ih, w_hh, b_ih, b_hh = weights
    outs = []
    h, c = state
    for xt in x:
        a, b = xt @ w_ih.T + b_ih, h @ w_hh.T + b_hh
        if kind == "RNN":
            h = (a + b).tanh()
        elif kind == "LSTM":
            i, f, g, o = (a + b).chunk(4, -1)
            c = f.sigmoid() * c + i.sigmoid() * g.tanh()
            h = o.sigmoid() * c.tanh()
        else:
            (ar, az, an), (br, bz, bn) = a.chunk(3, -1), b.chunk(3, -1)
            z = (az + bz).sigmoid()
            n = (an + (ar + br).sigmoid() * bn).tanh()
            h = (1 - z) * n + z * h
        outs.append(h)
    return torch.stack(outs), h, c


@pytest.mark.parametrize("kind", LAYERS)
def test_a_layer_is_its_formula_with_its_gradients(kind):
    torch.manual_seed(1)
    layer = LAYERS[kind](3, 5).double()
    x = torch.randn(6, 4, 3, dtype=torch.float64, requires_grad=True)
    h, c = torch.randn(2, 4, 5, dtype=torch.float64)
    state = (h[None], c[None]) if kind == "LSTM" else h[None]
    out, last = layer(x, state)
    want, want_h, want_c = step_by_step(kind, layer.all_weights[0], x, (h, c))
    torch.testing.assert_close(out, want)
    torch.testing.assert_close(last[0][0] if kind == "LSTM" else last[0], want_h)
    if kind == "LSTM":
        torch.testing.assert_close(last[1][0], want_c)
    seed = torch.randn_like(out)
    inputs = [x, *layer.parameters()]
    got = torch.autograd.grad(out, inputs, seed)
    for g, w in zip(got, torch.autograd.grad(want, inputs, seed), strict=True):
        torch.testing.assert_close(g, w)


@pytest.mark.parametrize("kind", LAYERS)
def test_cells_are_steps_of_layers(kind):
    torch.manual_seed(2)
    layer, cell = LAYERS[kind](3, 5), CELLS[kind](3, 5)
    for a, b in zip(cell.parameters(), layer.parameters(), strict=True):
        a.data.copy_(b.data)
    x = torch.randn(4, 2, 3)
    out, _ = layer(x)
    state = None
    for t in range(4):
        state = cell(x[t], state)
        h = state[0] if kind == "LSTM" else state
        torch.testing.assert_close(h, out[t])
    single = cell(x[0, 0])
    torch.testing.assert_close(single[0] if kind == "LSTM" else single, out[0, 0])


@pytest.mark.parametrize("kind", LAYERS)
@pytest.mark.parametrize("bidirectional", [False, True])
def test_packed_sequences_run_as_each_alone(kind, bidirectional):
    torch.manual_seed(3)
    layer = LAYERS[kind](3, 5, num_layers=2, bidirectional=bidirectional)
    lengths = [2, 6, 1, 4]
    items = [torch.randn(n, 3) for n in lengths]
    packed = sequences.pack_sequence(items, enforce_sorted=False)
    out, state = layer(packed)
    padded, got_lengths = sequences.pad_packed_sequence(out)
    assert got_lengths.tolist() == lengths
    for i, item in enumerate(items):
        want, want_state = layer(item)
        torch.testing.assert_close(padded[: lengths[i], i], want)
        assert not padded[lengths[i] :, i].any()
        for s, w in zip(
            state if kind == "LSTM" else [state],
            want_state if kind == "LSTM" else [want_state],
            strict=True,
        ):
            torch.testing.assert_close(s[:, i], w)


@pytest.mark.parametrize("mode", range(4))
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("sizes", [None, [3, 2, 2]])
def test_first_and_second_derivatives(mode, reverse, sizes):
    torch.manual_seed(4)
    gates, lstm = (1, 1, 4, 3)[mode], mode == 2
    batch_sizes = None if sizes is None else torch.tensor(sizes)
    rows, batch = (6, 2) if sizes is None else (7, 3)

    def draw(*shape):
        return torch.randn(*shape, dtype=torch.float64, requires_grad=True)

    shapes = [(rows, 3), (batch, 4), (4 * gates, 3), (4 * gates, 4), (4 * gates,), (4 * gates,)]
    inputs = [draw(*shape) for shape in shapes] + ([draw(batch, 4)] if lstm else [])

    def run(x, h, w_ih, w_hh, b_ih, b_hh, c=None):
        results = torch._C._ops._rnn_layer(
            x, h, w_ih, w_hh, mode, reverse, batch_sizes, c, b_ih, b_hh
        )
        return results if lstm else results[:2]

    assert gradcheck(run, inputs)
    assert gradgradcheck(run, inputs)


def test_projections_and_every_layout():
    torch.manual_seed(5)
    layer = nn.LSTM(3, 6, 2, proj_size=2, bidirectional=True, batch_first=True).double()
    assert [n for n in layer.state_dict() if n.endswith("l1_reverse")] == [
        f"{part}_l1_reverse"
        for part in ("weight_ih", "weight_hh", "bias_ih", "bias_hh", "weight_hr")
    ]
    x = torch.randn(2, 5, 3, dtype=torch.float64)
    out, (h, c) = layer(x)
    assert out.shape == (2, 5, 4)
    assert h.shape == (4, 2, 2)
    assert c.shape == (4, 2, 6)
    assert gradcheck(lambda v: layer(v)[0], (x.requires_grad_(),))
    strided = torch.randn(5, 3, 2, dtype=torch.float64).permute(2, 0, 1)
    torch.testing.assert_close(layer(strided)[0], layer(strided.contiguous())[0])
    single, (h1, _) = layer(x[0])
    torch.testing.assert_close(single, out[0])
    assert h1.shape == (4, 2)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_types_are_rounded_floats(dtype):
    torch.manual_seed(6)
    wide = nn.GRU(3, 4)
    narrow = nn.GRU(3, 4).to(dtype)
    narrow.load_state_dict(wide.state_dict())
    wide.load_state_dict(narrow.state_dict())
    x = torch.randn(3, 2, 3).to(dtype)
    out, _ = narrow(x)
    assert out.dtype == dtype
    torch.testing.assert_close(out.float(), wide(x.float())[0], atol=2e-2, rtol=2e-2)
    out.sum().backward()
    assert narrow.weight_hh_l0.grad.dtype == dtype


def test_the_functions_take_both_forms():
    torch.manual_seed(7)
    layer = nn.GRU(3, 4)
    x, h = torch.randn(5, 2, 3), torch.zeros(1, 2, 4)
    weights = layer._flat_weights
    out, last = torch.gru(x, h, weights, True, 1, 0.0, False, False, False)
    torch.testing.assert_close(out, layer(x)[0])
    packed = sequences.pack_padded_sequence(x, [5, 3])
    data, _ = torch.gru(packed.data, packed.batch_sizes, h, weights, True, 1, 0.0, False, False)
    torch.testing.assert_close(data, layer(packed)[0].data)
    with pytest.raises(TypeError, match="gru"):
        torch.gru(x, h, weights)


def test_dropout_lies_between_layers():
    torch.manual_seed(8)
    layer = nn.RNN(3, 64, num_layers=2, dropout=1.0)
    blind = layer(torch.randn(4, 1, 3))[0]
    torch.testing.assert_close(blind, layer(torch.randn(4, 1, 3))[0])
    layer.eval()
    assert not torch.allclose(layer(torch.randn(4, 1, 3))[0], blind)
    with pytest.warns(UserWarning, match="dropout option adds dropout"):
        nn.RNN(3, 4, dropout=0.5)


def test_sequences_survive_padding_and_packing():
    items = [torch.randn(n, 2) for n in (3, 1, 4)]
    padded = sequences.pad_sequence(items, batch_first=True, padding_value=-1.0)
    assert padded.shape == (3, 4, 2)
    assert (padded[1, 1:] == -1).all()
    left = sequences.pad_sequence(items, padding_side="left")
    torch.testing.assert_close(left[1:, 0], items[0])
    for a, b in zip(sequences.unpad_sequence(padded, torch.tensor([3, 1, 4]), True), items):
        torch.testing.assert_close(a, b)
    packed = sequences.pack_sequence(items, enforce_sorted=False)
    assert packed.batch_sizes.tolist() == [3, 2, 2, 1]
    assert packed.sorted_indices.tolist() == [2, 0, 1]
    for a, b in zip(sequences.unpack_sequence(packed), items, strict=True):
        torch.testing.assert_close(a, b)
    assert packed.to(torch.float64).data.dtype == torch.float64
    longer, _ = sequences.pad_packed_sequence(packed, total_length=6)
    assert longer.shape == (6, 3, 2)


@pytest.mark.parametrize(
    ("error", "call"),
    [
        (ValueError, lambda: nn.LSTM(3, 0)),
        (ValueError, lambda: nn.LSTM(3, 4, proj_size=4)),
        (ValueError, lambda: nn.GRU(3, 4, proj_size=2)),
        (ValueError, lambda: nn.RNN(3, 4, nonlinearity="sin")),
        (ValueError, lambda: nn.RNN(3, 4, dropout=2)),
        (TypeError, lambda: nn.RNN(3, 4.0)),
        (RuntimeError, lambda: nn.RNN(3, 4)(torch.zeros(2, 1, 5))),
        (ValueError, lambda: nn.RNN(3, 4)(torch.zeros(3))),
        (ValueError, lambda: nn.RNN(3, 4)(torch.zeros(2, 1, 3, dtype=torch.float64))),
        (RuntimeError, lambda: nn.RNN(3, 4)(torch.zeros(2, 1, 3), torch.zeros(1, 2, 4))),
        (RuntimeError, lambda: nn.RNN(3, 4)(torch.zeros(2, 1, 3), torch.zeros(1, 4))),
        (RuntimeError, lambda: nn.LSTM(3, 4)(torch.zeros(0, 1, 3))),
        (ValueError, lambda: nn.GRUCell(3, 4)(torch.zeros(1, 1, 3))),
        (RuntimeError, lambda: sequences.pack_padded_sequence(torch.zeros(3, 2, 1), [1, 3])),
        (RuntimeError, lambda: sequences.pack_padded_sequence(torch.zeros(3, 2, 1), [4, 3])),
        (RuntimeError, lambda: sequences.pack_padded_sequence(torch.zeros(3, 2, 1), [3, 0])),
        (RuntimeError, lambda: sequences.pack_padded_sequence(torch.zeros(3, 2, 1), [3])),
    ],
)
def test_what_does_not_fit_is_refused(error, call):
    with pytest.raises(error):
        call()


@pytest.mark.parametrize("sizes", [[2, 3], [3, 0], [3, 3, 3], [2**62, 2**62, 2**62], []])
def test_bad_batch_sizes_are_refused(sizes):
    weights = [torch.zeros(4, 3), torch.zeros(4, 4)]
    with pytest.raises(RuntimeError, match="batch_sizes"):
        torch.rnn_tanh(
            torch.zeros(6, 3),
            torch.tensor(sizes, dtype=torch.int64),
            torch.zeros(1, 3, 4),
            weights,
            False,
            1,
            0.0,
            False,
            False,
        )


def test_reprs_name_what_is_not_a_default():
    assert repr(nn.LSTM(3, 4, 2, bidirectional=True)) == (
        "LSTM(3, 4, num_layers=2, bidirectional=True)"
    )
    assert repr(nn.RNNCell(3, 4, bias=False, nonlinearity="relu")) == (
        "RNNCell(3, 4, bias=False, nonlinearity=relu)"
    )


def test_the_state_of_a_cell_depends_on_the_returned_cell_state():
    torch.manual_seed(3)
    cell = nn.LSTMCell(3, 4).double()
    x, state = torch.randn(2, 3).double(), torch.randn(2, 2, 4).double()
    h, c = cell(x, tuple(state))
    c.retain_grad()
    h.sum().backward(retain_graph=True)
    gates = x @ cell.weight_ih.T + cell.bias_ih + state[0] @ cell.weight_hh.T + cell.bias_hh
    o = gates.chunk(4, -1)[3].sigmoid()
    torch.testing.assert_close(c.grad, o * (1 - c.tanh() ** 2))
    before = cell.weight_ih.grad.clone()
    cell.zero_grad()
    c.register_hook(lambda g: g * 3)  # sees and changes the complete gradient of c
    c.grad = None
    (h.sum() + c.sum()).backward(retain_graph=True)
    torch.testing.assert_close(c.grad, 3 * (o * (1 - c.tanh() ** 2) + 1))
    assert not torch.allclose(cell.weight_ih.grad, before)
    unbatched = cell(x[0], (state[0][0], state[1][0]))
    assert torch.autograd.grad(unbatched[0].sum(), unbatched[1], allow_unused=True)[0] is None
    torch.testing.assert_close(unbatched[0], h[0])


def test_a_cell_has_derivatives_of_every_order():
    torch.manual_seed(4)
    cell = nn.LSTMCell(2, 2).double()
    weights = [w.detach().requires_grad_() for w in cell.parameters()]
    x, h, c = (torch.randn(2, 2).double().requires_grad_() for _ in range(3))

    def step(x, h, c, *weights):
        return torch.lstm_cell(x, (h, c), *weights)

    assert gradcheck(step, (x, h, c, *weights), check_forward_ad=True, check_batched_grad=True)
    assert gradgradcheck(step, (x, h, c, *weights))
    rows = torch.func.vmap(lambda x, h, c: torch.lstm_cell(x, (h, c), *weights))(x, h, c)
    torch.testing.assert_close(rows, step(x, h, c, *weights))


def test_results_of_layers_do_not_depend_on_each_other():
    for layer in (nn.LSTM(3, 4, 2), nn.LSTM(3, 4, proj_size=2), nn.GRU(3, 4), nn.RNN(3, 4)):
        out, state = layer(torch.randn(5, 2, 3))
        results = (out, *state) if isinstance(state, tuple) else (out, state)
        for a in results:
            others = [b for b in results if b is not a]
            assert torch.autograd.grad(a.sum(), others, allow_unused=True, retain_graph=True) == (
                (None,) * len(others)
            )


def test_autocast_leaves_the_cell_state_of_a_cell_wide():
    cell = nn.LSTMCell(3, 4)
    with torch.autocast("cpu", torch.bfloat16):
        h, c = cell(torch.randn(2, 3))
    assert (h.dtype, c.dtype) == (torch.float32, torch.float32)  # as in torch


LAYERS_OF_PRODUCTS = {
    "rnn": lambda: nn.RNN(3, 4, 2, bidirectional=True),
    "gru": lambda: nn.GRU(3, 4),
    "lstm": lambda: nn.LSTM(3, 4),
    "projected": lambda: nn.LSTM(3, 4, proj_size=2),
    "gru cell": lambda: nn.GRUCell(3, 4),
    "lstm cell": lambda: nn.LSTMCell(3, 4),
}


@pytest.mark.parametrize("name", LAYERS_OF_PRODUCTS)
@pytest.mark.parametrize("twice", [False, True])
def test_new_data_of_a_weight_does_not_change_the_gradient(name, twice):
    torch.manual_seed(5)
    layer = LAYERS_OF_PRODUCTS[name]().double()
    shape = (2, 3) if "cell" in name else (5, 2, 3)
    x = torch.randn(shape, dtype=torch.float64, requires_grad=True)

    def gradients(new_data):
        result = layer(x)
        result = result[0] if isinstance(result, tuple) else result
        if new_data:
            for weight in layer.parameters():
                weight.data = weight.data * 3 + 1
        inputs = [x, *layer.parameters()]
        first = torch.autograd.grad(result.sin().sum(), inputs, create_graph=twice)
        return torch.autograd.grad(sum(g.sin().sum() for g in first), inputs) if twice else first

    want = gradients(False)
    for got, w in zip(gradients(True), want, strict=True):
        torch.testing.assert_close(got, w)


def test_a_weight_of_new_data_that_is_written_afterwards_raises():
    layer = nn.GRU(3, 4)
    out = layer(torch.randn(5, 2, 3, requires_grad=True))[0]
    layer.weight_hh_l0.data = torch.zeros(12, 4)
    with torch.no_grad():
        layer.weight_hh_l0.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        out.sum().backward()


@pytest.mark.parametrize("low", [torch.float16, torch.bfloat16])
def test_autocast_leaves_the_cells_of_a_projected_lstm_wide(low):
    torch.manual_seed(6)
    layer = nn.LSTM(3, 4, 2, proj_size=2, bidirectional=True)
    x = torch.randn(5, 2, 3)
    with torch.autocast("cpu", low):
        out, (h, c) = layer(x)
    assert (out.dtype, h.dtype, c.dtype) == (low, low, torch.float32)
    assert not torch.equal(c, c.to(low).float())  # not rounded in between either
    torch.testing.assert_close(c, layer(x)[1][1], atol=0.05, rtol=0.05)
    (c.sum() + out.sum()).backward()
    assert all(w.grad.dtype == torch.float32 for w in layer.parameters())
    plain = nn.LSTM(3, 4, 5)
    with torch.autocast("cpu", low):
        assert plain(x)[1][1].dtype == low


def test_state_of_an_lstm_cell_is_a_pair():
    cell, x, h = nn.LSTMCell(3, 2), torch.ones(2, 3), torch.ones(2, 2)
    for state in (h, torch.stack([h, h])):
        with pytest.raises(
            (TypeError, ValueError), match=r"hx' \(position 2\) must be tuple|hx\[0"
        ):
            cell(x, state)
    with pytest.raises(TypeError, match="must be tuple of Tensors, not Tensor"):
        torch.lstm_cell(x, torch.stack([h, h]), cell.weight_ih, cell.weight_hh)
    assert torch.equal(cell(x, [h, h])[0], cell(x, (h, h))[0])
