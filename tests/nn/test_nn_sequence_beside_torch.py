# SPDX-License-Identifier: BSD-3-Clause
"""Recurrent, attention, embedding and loss modules: outputs, gradients, repr and state_dict agree
with those recorded from torch 2.13, and with torch itself if it is installed.

With torch 2.13, `python tests/nn/test_nn_sequence_beside_torch.py` writes the record.
"""

import json
import sys
import warnings
from pathlib import Path

RECORD = Path(__file__).parents[1] / "recorded" / "nn_sequence.json"
CASES = {}


def case(name, make, *shapes, call=None):
    """`make(T)` returns a module; `shapes` are those of its floating inputs, for `call`."""
    CASES[name] = (make, shapes, call)


def values(T, shape, seed):
    """Returns numbers that look like noise and are the same in every library."""
    size = 1
    for n in shape:
        size *= n
    x = T.arange(size, dtype=T.float64) * 12.9898 + seed * 78.233
    return (x.sin() * 43758.5453).frac().reshape(shape)


def packed(T, module, inputs):
    rnn = T.nn.utils.rnn
    batch = rnn.pack_padded_sequence(inputs[0], T.tensor([2, 4, 1]), enforce_sorted=False)
    out, state = module(batch)
    return rnn.pad_packed_sequence(out)[0], state


for kind in ("RNN", "LSTM", "GRU"):
    case(kind, lambda T, k=kind: getattr(T.nn, k)(3, 4), (4, 3, 3))
    case(
        f"{kind} both ways",
        lambda T, k=kind: getattr(T.nn, k)(3, 4, num_layers=2, bidirectional=True),
        (4, 3, 3),
    )
    case(f"{kind} packed", lambda T, k=kind: getattr(T.nn, k)(3, 4), (4, 3, 3), call=packed)
    case(
        f"{kind} batch first",
        lambda T, k=kind: getattr(T.nn, k)(3, 4, bias=False, batch_first=True),
        (2, 4, 3),
    )
    case(f"{kind}Cell", lambda T, k=kind: getattr(T.nn, k + "Cell")(3, 4), (2, 3))
case("LSTM projected", lambda T: T.nn.LSTM(3, 5, proj_size=2), (4, 2, 3))
case("RNN relu", lambda T: T.nn.RNN(3, 4, nonlinearity="relu"), (4, 2, 3))

ATTENTION = {
    "plain": {},
    "biases": {"add_bias_kv": True, "add_zero_attn": True},
    "sizes": {"kdim": 4, "vdim": 4, "bias": False},
}
for kind, options in ATTENTION.items():
    case(
        f"MultiheadAttention {kind}",
        lambda T, o=options: T.nn.MultiheadAttention(4, 2, **o),
        (3, 2, 4),
        (5, 2, 4),
        call=lambda T, m, x: m(x[0], x[1], x[1]),
    )
case(
    "MultiheadAttention masked",
    lambda T: T.nn.MultiheadAttention(4, 2, batch_first=True),
    (2, 3, 4),
    call=lambda T, m, x: m(
        x[0],
        x[0],
        x[0],
        attn_mask=T.ones(3, 3, dtype=T.bool).triu(1),
        key_padding_mask=T.tensor([[False, False, True], [False, False, False]]),
        need_weights=False,
    ),
)
for kind, options in {"": {}, " norm first": {"norm_first": True, "activation": "gelu"}}.items():
    for name in ("Encoder", "Decoder"):
        case(
            f"Transformer{name}Layer{kind}",
            lambda T, n=name, o=options: getattr(T.nn, f"Transformer{n}Layer")(
                4, 2, 6, dropout=0.0, **o
            ),
            *((3, 2, 4),) * (1 if name == "Encoder" else 2),
        )
case(
    "Transformer",
    lambda T: T.nn.Transformer(4, 2, 1, 1, 6, dropout=0.0),
    (3, 2, 4),
    (3, 2, 4),
    call=lambda T, m, x: m(*x, tgt_mask=m.generate_square_subsequent_mask(3).double()),
)

BAG = [3, 1, 0, 4, 4, 2, 1]
for mode in ("sum", "mean", "max"):
    case(
        f"EmbeddingBag {mode}",
        lambda T, m=mode: T.nn.EmbeddingBag(5, 3, mode=m, padding_idx=1),
        call=lambda T, m, x: m(T.tensor(BAG), T.tensor([0, 2, 2, 5])),
    )
case(
    "AdaptiveLogSoftmaxWithLoss",
    lambda T: T.nn.AdaptiveLogSoftmaxWithLoss(8, 12, [3, 7], div_value=2.0, head_bias=True),
    (4, 8),
    call=lambda T, m, x: tuple(m(x[0], T.tensor([1, 4, 11, 6]))),
)
for reduction in ("none", "mean"):
    case(
        f"CTCLoss {reduction}",
        lambda T, r=reduction: T.nn.CTCLoss(reduction=r),
        (5, 2, 4),
        call=lambda T, m, x: m(
            x[0].log_softmax(-1), T.tensor([[1, 1], [2, 3]]), T.tensor([5, 4]), T.tensor([2, 1])
        ),
    )
    case(
        f"MultiMarginLoss {reduction}",
        lambda T, r=reduction: T.nn.MultiMarginLoss(p=2, reduction=r),
        (3, 4),
        call=lambda T, m, x: m(x[0], T.tensor([0, 3, 1])),
    )
    case(
        f"MultiLabelMarginLoss {reduction}",
        lambda T, r=reduction: T.nn.MultiLabelMarginLoss(reduction=r),
        (2, 4),
        call=lambda T, m, x: m(x[0], T.tensor([[1, 3, -1, 0], [2, -1, 1, 1]])),
    )
    case(
        f"MultiLabelSoftMarginLoss {reduction}",
        lambda T, r=reduction: T.nn.MultiLabelSoftMarginLoss(reduction=r),
        (2, 4),
        call=lambda T, m, x: m(x[0], (x[0].detach() > 0.1).double()),
    )
    case(
        f"TripletMarginWithDistanceLoss {reduction}",
        lambda T, r=reduction: T.nn.TripletMarginWithDistanceLoss(swap=True, reduction=r),
        (2, 4),
        (2, 4),
        (2, 4),
    )


def flat(result):
    if isinstance(result, (tuple, list)):
        return [t for part in result for t in flat(part)]
    return [] if result is None else [result]


def run(T, name):
    """Returns everything that is compared, for one case in one library."""
    make, shapes, call = CASES[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        module = make(T).double()
        with T.no_grad():
            for i, p in enumerate(module.parameters()):
                p.copy_(values(T, tuple(p.shape), i + 1) * 0.5)
        inputs = [values(T, s, 50 + i).requires_grad_() for i, s in enumerate(shapes)]
        result = call(T, module, inputs) if call else module(*inputs)
    outs = flat(result)
    sum((t * values(T, tuple(t.shape), 80)).sum() for t in outs).backward()
    grads = [p.grad for p in [*inputs, *module.parameters()]]
    return {
        "repr": repr(module),
        "state": {key: list(t.shape) for key, t in module.state_dict().items()},
        "outputs": [t.detach().flatten().tolist() for t in outs],
        "gradients": [None if g is None else g.flatten().tolist() for g in grads],
    }


def check(got, want):
    assert got["repr"] == want["repr"]
    assert list(got["state"].items()) == [(k, list(v)) for k, v in want["state"].items()]
    for part in ("outputs", "gradients"):
        assert len(got[part]) == len(want[part])
        for g, w in zip(got[part], want[part]):
            assert g == w or g == pytest.approx(w, abs=1e-9, rel=1e-9)


if __name__ == "__main__":
    import torch as reference

    rounded = json.loads(
        json.dumps({name: run(reference, name) for name in CASES}),
        parse_float=lambda text: float(f"{float(text):.12g}"),
    )
    RECORD.parent.mkdir(exist_ok=True)
    RECORD.write_text(json.dumps(rounded, separators=(",", ":")) + "\n")
    sys.exit()

import pytest  # noqa: E402
import reference  # noqa: E402

import cograd  # noqa: E402


@pytest.fixture(scope="module")
def record():
    return json.loads(RECORD.read_text())


@pytest.mark.parametrize("name", CASES)
def test_results_are_the_recorded_ones(name, record):
    check(run(cograd, name), record[name])


@pytest.mark.parametrize("name", CASES)
def test_results_are_those_of_torch(name):
    torch = reference.needed()
    check(run(cograd, name), run(torch, name))


@pytest.mark.filterwarnings("ignore:enable_nested_tensor:UserWarning")
@pytest.mark.parametrize("name", CASES)
def test_state_dicts_go_both_ways(name):
    torch = reference.needed()
    make = CASES[name][0]
    theirs, ours = make(torch), make(cograd)
    ours.load_state_dict({k: cograd.tensor(v.tolist()) for k, v in theirs.state_dict().items()})
    theirs.load_state_dict({k: torch.tensor(v.tolist()) for k, v in ours.state_dict().items()})
