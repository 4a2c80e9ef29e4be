# SPDX-License-Identifier: BSD-3-Clause
"""What vmap does beside the arithmetic of its ops: dims, trees, randomness, writes, refusals."""

import copy
import gc
import pickle
import threading
import warnings

import numpy as np
import pytest

import cograd as torch
import cograd.nn.functional as F
from cograd import nn
from cograd.autograd import Function, grad
from cograd.func import vmap

RANDOM = "called random operation"
VALUES = "inside of a vmap"


def grid(*shape, dtype=torch.float64):
    n = int(np.prod(shape))
    return torch.arange(n).to(dtype).reshape(shape)


def looped(f, *args, dims=0, **kwargs):
    """The loop over the samples that vmap stands for."""
    dims = (dims,) * len(args) if not isinstance(dims, tuple) else dims
    size = next(a.shape[d] for a, d in zip(args, dims, strict=True) if d is not None)
    pick = [
        [a if d is None else a.select(d, i) for a, d in zip(args, dims, strict=True)]
        for i in range(size)
    ]
    return torch.stack([f(*p, **kwargs) for p in pick])


def agree(f, *args, dims=0):
    """vmap and the loop, on copies of the same arguments."""
    got = vmap(f, dims)(*[a.clone() for a in args])
    want = looped(f, *[a.clone() for a in args], dims=dims)
    assert got.dtype == want.dtype
    torch.testing.assert_close(got, want)


X = grid(2, 3)


# --- in_dims -----------------------------------------------------------------------------------


@pytest.mark.parametrize("dim,want", [(0, [3.0, 12.0]), (1, [3.0, 5.0, 7.0]), (-1, [3.0, 5.0, 7.0])])
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
        (0, (X, grid(3, 3)), "same size in the mapped dimension"),
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


# --- randomness --------------------------------------------------------------------------------

DRAWS = {
    "rand": lambda a: torch.rand(9),
    "randn": lambda a: torch.randn(9),
    "randint": lambda a: torch.randint(0, 1000, (9,)),
    "randperm": lambda a: torch.randperm(40),
    "rand_like": lambda a: torch.rand_like(a),
    "rand_like unbatched": lambda a: torch.rand_like(torch.zeros(9)),
    "dropout": lambda a: F.dropout(a),
    "dropout unbatched": lambda a: F.dropout(torch.ones(40)),
    "bernoulli": lambda a: torch.bernoulli(a),
    "normal": lambda a: torch.normal(a, 1.0),
    "multinomial": lambda a: torch.multinomial(a, 30),
    "normal_": lambda a: a.clone().normal_(),
    "uniform_": lambda a: a.clone().uniform_(),
    "bernoulli_": lambda a: a.clone().bernoulli_(0.5),
    "normal_ of zeros_like": lambda a: torch.zeros_like(a).normal_(),
}
IN_PLACE_UNBATCHED = {
    "normal_": lambda a: torch.zeros(9).normal_(),
    "uniform_": lambda a: torch.zeros(9).uniform_(),
    "bernoulli_": lambda a: torch.zeros(40).bernoulli_(0.5),
}
HALVES = torch.full((4, 40), 0.5)


@pytest.mark.parametrize("name", DRAWS)
def test_random_numbers_by_mode(name):
    f = DRAWS[name]
    with pytest.raises(RuntimeError, match=RANDOM):
        vmap(f)(HALVES)
    same = vmap(f, randomness="same")(HALVES)
    assert all(torch.equal(same[0], row) for row in same)
    different = vmap(f, randomness="different")(HALVES)
    assert len({tuple(row) for row in different.tolist()}) == 4


@pytest.mark.parametrize("name", IN_PLACE_UNBATCHED)
def test_random_writes_to_what_is_the_same_for_all(name):
    f = IN_PLACE_UNBATCHED[name]
    with pytest.raises(RuntimeError, match=RANDOM):
        vmap(f)(HALVES)
    with pytest.raises(RuntimeError, match="different inplace randomness on an unbatched tensor"):
        vmap(f, randomness="different")(HALVES)
    same = vmap(f, randomness="same")(HALVES)
    assert all(torch.equal(same[0], row) for row in same)


def test_dropout_that_is_off_draws_nothing():
    assert torch.equal(vmap(lambda a: F.dropout(a, training=False))(X), X)


def test_randomness_names_are_checked():
    with pytest.raises(RuntimeError, match="'error', 'different', or 'same'. Got x"):
        vmap(torch.sum, randomness="x")(X)


@pytest.mark.parametrize(
    "outer,inner,rows,columns",
    [
        ("same", "same", 1, 1),
        ("same", "different", 1, 3),
        ("different", "same", 2, 1),
        ("different", "different", 2, 3),
    ],
)
def test_randomness_of_nested_vmaps(outer, inner, rows, columns):
    def f(a):
        return vmap(lambda b: torch.rand(8), randomness=inner)(torch.ones(3))

    r = vmap(f, randomness=outer)(torch.ones(2)).tolist()
    assert len({str(row[0]) for row in r}) == rows
    assert len({str(v) for v in r[0]}) == columns


@pytest.mark.parametrize("outer,inner", [("same", "error"), ("error", "same")])
def test_one_level_in_error_mode_is_enough(outer, inner):
    with pytest.raises(RuntimeError, match=RANDOM):
        vmap(lambda a: vmap(lambda b: torch.rand(2), randomness=inner)(X), randomness=outer)(X)


def test_random_numbers_for_no_sample():
    f = vmap(lambda a: (torch.rand(2), torch.rand_like(a)), randomness="different")
    assert [tuple(t.shape) for t in f(torch.zeros(0, 3))] == [(0, 2), (0, 3)]


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


# --- indexing ----------------------------------------------------------------------------------

Y = grid(3, 4, 5)
AT = torch.tensor([[0, 2], [1, 1], [3, 0]])
ONE = torch.tensor([1, 0, 1])
MASK = grid(4) > 1

READS = {
    "int": lambda a: a[1],
    "negative": lambda a: a[-1],
    "slices": lambda a: a[1:3, ::2],
    "None": lambda a: a[None, :, None],
    "Ellipsis": lambda a: a[..., 1],
    "mask": lambda a: a[MASK],
    "list": lambda a: a[[0, 2]],
    "indices": lambda a: a[torch.tensor([[0, 2], [1, 1]])],
    "True": lambda a: a[True],
    "row by row": lambda a: sum(r for r in a),
}
READS_AT = {
    "first dim": lambda a, i: a[i],
    "second dim": lambda a, i: a[:, i],
    "with a slice": lambda a, i: a[i, 1:3],
    "with None and Ellipsis": lambda a, i: a[None, i, ..., 0],
    "with another": lambda a, i: a[i, torch.tensor([0, 1])],
    "twice": lambda a, i: a[i, i],
    "apart": lambda a, i: a[None][i * 0, :, i],
    "of what is the same for all": lambda a, i: grid(4, 5)[i],
    "index_select": lambda a, i: a.index_select(0, i),
    "gather": lambda a, i: a[:, :2].gather(0, i[None]),
    "take": lambda a, i: torch.take(a, i),
}


@pytest.mark.filterwarnings("ignore:vmap")
@pytest.mark.parametrize("name", READS)
def test_indexing(name):
    agree(READS[name], Y)


@pytest.mark.filterwarnings("ignore:vmap")
@pytest.mark.parametrize("name", READS_AT)
def test_indexing_by_indices_of_each_sample(name):
    agree(READS_AT[name], Y, AT)


@pytest.mark.filterwarnings("ignore:vmap")
def test_indexing_by_one_index_of_each_sample():
    agree(lambda a, i: a[i], Y, ONE)
    agree(lambda a, i: a[i], Y, ONE, dims=(None, 0))
    agree(lambda a, i: a[:, i], Y, ONE)


@pytest.mark.parametrize("index,text", [(4, "out of bounds"), ((0, 0, 0), "too many indices")])
def test_indices_that_samples_have_not(index, text):
    with pytest.raises(IndexError, match=text):
        vmap(lambda a: a[index])(Y)


WRITES = {
    "int": (1, 9.0),
    "slice": ((slice(1, 3), 0), 9.0),
    "None": ((None, 1), 9.0),
    "mask": (MASK, 9.0),
    "list": ([0, 2], 9.0),
    "Ellipsis": (Ellipsis, 9.0),
    "a sample's value": (1, lambda a: a[0]),
    "a sample's value by mask": (MASK, lambda a: a[0]),
    "a sample's mask": (lambda a: a > 3, 0.0),
}


@pytest.mark.filterwarnings("ignore:vmap")
@pytest.mark.parametrize("name", WRITES)
def test_assignment(name):
    index, value = WRITES[name]

    def f(a):
        b = a.clone()
        b[index(a) if callable(index) else index] = value(a) if callable(value) else value
        return b

    agree(f, Y)


@pytest.mark.filterwarnings("ignore:vmap")
@pytest.mark.parametrize("at", [AT, ONE])
def test_assignment_at_indices_of_each_sample(at):
    def f(a, i):
        b = a.clone()
        b[i] = 7.0
        b[:, i] += a.sum()
        return b

    agree(f, Y, at)


@pytest.mark.filterwarnings("ignore:vmap")
def test_assignment_to_what_factories_make_of_a_sample():
    def f(a):
        made = [a.new_zeros(4, 5), torch.zeros_like(a), torch.empty_like(a).fill_(1.0)]
        for z in made:
            z[1] = a[0]
        return torch.stack(made)

    agree(f, Y)


# --- writes ------------------------------------------------------------------------------------


@pytest.mark.parametrize("dim", [0, 1])
def test_what_is_written_to_a_sample_is_seen_outside(dim):
    t = X.clone()
    vmap(lambda a: a.add_(1).sum(), dim)(t)
    assert torch.equal(t, X + 1)


INPLACE = {
    "views": lambda a: (a[0].mul_(5), a.view(-1)[1:].add_(a.sum())),
    "transposed": lambda a: a.t()[0].add_(a[:, 1]),
    "fill_ of a sample's value": lambda a: a.fill_(a[0, 1].clone()),
    "zero_": lambda a: a.zero_(),
    "mul_ by itself": lambda a: a.mul_(a),
    "masked_fill_": lambda a: a.masked_fill_(a > 4, 0.0),
}


@pytest.mark.parametrize("name", INPLACE)
def test_writes_in_place(name):
    def f(a):
        b = a.clone()
        INPLACE[name](b)
        return b

    agree(f, grid(2, 3, 3))


GEOMETRY = {
    "t_": lambda a: a.t_(),
    "transpose_": lambda a: a.transpose_(0, 1),
    "unsqueeze_": lambda a: a.unsqueeze_(1),
    "squeeze_": lambda a: a.squeeze_(0),
    "swapaxes_": lambda a: a.swapaxes_(0, -1),
}


@pytest.mark.parametrize("name", GEOMETRY)
def test_geometry_in_place(name):
    def f(a):
        b = a.clone()
        GEOMETRY[name](b)
        return b * b.shape[-1]

    agree(f, grid(2, 1, 3))
    agree(f, grid(1, 3, 2), dims=2)


def test_geometry_in_place_with_history():
    t = X.clone().requires_grad_()

    def f(a):
        b = a[None].clone()
        b.t_()
        return (b * grid(3, 1)).sum()

    vmap(f)(t).sum().backward()
    assert torch.equal(t.grad, grid(3).expand(2, 3))


UNBATCHED = {
    "add_": lambda a: torch.zeros(3).add_(a),
    "mul_": lambda a: torch.zeros(3).mul_(a),
    "copy_": lambda a: torch.zeros(3).copy_(a),
    "setitem": lambda a: torch.zeros(3).__setitem__(1, a[0]),
    "setitem by indices": lambda a: torch.zeros(3).__setitem__(torch.tensor([0]), a[0]),
    "setitem at a sample's index": lambda a: torch.zeros(3).__setitem__(a[0].long(), 1.0),
    "scatter_": lambda a: torch.zeros(9).scatter_(0, a.long(), 1.0),
    "index_add_": lambda a: torch.zeros(9).index_add_(0, a.long(), torch.ones(3)),
    "masked_fill_": lambda a: torch.zeros(3).masked_fill_(a > 2, 1.0),
    "inner": lambda a: vmap(lambda b: a.clone().add_(b))(grid(4)),
    "outer": lambda a: vmap(lambda b: b.add_(a[0]))(grid(4)),
}


@pytest.mark.parametrize("name", UNBATCHED)
def test_samples_written_to_what_is_the_same_for_all_raise(name):
    with pytest.raises(RuntimeError, match=r"inplace arithmetic \w+_\(\) is not possible.*new_zeros"):
        vmap(UNBATCHED[name])(X.float())


def test_a_write_to_what_is_the_same_for_all_of_what_is_too():
    assert torch.equal(vmap(lambda a: torch.zeros(3).add_(1))(X), torch.ones(2, 3))


def test_writes_that_do_not_fit_a_sample_raise():
    with pytest.raises(RuntimeError, match=r"output with shape \[1\] doesn't match the broadcast"):
        vmap(lambda a, b: a.add_(b))(grid(2, 1), X)
    with pytest.raises(RuntimeError, match="can't be cast"):
        vmap(lambda a: a.add_(1.5))(torch.arange(3))
    with pytest.raises(RuntimeError, match="a leaf"):
        vmap(lambda a: a.add_(1))(X.clone().requires_grad_())
    with pytest.raises(RuntimeError, match="vmap: resize_"):
        vmap(lambda a: a.resize_(2))(X.clone())
    with pytest.raises(NotImplementedError, match="vmap: add.. with out= is not possible"):
        vmap(lambda a: torch.add(a, 1, out=torch.empty(3)))(X)


def test_writes_with_history():
    def f(a):
        b = a.clone()
        b.mul_(a)  # what the product keeps is as it was before
        b[0] = b[1] * 3
        b[1:].add_(a[0])
        return b.sum()

    t, u = X.clone().requires_grad_(), X.clone().requires_grad_()
    vmap(f)(t).sum().backward()
    looped(f, u).sum().backward()
    assert torch.equal(t.grad, u.grad)


def test_a_written_sample_has_history_outside():
    t = X.clone().requires_grad_()
    whole = t * 1
    vmap(lambda a: a.mul_(2).sum())(whole)
    whole.sum().backward()
    assert torch.equal(t.grad, torch.full_like(X, 2))


# --- what needs values -------------------------------------------------------------------------

REFUSED = {
    "item": lambda a: a[0].item(),
    "bool": lambda a: bool(a[0] > 0),
    "if": lambda a: 1 if a.any() else 0,
    "int": lambda a: int(a[0]),
    "float": lambda a: float(a[0]),
    "complex": lambda a: complex(a[0]),
    "index": lambda a: [1, 2, 3][a[0].long()],
    "range": lambda a: range(a[0].long()),
    "format": lambda a: f"{a[0]:.2f}",
    "in": lambda a: 3 in a,
    "tolist": lambda a: a.tolist(),
    "numpy": lambda a: a.numpy(),
    "numpy force": lambda a: a.numpy(force=True),
    "asarray": lambda a: np.asarray(a),
    "dlpack": lambda a: a.__dlpack__(),
    "data_ptr": lambda a: a.data_ptr(),
    "storage": lambda a: a.untyped_storage(),
    "pickle": lambda a: pickle.dumps(a),
    "deepcopy": lambda a: copy.deepcopy(a),
    "tensor of parts": lambda a: torch.tensor([a[0], a[1]]),
    "alpha": lambda a: a.add(a, alpha=a[0]),
    "fill value": lambda a: torch.full((2,), a[0]),
    "equal": lambda a: a.equal(a * 1),
    "allclose": lambda a: a.allclose(a * 1),
    "is_nonzero": lambda a: a[0].is_nonzero(),
    "set data": lambda a: setattr(a, "data", grid(3)),
    "detach_": lambda a: a.detach_(),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_needs_one_value_raises(name):
    def f(a):
        REFUSED[name](a)
        return a

    with pytest.raises(RuntimeError, match=VALUES):
        vmap(f)(X)
    assert torch.equal(vmap(lambda a: a + 1)(X), X + 1)


def test_the_refusal_says_what_to_do_instead():
    with pytest.raises(RuntimeError, match=r"where\(condition, a, b\).*loop over the samples"):
        vmap(lambda a: a if a.sum() > 0 else -a)(X)


def test_a_buffer_of_a_sample_is_refused():
    with pytest.raises(BufferError, match="one sample of a vmap"):
        vmap(lambda a: memoryview(a))(X)


BY_VALUES = {
    "nonzero": lambda a: a.nonzero(),
    "argwhere": lambda a: torch.argwhere(a),
    "where": lambda a: torch.where(a > 0)[0],
    "unique": lambda a: a.unique(),
    "unique_consecutive": lambda a: a.unique_consecutive(),
    "masked_select": lambda a: a.masked_select(a > 0),
    "mask": lambda a: a[a > 0],
    "repeat_interleave": lambda a: a.repeat_interleave(a.long()),
    "bincount": lambda a: torch.bincount(a.long()),
    "one_hot": lambda a: F.one_hot(a.long()),
}


@pytest.mark.filterwarnings("ignore:vmap")
@pytest.mark.parametrize("name", BY_VALUES)
def test_shapes_that_depend_on_values(name):
    x = torch.tensor([[0.0, 1.0, 2.0], [1.0, 1.0, 5.0]])
    with pytest.raises(RuntimeError, match=r"shape that depends on the values.*where\(condition"):
        vmap(BY_VALUES[name])(x)
    even = x[:1].expand(2, 3)
    assert torch.equal(vmap(BY_VALUES[name])(even), looped(BY_VALUES[name], even))


FIXED = {
    "argsort": lambda a: a.argsort(descending=True),
    "argsort dim": lambda a: a[None].argsort(0),
    "isin": lambda a: torch.isin(a, a[:1]),
    "histc": lambda a: torch.histc(a, 4),
    "quantile": lambda a: a.quantile(0.3),
    "nanquantile": lambda a: a.nanquantile(torch.tensor([0.3, 0.5])),
    "searchsorted": lambda a: torch.searchsorted(a, a + 0.5),
    "bucketize": lambda a: torch.bucketize(a, a + 0.5),
    "one_hot": lambda a: F.one_hot(a.long(), 9),
}


@pytest.mark.filterwarnings("ignore:vmap")
@pytest.mark.parametrize("name", FIXED)
def test_shapes_that_do_not(name):
    agree(FIXED[name], grid(2, 3, dtype=torch.float32))


def test_a_sample_is_printed_with_all_of_them():
    seen = []
    vmap(lambda a: seen.append(repr(a)) or a, 1)(grid(2, 2))
    assert seen == ["BatchedTensor(bdim=1, value=\n    tensor([[0., 1.],\n            [2., 3.]], dtype=cograd.float64)\n)"]


# --- samples that outlive their vmap -----------------------------------------------------------

ESCAPED = {
    "add": lambda t: t + 1,
    "add to": lambda t: grid(3) + t,
    "sum": lambda t: t.sum(),
    "view": lambda t: t[0],
    "matmul": lambda t: t @ t,
    "clone": lambda t: t.clone(),
    "item": lambda t: t[0].item(),
    "write": lambda t: t.add_(1),
    "set": lambda t: t.__setitem__(0, 1.0),
    "written": lambda t: grid(3).copy_(t),
    "written part": lambda t: grid(3).__setitem__(0, t[0]),
    "stack": lambda t: torch.stack([t, t]),
    "factory": lambda t: torch.zeros_like(t),
    "random": lambda t: torch.rand_like(t),
    "out": lambda t: torch.add(grid(3), 1, out=t),
    "numpy": lambda t: t.numpy(),
    "tolist": lambda t: t.tolist(),
    "pickle": lambda t: pickle.dumps(t),
    "in another vmap": lambda t: vmap(lambda a: a + t)(X),
    "returned by another": lambda t: vmap(lambda a: t)(X),
    "mapped by another": lambda t: vmap(lambda a: a + 1)(t),
}


@pytest.mark.parametrize("name", ESCAPED)
def test_samples_used_after_their_vmap_raise(name):
    kept = []
    vmap(lambda a: kept.append(a * 2) or a)(X)
    with pytest.raises((RuntimeError, NotImplementedError), match="vmap"):
        ESCAPED[name](kept[0])
    assert kept[0].shape == (3,)
    kept.clear()
    assert torch.equal(X + 1, X.clone().add_(1))


def test_exceptions_leave_no_level_open():
    def fail(a):
        raise KeyError("mine")

    for f in (fail, lambda a: vmap(fail)(a), lambda a: a.item(), lambda a: a @ grid(5)):
        with pytest.raises((KeyError, RuntimeError)):
            vmap(f)(X)
        assert torch._C._vmap_depth() == 0
    with pytest.raises(KeyError):
        vmap(lambda a: a)(X)["x"[0:1]] if False else vmap(fail)(X)
    assert torch.rand(2).shape == (2,)  # would raise inside of a vmap


def test_a_caught_exception_inside_goes_on():
    def f(a):
        with pytest.raises(RuntimeError, match=VALUES):
            a.sum().item()
        with pytest.raises(ZeroDivisionError):
            vmap(lambda b: 1 / 0)(a)
        return a + 1

    assert torch.equal(vmap(f)(X), X + 1)


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


# --- autograd ----------------------------------------------------------------------------------


def test_gradients_through_vmap():
    t, w = X.clone().requires_grad_(), grid(3).requires_grad_()
    vmap(lambda a: (a * a * w).sum())(t).sum().backward()
    assert torch.equal(t.grad, 2 * X * grid(3))
    assert torch.equal(w.grad, (X * X).sum(0))


def test_backward_inside_of_vmap():
    def leaf(a):
        b = a.detach().clone().requires_grad_()
        (b**3).sum().backward()
        return b.grad

    assert torch.equal(vmap(leaf)(X), 3 * X * X)
    assert torch.equal(vmap(vmap(leaf))(X), 3 * X * X)

    def own(a):
        a.requires_grad_()
        return grad((a**3).sum(), a)[0]

    assert torch.equal(vmap(own)(X.clone()), 3 * X * X)


def test_gradients_of_gradients_inside():
    t = X.clone().requires_grad_()
    inner = vmap(lambda a: grad((a**3).sum(), a, create_graph=True)[0])(t)
    assert torch.equal(inner.detach(), 3 * X * X)
    assert torch.equal(grad(inner.sum(), t)[0], 6 * X)


def test_modes_inside_and_outside():
    t = X.clone().requires_grad_()
    assert vmap(lambda a: a * 2)(t).requires_grad
    with torch.no_grad():
        assert not vmap(lambda a: a * 2)(t).requires_grad
    with torch.inference_mode():
        assert vmap(lambda a: a * 2)(X).is_inference()

    def f(a):
        with torch.no_grad():
            b = a * 2
        return b * a + a.detach()

    assert torch.equal(grad(vmap(f)(t).sum(), t)[0], 2 * X)


def test_vmap_inside_of_hooks():
    t = X.clone().requires_grad_()
    t.register_hook(lambda g: vmap(lambda r: r * 2)(g))
    out = t * t
    out.grad_fn.register_hook(lambda gi, go: tuple(vmap(torch.neg)(g) for g in gi))
    out.sum().backward()
    assert torch.equal(t.grad, -4 * X)


def test_saved_tensor_hooks_and_retain_grad():
    t = X.clone().requires_grad_()
    kept = []

    def f(a):
        b = a * 2
        b.retain_grad()
        return (b.sin() * b).sum()

    with torch.autograd.graph.saved_tensors_hooks(lambda v: kept.append(v) or v, lambda v: v):
        out = vmap(f)(t)
    out.sum().backward()
    want = 2 * ((2 * X).cos() * 2 * X + (2 * X).sin())
    torch.testing.assert_close(t.grad, want)
    assert kept


def test_hooks_of_a_sample_are_refused():
    with pytest.raises(RuntimeError, match=r"register_hook\(\) is not possible.*outside of the vmap"):
        vmap(lambda a: a.register_hook(print))(X.clone().requires_grad_())


# --- Functions ---------------------------------------------------------------------------------


class Product(Function):
    seen = []  # noqa: RUF012

    @staticmethod
    def forward(a, b):
        return a * b

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, g):
        a, b = ctx.saved_tensors
        return g * b, g * a

    @staticmethod
    def vmap(info, in_dims, a, b):
        Product.seen.append((info.batch_size, info.randomness, in_dims))
        a = a if in_dims[0] is None else a.movedim(in_dims[0], -1)
        b = b if in_dims[1] is None else b.movedim(in_dims[1], -1)
        if in_dims[0] is None:
            a = a[..., None]
        if in_dims[1] is None:
            b = b[..., None]
        return Product.apply(a, b), -1


@pytest.mark.parametrize("dims", [(0, 0), (0, None), (None, 0), (1, 0)])
def test_the_vmap_rule_of_a_function(dims):
    Product.seen.clear()
    args = [X.movedim(0, d) if d is not None else X[0] for d in dims]
    got = vmap(Product.apply, dims, randomness="same")(*args)
    assert Product.seen == [(2, "same", dims)]
    assert torch.equal(got, looped(torch.mul, *args, dims=dims))


def test_the_rule_is_not_asked_where_nothing_has_samples():
    Product.seen.clear()
    assert torch.equal(vmap(lambda a: Product.apply(X[0], X[1]))(X)[0], X[0] * X[1])
    assert Product.seen == []


def test_derivatives_through_a_vmap_rule():
    t = X.clone().requires_grad_()
    (first,) = grad(vmap(lambda a: Product.apply(a, a).sum())(t).sum(), t, create_graph=True)
    assert torch.equal(first.detach(), 2 * X)
    assert torch.equal(grad(first.sum(), t)[0], torch.full_like(X, 2))

    def inside(a):
        b = a.detach().clone().requires_grad_()
        return grad(Product.apply(b, b).sum(), b)[0]

    assert torch.equal(vmap(inside)(X), 2 * X)
    rows = grad(Product.apply(t, t)[0], t, torch.eye(3, dtype=torch.float64), is_grads_batched=True)
    assert rows[0].shape == (3, 2, 3)


def ruled(vmap_rule, **members):
    """A Function with a vmap rule."""
    names = {
        "forward": staticmethod(lambda a: a * 2),
        "setup_context": staticmethod(lambda ctx, inputs, output: None),
        "backward": staticmethod(lambda ctx, g: g * 2),
        "vmap": staticmethod(vmap_rule),
    }
    return type("Ruled", (Function,), {**names, **members})


@pytest.mark.parametrize(
    "rule,text",
    [
        (lambda info, d, a: a, "must return .output, out_dims."),
        (lambda info, d, a: None, "must return .output, out_dims."),
        (lambda info, d, a: (a, 0, 0), "must return .output, out_dims."),
        (lambda info, d, a: [a, 0], "must return .output, out_dims."),
        (lambda info, d, a: ((a, a), (0,)), "2 outputs and 1 out_dims"),
        (lambda info, d, a: (a, "x"), "a dim of samples is an int, or None"),
        (lambda info, d, a: (a[:1], 0), "has 1 samples in dim 0, but the vmap runs over 2"),
    ],
)
def test_what_rules_must_return(rule, text):
    with pytest.raises(RuntimeError, match=text):
        vmap(ruled(rule).apply)(X)
    assert torch._C._vmap_depth() == 0


def test_rules_return_samples_anywhere_or_none():
    assert torch.equal(vmap(ruled(lambda i, d, a: ((a * 2).t(), 1)).apply)(X), X * 2)
    assert torch.equal(vmap(ruled(lambda i, d, a: ((a * 2).t(), -1)).apply)(X), X * 2)
    assert torch.equal(vmap(ruled(lambda i, d, a: (a[0], None)).apply)(X), X[0].expand(2, 3))
    both = vmap(lambda a: ruled(lambda i, d, a: ((a, 3), (0, None))).apply(a)[0])(X)
    assert torch.equal(both, X)
    with pytest.raises(IndexError, match="out of range"):
        vmap(ruled(lambda i, d, a: (a, 5)).apply)(X)


def test_a_rule_and_generate_vmap_rule_exclude_each_other():
    with pytest.raises(RuntimeError, match="both generate_vmap_rule=True and an overridden vmap"):
        vmap(ruled(lambda i, d, a: (a, 0), generate_vmap_rule=True).apply)(X)


def test_exceptions_of_a_rule_come_through():
    def rule(info, in_dims, a):
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        vmap(ruled(rule).apply)(X)
    assert torch._C._vmap_depth() == 0


def test_a_function_without_a_rule_warns_once():
    class Plain(Function):
        @staticmethod
        def forward(ctx, a):
            ctx.save_for_backward(a)
            return torch.from_numpy(a.detach().numpy() ** 2)

        @staticmethod
        def backward(ctx, g):
            return 2 * g * ctx.saved_tensors[0]

    t = X.clone().requires_grad_()
    with pytest.warns(UserWarning, match="Plain has no vmap rule and runs sample by sample"):
        out = vmap(Plain.apply)(t)
    assert torch.equal(out.detach(), X * X)
    assert torch.equal(grad(out.sum(), t)[0], 2 * X)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert torch.equal(vmap(vmap(lambda a: Plain.apply(a[None])[0]))(X), X * X)

        def inside(a):
            b = a.detach().clone().requires_grad_()
            return grad(Plain.apply(b).sum(), b)[0]

        assert torch.equal(vmap(inside)(X), 2 * X)
        rows = grad(Plain.apply(t[0]), t, torch.eye(3).double(), is_grads_batched=True)[0]
    assert torch.equal(rows[:, 0], torch.diag(2 * X[0]))


class Old(Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(ctx, a, n):
        ctx.save_for_backward(a)
        ctx.n = n
        return a**n

    @staticmethod
    def backward(ctx, g):
        (a,) = ctx.saved_tensors
        return ctx.n * a ** (ctx.n - 1) * g, None


class New(Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(a, n):
        return a**n

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(inputs[0])
        ctx.n = inputs[1]

    backward = Old.backward


@pytest.mark.parametrize("cls", [Old, New])
def test_both_styles_with_a_generated_rule(cls):
    t = X.clone().requires_grad_()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        out = vmap(lambda a: cls.apply(a, 3))(t)
        (first,) = grad(out.sum(), t, create_graph=True)
        (second,) = grad(first.sum(), t)
    assert torch.equal(out.detach(), X**3)
    assert torch.equal(first.detach(), 3 * X**2)
    assert torch.equal(second, 6 * X)


class Several(Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(a, b):
        values, order = a.sort()
        return values * 2, 7, b.sum(), None, order

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.mark_non_differentiable(output[4])
        ctx.save_for_backward(output[4])
        ctx.shape = inputs[1].shape
        ctx.needed = ctx.needs_input_grad

    @staticmethod
    def backward(ctx, g, *rest):
        (order,) = ctx.saved_tensors
        assert ctx.needed == (True, False)
        return torch.zeros_like(g).scatter(0, order, 2 * g), None


def test_several_outputs_and_outputs_that_are_no_tensors():
    w = grid(3)

    def f(a):
        values, seven, total, nothing, order = Several.apply(-a, w)
        assert seven == 7
        assert nothing is None
        assert not order.requires_grad
        return (values * w).sum() + total

    t, u = X.clone().requires_grad_(), X.clone().requires_grad_()
    got, want = vmap(f)(t), looped(f, u)
    assert torch.equal(got, want)
    assert torch.equal(grad(got.sum(), t)[0], grad(want.sum(), u)[0])


def test_outputs_that_differ_and_are_no_tensors_raise():
    class Sum(Function):
        generate_vmap_rule = True

        @staticmethod
        def forward(ctx, a):
            return a, a.sum().item()

    with pytest.raises(RuntimeError, match="float that differs from sample to sample"):
        vmap(Sum.apply)(X)


class Doubled(Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(ctx, a):
        ctx.mark_dirty(a)
        return a.mul_(2)

    @staticmethod
    def backward(ctx, g):
        return g * 2


def test_functions_that_write_their_input():
    def f(a):
        b = a.clone()
        c = Doubled.apply(b)
        return c + b

    t = X.clone().requires_grad_()
    out = vmap(f)(t)
    assert torch.equal(out.detach(), 4 * X)
    assert torch.equal(grad(out.sum(), t)[0], torch.full_like(X, 4))


@pytest.mark.parametrize(
    "forward,backward",
    [
        (lambda a: a, lambda ctx, g: g),
        (lambda a: a[1:], lambda ctx, g: torch.cat([g.new_zeros(1), g])),
    ],
)
def test_functions_that_return_their_input_or_a_view(forward, backward):
    members = {"forward": staticmethod(forward), "backward": staticmethod(backward)}
    cls = ruled(None, **members, generate_vmap_rule=True)
    del cls.vmap
    t = X.clone().requires_grad_()
    out = vmap(cls.apply)(t)
    assert torch.equal(out.detach(), torch.stack([forward(r) for r in X]))
    assert torch.equal(grad(out.sum(), t)[0][:, 1:], torch.ones(2, 2))


# --- registered ops ----------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:vmap")
def test_registered_ops():
    @torch.library.custom_op("vmap_tests::scaled", mutates_args=())
    def scaled(x: torch.Tensor, n: float) -> torch.Tensor:
        return torch.from_numpy(x.detach().numpy() * n)

    scaled.register_autograd(
        lambda ctx, g: (g * ctx.n, None),
        setup_context=lambda ctx, inputs, output: setattr(ctx, "n", inputs[1]),
    )
    t = X.clone().requires_grad_()
    out = vmap(lambda a: scaled(a, 3.0).sum())(t)
    assert torch.equal(out.detach(), 3 * X.sum(1))
    assert torch.equal(grad(out.sum(), t)[0], torch.full_like(X, 3))


# --- threads and leaks -------------------------------------------------------------------------


def test_threads_have_vmaps_of_their_own():
    found = {}

    def work(i):
        for _ in range(50):
            found[i] = vmap(lambda a: vmap(lambda b: b * i)(a).sum())(grid(4, 3))

    threads = [threading.Thread(target=work, args=(i,)) for i in (1, 2)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert all(torch.equal(found[i], grid(4, 3).sum(1) * i) for i in (1, 2))


def test_samples_of_another_threads_vmap_raise():
    errors = []

    def use(a):
        try:
            a + 1
        except RuntimeError as e:
            errors.append(str(e))

    def f(a):
        t = threading.Thread(target=use, args=(a,))
        t.start()
        t.join()
        return a

    vmap(f)(X)
    assert len(errors) == 1
    assert "another thread" in errors[0]


def test_calls_leave_nothing_behind():
    t = X.clone().requires_grad_()

    def f(a):
        return vmap(lambda b: (b * a).sin().sum())(X) + New.apply(a, 2).sum()

    def run(n):
        for _ in range(n):
            vmap(f)(t).sum().backward()
            with pytest.raises(RuntimeError):
                vmap(lambda a: a.item())(t)

    run(5)
    gc.collect()
    nodes, objects = torch._C._live_nodes(), len(gc.get_objects())
    run(300)
    gc.collect()
    assert torch._C._live_nodes() <= nodes
    assert len(gc.get_objects()) < objects + 200
    assert torch._C._vmap_depth() == 0
