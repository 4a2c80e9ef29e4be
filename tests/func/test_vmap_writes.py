# SPDX-License-Identifier: BSD-3-Clause
"""Indexing, assignment and in-place writes inside vmap."""

import pytest
from op_items import each_cell
from vmap_checks import X, agree, grid, looped

import cograd as torch
from cograd.func import vmap

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
    with pytest.raises(
        RuntimeError, match=r"inplace arithmetic \w+_\(\) is not possible.*new_zeros"
    ):
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
        b.mul_(a)  # what the product saved does not change
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


# --- the tensor that is mapped changes meanwhile ------------------------------------------------


def other_data(x):
    x.data = torch.zeros(1, dtype=torch.float64)


def data_of_its_kind(x):
    x.data = torch.zeros(2, 3, 3, 5)


def swapped(x):
    with torch.no_grad():
        x.transpose_(1, 2)


def squeezed(x):
    with torch.no_grad():
        x.unsqueeze_(0)


def reshaped(x):
    x.data = x.data.view(9, 2, 5)


CHANGES = (other_data, data_of_its_kind, swapped, squeezed, reshaped)
USES = {
    "itself": lambda v: v,
    "slice": lambda v: v[..., :4],
    "first": lambda v: v[:1],
    "expand": lambda v: v[None].expand(9, *v.shape),
    "transpose": lambda v: v.mT,
    "reshape": lambda v: v.reshape(-1),
    "unbind": lambda v: v.unbind(0)[0],
    "clone": lambda v: v.clone(),
    "product": lambda v: v * 2,
    "in place": lambda v: v.mul_(2),
    "sum": lambda v: v.sum(),
    "matrix product": lambda v: v @ v.mT,
    "detach": lambda v: v.detach(),
    "loop": lambda v: torch.stack([row * 2 for row in v]),
}


@each_cell("levels", [1, 2])
@each_cell("use", USES)
@each_cell("change", CHANGES, ids=lambda f: f.__name__)
def test_a_mapped_tensor_of_another_geometry_raises(change, use, levels):
    x = torch.rand(2, 3, 3, 5).requires_grad_()  # without this, vmap maps an alias
    changed = []

    def f(v):
        if not changed:
            changed.append(change(x))
        return USES[use](v)

    for _ in range(levels):
        f = vmap(f)
    with pytest.raises(RuntimeError, match="replaced while a vmap ran over it: a sample of shape"):
        f(x)


def test_a_handle_of_an_outer_vmap_keeps_its_geometry_for_the_inner_one():
    def outer(v):
        def inner(w):
            v.transpose_(0, 1)
            return w.sum()

        return vmap(inner)(v)

    with pytest.raises(RuntimeError, match="replaced while a vmap ran over it"):
        vmap(outer)(torch.rand(2, 3, 4, 5))


def test_a_mapped_tensor_may_change_after_the_vmap():
    x = torch.rand(2, 3).requires_grad_()
    y = vmap(lambda v: v * 2)(x)
    other_data(x)
    assert y.shape == (2, 3)
