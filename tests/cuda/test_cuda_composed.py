# SPDX-License-Identifier: BSD-3-Clause
"""Ops whose kernels only the CPU has: on a GPU they are composed of others, without a fallback."""

import fakes
import pytest

pytestmark = pytest.mark.skipif(fakes.why_not() is not None, reason=str(fakes.why_not()))

BOTH = """
import copy
torch.cuda.set_fallback("error")
F, nn = torch.nn.functional, torch.nn
torch.manual_seed(0)

def both(f, *args, tol=1e-12):
    found = []
    for device in ("cpu", "cuda"):
        xs = [x.to(device) for x in args]
        leaves = [x.detach().requires_grad_() if x.is_floating_point() else x for x in xs]
        out = f(*leaves)
        assert out.device.type == device
        leaves = [x for x in leaves if x.requires_grad]
        first = torch.autograd.grad((out * out).sum(), leaves, create_graph=True)
        rest = [g for g in first if g.requires_grad]
        second = torch.autograd.grad(sum((g * g).sum() for g in rest), leaves, allow_unused=True)
        found.append([out, *first, *(g for g in second if g is not None)])
    for a, b in zip(*found, strict=True):
        torch.testing.assert_close(b.cpu(), a, rtol=tol, atol=tol)

def rand(*sizes, dtype=torch.float64):
    return torch.randn(*sizes, dtype=dtype)
"""


def run(program):
    fakes.run(BOTH + program)


@pytest.mark.parametrize(
    "layer",
    [
        "nn.LSTM(3, 4, 2, bidirectional=True)", "nn.LSTM(3, 4, proj_size=2)", "nn.GRU(3, 4, 2)",
        "nn.RNN(3, 4, nonlinearity='relu', bias=False)",
    ],
)  # fmt: skip
def test_recurrent_layers(layer):
    run(
        f"""
layers = {{"cpu": {layer}.double()}}
layers["cuda"] = copy.deepcopy(layers["cpu"]).cuda()
pack = nn.utils.rnn.pack_padded_sequence

def results(lengths):
    def f(x, *weights):
        m = layers[x.device.type]
        named = dict(zip((name for name, _ in m.named_parameters()), weights, strict=True))
        x = x if lengths is None else pack(x, lengths)
        out, state = torch.func.functional_call(m, named, (x,))
        out = out if lengths is None else out.data
        state = state if isinstance(state, tuple) else (state,)
        return torch.cat([t.reshape(-1) for t in (out, *state)])
    return f

x, weights = rand(5, 3, 3), [p.detach() for p in layers["cpu"].parameters()]
both(results(None), x, *weights, tol=1e-10)
both(results([5, 3, 1]), x, *weights, tol=1e-10)
half = copy.deepcopy(layers["cuda"]).bfloat16()
out, _ = half(x.bfloat16().cuda())
assert out.dtype == torch.bfloat16
torch.testing.assert_close(out.double().cpu(), layers["cpu"](x)[0], rtol=0.05, atol=0.05)
"""
    )


def test_bags():
    run(
        """
w, index = rand(6, 3), torch.tensor([1, 2, 2, 5, 0, 3, 1])
offsets = torch.tensor([0, 2, 2, 5, 7])
for mode in ("sum", "mean"):
    for options in ({}, {"padding_idx": 2}, {"include_last_offset": True}):
        both(lambda w, i, o: F.embedding_bag(i, w, o, mode=mode, **options), w, index, offsets)
both(lambda w, i, o, s: F.embedding_bag(i, w, o, mode="sum", per_sample_weights=s), w, index,
     offsets, rand(7))
both(lambda w, i: F.embedding_bag(i[:6].reshape(2, 3), w), w, index)
# Sums of 16-bit numbers are added in float32, and rows of padding are not read.
many = torch.full((100,), 0).reshape(1, 100)
big = torch.full((4, 1), 1000.0, dtype=torch.float16)
assert F.embedding_bag(many.cuda(), big.cuda(), mode="mean").tolist() == [[1000.0]]
w[2] = float("inf")
both(lambda w, i, o: F.embedding_bag(i, w, o, mode="sum", padding_idx=2), w, index, offsets)
both(lambda w, i, o, s: F.embedding_bag(i, w, o, mode="sum", padding_idx=2,
                                        per_sample_weights=s), w, index, offsets, rand(7))
"""
    )


def test_distances_of_rows():
    run(
        """
a, b = rand(2, 5, 3), rand(4, 3)
b[0] = a[0, 0]  # a distance of 0
for p in (0.0, 1.0, 1.5, 2.0, 3.0, float("inf")):
    both(lambda a, b: torch.cdist(a, b, p=p), a, b, tol=1e-10)
both(F.pdist, a[1])
assert torch.cdist(torch.ones(2, 0).cuda(), torch.ones(3, 0).cuda()).tolist() == [[0.0] * 3] * 2
"""
    )
