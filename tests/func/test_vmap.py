# SPDX-License-Identifier: BSD-3-Clause
"""vmap: dims of arguments and results, chunks, nesting, modules, dtypes, empty batches."""

import pytest
from vmap_checks import X, agree, grid, looped

import cograd as torch
import cograd.nn.functional as F
from cograd import nn
from cograd.autograd import grad
from cograd.func import vmap

# --- in_dims -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "dim,want", [(0, [3.0, 12.0]), (1, [3.0, 5.0, 7.0]), (-1, [3.0, 5.0, 7.0])]
)
def test_in_dims_name_the_dim_of_the_samples(dim, want):
    assert vmap(torch.sum, dim)(X).tolist() == want


def test_in_dims_are_a_tree_like_the_arguments():
    def f(p, q):
        return p["a"] + p["b"][0] * q

    tree = {"a": X, "b": [grid(3, 2)]}
    got = vmap(f, ({"a": 0, "b": [1]}, None))(tree, grid(3))
    assert torch.equal(got, X + grid(3, 2).t() * grid(3))
    assert torch.equal(vmap(f, (0, None))({"a": X, "b": [X]}, grid(3)), X + X * grid(3))


def test_arguments_that_are_no_tensors_take_none():
    assert torch.equal(vmap(torch.mul, (0, None))(X, 2), X * 2)
    assert torch.equal(vmap(lambda a, b: a if b is None else b, (0, None))(X, None), X)


def test_keyword_arguments_are_the_same_for_all_samples():
    got = vmap(lambda a, b, n=1: a + b * n)(X, b=X, n=2)
    assert torch.equal(got, X[:, None] + X * 2)


@pytest.mark.parametrize(
    "in_dims,args,text",
    [
        (2, (X,), "Tensor of dimensionality 2 so expected in_dim to satisfy -2 <= in_dim < 2"),
        (-3, (X,), "Got in_dim=-3 for some input"),
        (0, (X, 2), "input is of type <class 'int'>. We cannot vmap over non-Tensor arguments"),
        (0, (X, None), "We cannot vmap over non-Tensor arguments"),
        (0, (torch.tensor(1.0),), "dimensionality 0"),
        (0, (X, grid(3, 3)), "all samples share has the in_dim None"),
        (0, (), "got no inputs"),
        (None, (X,), "expected `in_dims` to be int or a"),
        ("x", (X,), "expected `in_dims` to be int or a"),
        ({"a": 0}, ({"a": X},), "expected `in_dims` to be int or a"),
        ((None,), (X,), "to map over"),
        (("x",), (X,), "in_dim must be either an integer dimension or None"),
        ((0.5,), (X,), "in_dim must be either an integer dimension or None"),
        ((True,), (X,), "in_dim must be either an integer dimension or None"),
        ((0, 0, 0), (X, X), r"in_dims has structure \(\*, \*, \*\) but inputs has structure"),
        ((0,), (X, X), "not compatible with the structure of `inputs`"),
        (({"c": 0},), ({"a": X},), "not compatible with the structure of `inputs`"),
    ],
)
def test_in_dims_that_do_not_fit_raise(in_dims, args, text):
    with pytest.raises(ValueError, match=text):
        vmap(lambda *a: a[0], in_dims)(*args)


# --- out_dims ----------------------------------------------------------------------------------


@pytest.mark.parametrize("dim", [0, 1, -1, -2])
def test_out_dims_place_the_samples(dim):
    want = torch.stack([X[0] * 2, X[1] * 2], dim)
    assert torch.equal(vmap(lambda a: a * 2, out_dims=dim)(X), want)


def test_out_dims_are_a_tree_like_the_result():
    got = vmap(lambda a: {"u": a, "v": (a + 1, [a])}, out_dims={"u": 0, "v": (1, [0])})(X)
    assert torch.equal(got["v"][0], (X + 1).t())
    assert torch.equal(got["u"], X)
    assert torch.equal(got["v"][1][0], X)
    pair = vmap(lambda a: (a, a), out_dims=1)(X)
    assert all(torch.equal(p, X.t()) for p in pair)
    assert torch.equal(vmap(lambda a: a, out_dims=(1,))(X), X.t())


def test_results_that_are_the_same_for_all():
    assert torch.equal(vmap(lambda a: grid(3))(X), grid(3).expand(2, 3))
    assert torch.equal(vmap(lambda a: grid(3), out_dims=1)(X), grid(3).expand(2, 3).t())
    assert torch.equal(vmap(lambda a: grid(3), out_dims=None)(X), grid(3))
    values, number = vmap(lambda a: (a, 3), out_dims=(0, None))(X)
    assert number == 3
    assert torch.equal(values, X)
    assert vmap(lambda a: ())(X) == ()


def test_named_results_stay_named():
    found = vmap(lambda a: a.sort(descending=True))(X)
    assert torch.equal(found.values, X.flip(1))


@pytest.mark.parametrize(
    "f,out_dims,kind,text",
    [
        (lambda a: a, 2, IndexError, "Dimension out of range"),
        (lambda a: a, -3, IndexError, "Dimension out of range"),
        (lambda a: a, None, ValueError, "can not return a BatchedTensor when out_dim is None"),
        (lambda a: 3, 0, ValueError, "must only return Tensors, got type <class 'int'>"),
        (lambda a: None, 0, ValueError, "must only return Tensors, got type <class 'NoneType'>"),
        (lambda a: (a, a), (0, 1, 1), ValueError, "the structure of `outputs`"),
        (lambda a: a, (1, 0), ValueError, "the structure of `outputs`"),
        (
            lambda a: (a, a),
            [0, 1],
            ValueError,
            r"has structure \[\*, \*\] but outputs has .* \(\*, ",
        ),
        (lambda a: [a, a], (0, 1), ValueError, "the structure of `outputs`"),
        (lambda a: ([a],), ((0,),), ValueError, "the structure of `outputs`"),
        (lambda a: (a, (a, a)), (0, (1,)), ValueError, "the structure of `outputs`"),
        (lambda a: {"u": a}, {"v": 0}, ValueError, "the structure of `outputs`"),
        (lambda a: a, "x", ValueError, "`out_dims` must be an int, None or a python collection"),
        (lambda a: a, 0.5, ValueError, "`out_dims` must be an int, None or a python collection"),
    ],
)
def test_out_dims_that_do_not_fit_raise(f, out_dims, kind, text):
    with pytest.raises(kind, match=text):
        vmap(f, out_dims=out_dims)(X)


# --- chunks ------------------------------------------------------------------------------------


@pytest.mark.parametrize("chunk", [1, 2, 3, 5, 7])
@pytest.mark.parametrize("dim", [0, -1])
def test_chunks_give_what_one_run_gives(chunk, dim):
    sizes = []

    def f(a):
        sizes.append(a)
        return a * 2, a.sum(), grid(2)

    x = grid(5, 5)
    got = vmap(f, dim, (dim, 0, None), chunk_size=chunk)(x)
    assert len(sizes) == -(-5 // chunk)
    sizes.clear()
    assert torch.equal(got[0], x * 2)
    assert torch.equal(got[1], x.sum(1 if dim == 0 else 0))
    assert torch.equal(got[2], grid(2))


@pytest.mark.parametrize("chunk", [0, -1])
def test_chunk_size_is_positive(chunk):
    with pytest.raises(ValueError, match=f"greater than 0. .got {chunk}"):
        vmap(torch.sum, chunk_size=chunk)


# --- nesting -----------------------------------------------------------------------------------


def test_nested_vmaps_of_different_sizes():
    got = vmap(lambda a: vmap(lambda b: torch.outer(a, b))(grid(4, 5)))(X)
    assert torch.equal(got, X[:, None, :, None] * grid(4, 5)[None, :, None, :])
    three = vmap(lambda a: vmap(lambda b: vmap(lambda c: a * b + c)(grid(2)))(grid(3)))(grid(4))
    want = grid(4)[:, None, None] * grid(3)[:, None] + grid(2)
    assert torch.equal(three, want)


def test_nested_vmaps_over_other_dims():
    x = grid(2, 3, 4)
    got = vmap(lambda a: vmap(lambda b: b.cumsum(0), 1, 1)(a), 2, 1)(x)
    want = torch.stack([x[:, :, i].cumsum(0) for i in range(4)], 1)
    assert torch.equal(got, want)


def test_inner_vmap_of_an_outer_sample_only():
    got = vmap(lambda a: vmap(lambda b: a.sum())(grid(4, 3)))(X)
    assert torch.equal(got, X.sum(1)[:, None].expand(2, 4))
    got = vmap(lambda a: vmap(lambda b, c: b + c, (None, 0))(a, grid(2, 3)))(grid(5, 3))
    assert torch.equal(got, grid(5, 3)[:, None] + grid(2, 3))


# --- modules -----------------------------------------------------------------------------------

MODULES = {
    "Linear": lambda: nn.Linear(3, 4),
    "LayerNorm": lambda: nn.LayerNorm(3),
    "RMSNorm": lambda: nn.RMSNorm(3),
    "Sequential": lambda: nn.Sequential(
        nn.Linear(3, 4), nn.GELU(), nn.LayerNorm(4), nn.Linear(4, 2), nn.Softmax(-1)
    ),
    "PReLU": lambda: nn.PReLU(),
    "Flatten": lambda: nn.Flatten(0),
}


@pytest.mark.parametrize("name", MODULES)
def test_modules_are_mapped_with_gradients(name):
    module = MODULES[name]().double()
    x = grid(4, 5, 3) / 7
    got = vmap(module)(x)
    want = looped(module, x)
    torch.testing.assert_close(got, want)
    parameters = list(module.parameters())
    if parameters:
        pairs = zip(
            grad((got**2).sum(), parameters), grad((want**2).sum(), parameters), strict=True
        )
        for a, b in pairs:
            torch.testing.assert_close(a, b)


def test_embedding_and_attention():
    table = nn.Embedding(10, 3)
    at = torch.tensor([[1, 2], [3, 4]])
    assert torch.equal(vmap(table)(at), table(at))
    attention = nn.MultiheadAttention(4, 2).double().eval()
    q = grid(3, 5, 4) / 10
    got = vmap(lambda t: attention(t, t, t, need_weights=False)[0])(q)
    want = looped(lambda t: attention(t, t, t, need_weights=False)[0], q)
    torch.testing.assert_close(got, want)


def test_an_ensemble_is_a_stack_of_parameters():
    models = [nn.Linear(3, 2).double() for _ in range(4)]
    weights = torch.stack([m.weight for m in models])
    biases = torch.stack([m.bias for m in models])
    got = vmap(F.linear, (None, 0, 0))(X, weights, biases)
    torch.testing.assert_close(got, torch.stack([m(X) for m in models]))
    g = grad(got.sum(), models[1].weight)[0]
    torch.testing.assert_close(g, X.sum(0).expand(2, 3))


# --- dtypes and sizes --------------------------------------------------------------------------

PROMOTED = {
    "add": (lambda a, b: a + b, torch.float32, torch.float64),
    "mul int": (lambda a, b: a * b, torch.int64, torch.float32),
    "mul half": (lambda a, b: a * b, torch.int64, torch.float16),
    "pow": (lambda a, b: a**b, torch.int32, torch.int64),
    "gt": (lambda a, b: a > b, torch.float32, torch.float64),
    "maximum": (torch.maximum, torch.float32, torch.float64),
    "where": (lambda a, b: torch.where(a > 1, a, b), torch.float32, torch.float64),
    "clamp": (torch.clamp, torch.float32, torch.float64),
    "addcmul": (lambda a, b: torch.addcmul(a, a, b), torch.float32, torch.float64),
    "in place": (lambda a, b: a.clone().add_(b), torch.float32, torch.float64),
    "cat": (lambda a, b: torch.cat([a, b[None]]), torch.float32, torch.float64),
}


@pytest.mark.parametrize("name", PROMOTED)
def test_samples_of_no_dims_promote_as_numbers_do(name):
    f, a, b = PROMOTED[name]
    agree(f, grid(2, 3, dtype=a), grid(2, dtype=b))
    got = vmap(lambda x, y: vmap(lambda z: f(z[None], y))(x))(grid(2, 3, dtype=a), grid(2, dtype=b))
    assert got.dtype == f(torch.ones(1, dtype=a), torch.ones((), dtype=b)).dtype


NO_SAMPLES = {
    "add": lambda a: a + 1,
    "sum": lambda a: a.sum(),
    "matmul": lambda a: a @ grid(3, 2),
    "sort": lambda a: a.sort().values,
    "cat": lambda a: torch.cat([a, a]),
    "softmax": lambda a: a.softmax(0),
    "layer_norm": lambda a: F.layer_norm(a, (3,)),
    "the same for all": lambda a: grid(3),
    "view": lambda a: a.view(3, 1),
    "in place": lambda a: a.clone().add_(a),
}


@pytest.mark.parametrize("name", NO_SAMPLES)
def test_no_samples(name):
    f = NO_SAMPLES[name]
    empty = torch.zeros(0, 3, dtype=torch.float64)
    got = vmap(f)(empty)
    assert got.shape == (0, *f(grid(3)).shape)
    assert vmap(f, chunk_size=2)(empty).shape == got.shape


def test_samples_of_no_elements():
    assert torch.equal(vmap(torch.sum)(torch.zeros(2, 0)), torch.zeros(2))
    assert vmap(lambda a: vmap(lambda b: b * 2)(a))(torch.zeros(2, 0, 3)).shape == (2, 0, 3)
