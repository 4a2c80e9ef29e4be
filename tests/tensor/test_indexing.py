# SPDX-License-Identifier: BSD-3-Clause
"""Reading and writing with every kind of index, against NumPy and by hand."""

import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from op_items import each_cell

import cograd as torch

SETTINGS = settings(max_examples=150, deadline=None)


def arange(*shape, dtype=torch.float64):
    return torch.arange(int(np.prod(shape)), dtype=dtype).reshape(shape)


def to_torch(index):
    """Returns the same index with every array converted to a tensor."""
    if isinstance(index, tuple):
        return tuple(to_torch(i) for i in index)
    return torch.tensor(index) if isinstance(index, np.ndarray) else index


def split(a, index):
    """Splits the index into a basic part and an advanced part for its result (None if absent).

    Integers select first, as in torch; NumPy would treat them as index arrays, which moves the
    gathered dims in `a[0, :, [1, 2]]`.
    """
    parts = list(index) if isinstance(index, tuple) else [index]
    basic, advanced, any_array = [], [], False
    for p in parts:
        if isinstance(p, bool):
            basic.append(None)
            advanced.append(np.array([p]))
        elif isinstance(p, np.ndarray) and p.ndim == 0:
            basic.append(int(p))
            continue
        elif isinstance(p, np.ndarray):
            basic += [slice(None)] * (p.ndim if p.dtype == bool else 1)
            advanced.append(p)
        else:
            basic.append(p)
            if not isinstance(p, (int, np.integer)):
                advanced.append(p if p is Ellipsis else slice(None))
            continue
        any_array = True
    return tuple(basic), tuple(advanced) if any_array else None


def np_get(a, index):
    basic, advanced = split(a, index)
    return a[basic] if advanced is None else a[basic][advanced]


def np_set(a, index, value):
    basic, advanced = split(a, index)
    if advanced is None:
        a[basic] = value
    else:
        a[basic][advanced] = value


def np_add(a, index, value):
    basic, advanced = split(a, index)
    if advanced is None:
        a[basic] += value
    else:
        np.add.at(a[basic], advanced, value)


def check_read(a, index):
    t = torch.tensor(a)
    want = np_get(a, index)
    got = t[to_torch(index)]
    assert tuple(got.shape) == want.shape
    assert got.dtype is t.dtype
    np.testing.assert_array_equal(got.numpy(), want)


def check_write(a, index, value):
    want = a.copy()
    np_set(want, index, value)
    t = torch.tensor(a)
    t[to_torch(index)] = torch.tensor(value) if isinstance(value, np.ndarray) else value
    np.testing.assert_array_equal(t.numpy(), want)
    assert t._version > 0 or np_get(a, index).size == 0


# ---------------------------------------------------------------- fixed cases

I2 = np.array([0, 1])
BASIC = [
    0,
    -1,
    (0, 1),
    (0, 1, 2),
    (-1, -2, -3),
    slice(None),
    slice(1, 3),
    slice(None, None, 2),
    slice(-2, None),
    slice(0, -1),
    slice(10, 20),
    slice(-20, 2),
    slice(2, 1),
    (slice(None), 1),
    (slice(None), slice(1, None, 2)),
    (slice(None), slice(None), -1),
    Ellipsis,
    (Ellipsis, 0),
    (0, Ellipsis),
    (0, Ellipsis, 0),
    (0, 1, 2, Ellipsis),
    None,
    (None, 0),
    (0, None),
    (None, Ellipsis, None),
    (slice(None), None, slice(1, 2)),
    (Ellipsis, None),
    (),
    (slice(1, 2), None, 0, Ellipsis, slice(None, None, 3)),
]
ADVANCED = [
    I2,
    np.array([-1, 0, 0, 1]),
    np.array([[0, 1], [1, 0]]),
    np.array(1),
    (I2, I2),
    (I2, I2, I2),
    (I2[:, None], I2),
    (np.array([[0], [1]]), np.array([[0, 1, 2]])),
    (slice(None), I2),
    (slice(None), I2, I2),
    (slice(None), slice(None), I2),
    (I2, slice(None), I2),
    (I2, slice(0, 2), np.array([3, 0])),
    (I2, Ellipsis),
    (Ellipsis, I2),
    (Ellipsis, I2, slice(1, 3)),
    (I2, None),
    (None, I2),
    (None, I2, None, I2),
    (I2, None, I2),
    (0, I2),
    (I2, 0),
    (I2, 1, slice(None)),
    (slice(None), 0, I2),
    (0, slice(None), I2),
    (I2, slice(None), 0),
    (slice(None), np.array([[1, 2], [0, 0]]), slice(None, None, 2)),
    np.array([True, False]),
    np.array([False, False]),
    (slice(None), np.array([True, False, True])),
    (Ellipsis, np.array([True, False, True, True])),
    (np.array([True, True]), 0),
    (np.array([True, True]), I2),
    (np.array([True, False]), slice(None), np.array([True, False, True, False])),
    (np.array([True, False]), None, slice(1, 3)),
    np.zeros((2, 3), bool),
    np.arange(6).reshape(2, 3) % 2 == 0,
    (np.arange(6).reshape(2, 3) % 2 == 0, 1),
    (slice(None), np.arange(12).reshape(3, 4) % 5 == 0),
    np.arange(24).reshape(2, 3, 4) % 7 == 0,
    np.array([], dtype=np.int64),
    (slice(None), np.array([], dtype=np.int64)),
    (np.zeros((0, 2), np.int64), slice(1)),
    True,
    False,
    (True, 0),
    (0, True),
    (False, Ellipsis),
]


@pytest.mark.parametrize("index", BASIC, ids=repr)
def test_basic_read_is_view(index):
    a = np.arange(24.0).reshape(2, 3, 4)
    check_read(a, index)
    t = torch.tensor(a)
    view = t[index]
    np.testing.assert_array_equal(view.numpy(), np_get(a, index))
    if view.numel():
        view.fill_(-5)
        want = a.copy()
        np_set(want, index, -5)
        np.testing.assert_array_equal(t.numpy(), want)
        assert view._version == t._version
    assert (
        view.stride() == tuple(s // 8 for s in np_get(a, index).strides)
        or view.numel() <= 1
        or 1 in view.shape
    )


@each_cell("index", ADVANCED, ids=repr)
def test_advanced_read_is_copy(index):
    a = np.arange(24.0).reshape(2, 3, 4)
    check_read(a, index)
    t = torch.tensor(a)
    got = t[to_torch(index)]
    basic, advanced = split(a, index)
    if advanced is not None:
        got.fill_(-5)
        np.testing.assert_array_equal(t.numpy(), a)


@each_cell("index", ADVANCED, ids=repr)
def test_advanced_read_of_strided_tensor(index):
    a = np.arange(24.0).reshape(4, 3, 2).T
    t = torch.tensor(a.T.copy()).permute(2, 1, 0)
    assert not t.is_contiguous()
    np.testing.assert_array_equal(t[to_torch(index)].numpy(), np_get(a, index))


@each_cell("index", BASIC + ADVANCED, ids=repr)
def test_write_scalar(index):
    check_write(np.arange(24.0).reshape(2, 3, 4), index, -7.0)


@each_cell("index", BASIC + ADVANCED, ids=repr)
def test_write_values(index):
    a = np.arange(24.0).reshape(2, 3, 4)
    shape = np_get(a, index).shape
    # Positions that occur twice get equal values, so the order of writing does not matter.
    seen = -1 - np_get(a, index)
    check_write(a, index, np.array(seen))
    if len(shape):
        check_write(a, index, np.full(shape[-1:], 3.5))
        check_write(a, index, np.full((1,) * len(shape), 2.5))
    check_write(a, index, np.array(1.5))


@each_cell("index", BASIC + ADVANCED, ids=repr)
def test_write_through_view(index):
    a = np.zeros((4, 3, 2)).T
    base = torch.zeros(4, 3, 2, dtype=torch.float64)
    base.permute(2, 1, 0)[to_torch(index)] = 1.0
    np_set(a, index, 1.0)
    np.testing.assert_array_equal(base.numpy(), a.T)


@each_cell("index", BASIC + ADVANCED, ids=repr)
def test_gradient_of_read(index):
    a = np.arange(24.0).reshape(2, 3, 4)
    t = torch.tensor(a, requires_grad=True)
    y = t[to_torch(index)]
    want = np.zeros_like(a)
    np_add(want, index, 1.0 + np_get(a, index))
    if y.numel():
        y.backward(1.0 + y.detach())
        np.testing.assert_array_equal(t.grad.numpy(), want)


@each_cell("index", [i for i in BASIC + ADVANCED if i is not False], ids=repr)
def test_gradient_of_write(index):
    a = np.arange(24.0).reshape(2, 3, 4)
    if np_get(a, index).size == 0:
        return
    t = torch.tensor(a, requires_grad=True)
    v = torch.tensor(2.0, dtype=torch.float64, requires_grad=True)
    y = t * 3
    y[to_torch(index)] = v
    y.sum().backward()
    keep = np.full_like(a, 3.0)
    np_set(keep, index, 0)
    np.testing.assert_array_equal(t.grad.numpy(), keep)
    assert v.grad.item() == np_get(a, index).size


# ---------------------------------------------------------------- index kinds


def test_lists_as_indices():
    t = arange(3, 4)
    assert t[[0, 2]].tolist() == [[0, 1, 2, 3], [8, 9, 10, 11]]
    assert t[[0, 1], [1, 2]].tolist() == [1, 6]
    assert t[:, [0, -1]].tolist() == [[0, 3], [4, 7], [8, 11]]
    assert t[[True, False, True]].shape == (2, 4)
    assert t[[]].shape == (0, 4)
    assert t[[[0, 1], [1, 2]],].shape == (2, 2, 4)
    t[[0, 1]] = 0.0
    assert t.sum().item() == 8 + 9 + 10 + 11


def test_numpy_indices():
    t = arange(3, 4)
    assert t[np.int64(1)].tolist() == [4, 5, 6, 7]
    assert t[np.array([0, 2])].shape == (2, 4)
    assert t[np.array([True, False, True])].shape == (2, 4)
    assert t[np.array([0, 1], dtype=np.int32), np.array([1, 1])].tolist() == [1, 5]
    t[np.array([0]), np.int64(1)] = -1.0
    assert t[0, 1].item() == -1


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32])
def test_integer_tensor_indices(dtype):
    t = arange(3, 4)
    assert t[torch.tensor([2, 0], dtype=dtype)].tolist() == [[8, 9, 10, 11], [0, 1, 2, 3]]
    assert t[torch.tensor(1, dtype=dtype)].tolist() == [4, 5, 6, 7]
    t[torch.tensor([0], dtype=dtype)] = 1.0
    assert t[0].tolist() == [1, 1, 1, 1]


def test_uint8_mask_is_deprecated_but_works():
    with pytest.warns(UserWarning, match="uint8"):
        r = torch.arange(3)[torch.tensor([1, 0, 1], dtype=torch.uint8)]
    assert r.tolist() == [0, 2]


def test_zero_dim_tensor_index_is_an_integer():
    t = arange(3, 4)
    assert t[torch.tensor(1), torch.tensor(2)].item() == 6
    assert t[torch.tensor(1) : torch.tensor(3)].shape == (2, 4)
    assert t[..., torch.tensor(-1)].tolist() == [3, 7, 11]


def test_bool_scalar_index():
    t = torch.ones(3)
    assert t[True].shape == (1, 3)
    assert t[False].shape == (0, 3)
    assert t[torch.tensor(True)].shape == (1, 3)
    assert torch.tensor(5)[torch.tensor(5) > 3].tolist() == [5]
    t[False] = 9
    assert t.tolist() == [1, 1, 1]
    t[True] = 9
    assert t.tolist() == [9, 9, 9]


def test_zero_dim_tensor():
    t = torch.tensor(4.0)
    assert t[()].item() == 4 and t[...].item() == 4
    assert t[None].tolist() == [4]
    t[()] = 5.0
    t[...] = t + 1
    assert t.item() == 6
    view = t[...]
    view.zero_()
    assert t.item() == 0


def test_masked_write_takes_values_in_order():
    t = torch.zeros(2, 3)
    mask = torch.tensor([[True, False, True], [False, True, False]])
    t[mask] = torch.tensor([1.0, 2.0, 3.0])
    assert t.tolist() == [[1, 0, 2], [0, 3, 0]]
    t[mask] += 10
    assert t.tolist() == [[11, 0, 12], [0, 13, 0]]
    t[t > 11] = 0
    assert t.tolist() == [[11, 0, 0], [0, 0, 0]]


def test_augmented_assignment():
    t = arange(3, 2)
    t[1] += 10
    t[:, 0] *= 2
    t[[0, 2], 1] -= 1
    assert t.tolist() == [[0, 0], [24, 13], [8, 4]]


def test_write_casts():
    t = torch.zeros(3, dtype=torch.int64)
    t[0] = 2.7
    t[1:2] = torch.tensor([1.2])
    t[torch.tensor([2])] = 3.9
    assert t.tolist() == [2, 1, 3]
    f = torch.zeros(2)
    f[0] = True
    f[1:] = torch.tensor([3], dtype=torch.int8)
    assert f.tolist() == [1, 3]
    f[0] = torch.tensor(5, dtype=torch.float64)
    assert f[0].item() == 5 and f.dtype is torch.float32


def test_write_accepts_leading_ones():
    t = torch.zeros(3)
    t[0] = torch.ones(1, 1)
    t[1:3] = torch.full((1, 1, 2), 2.0)
    assert t.tolist() == [1, 2, 2]


def test_overlapping_write_of_self():
    t = torch.arange(6)
    t[1:] = t[:-1].clone()
    assert t.tolist() == [0, 0, 1, 2, 3, 4]
    t = torch.arange(6)
    t[...] = t.flip(0)
    assert t.tolist() == [5, 4, 3, 2, 1, 0]


def test_write_to_expanded_tensor_is_refused():
    t = torch.zeros(1, 3).expand(2, 3)
    with pytest.raises(RuntimeError, match="more than one element of the written-to tensor"):
        t[:] = torch.arange(6.0).reshape(2, 3)


# ---------------------------------------------------------------- slices that run backwards

BACKWARDS = [
    np.s_[::-1],
    np.s_[:, ::-1],
    np.s_[..., ::-2],
    np.s_[::-1, 1, ::-1],
    np.s_[:, 5:0:-1],
    np.s_[:, -1:-100:-2],
    np.s_[:, 0:2:-1],
    np.s_[None, ::-1, None],
    np.s_[::-1, [0, 2]],
    np.s_[:, [2, 0], ::-3],
    np.s_[:: -sys.maxsize - 1],
]


@pytest.mark.parametrize("key", BACKWARDS, ids=str)
def test_negative_steps(key):
    array = np.arange(24.0).reshape(2, 3, 4)
    x = torch.tensor(array, requires_grad=True)
    expected = array[key]
    weight = np.arange(1.0, expected.size + 1).reshape(expected.shape)
    y = x[key]
    np.testing.assert_array_equal(y.detach().numpy(), expected)
    (y * torch.tensor(weight)).sum().backward()
    wanted = np.zeros((2, 3, 4))
    wanted[key] = weight
    np.testing.assert_array_equal(x.grad.numpy(), wanted)
    filled = torch.zeros(2, 3, 4, dtype=torch.float64)
    filled[key] = torch.tensor(weight)
    np.testing.assert_array_equal(filled.numpy(), wanted)
    filled[key], wanted[key] = 7, 7
    np.testing.assert_array_equal(filled.numpy(), wanted)


def test_assignments_through_negative_steps():
    x = torch.arange(4.0)
    x[::-1] = x
    assert x.tolist() == [3, 2, 1, 0]
    x[::-1] += torch.tensor([1.0, 0, 0, 0])
    assert x.tolist() == [3, 2, 1, 1]
    y = torch.zeros(2, 3)
    y[:, ::-1] = torch.arange(3.0)
    assert y.tolist() == [[2, 1, 0], [2, 1, 0]]
    value = torch.arange(3.0).requires_grad_()
    y[0, ::-1] = value
    (y * torch.tensor([1.0, 2, 3])).sum().backward()
    assert value.grad.tolist() == [3, 2, 1]
    with pytest.raises(RuntimeError, match="expand"):
        y[::-1] = torch.zeros(4)


# ---------------------------------------------------------------- errors


@pytest.mark.parametrize(
    "shape,index,error,match",
    [
        ((3,), 5, IndexError, "index 5 is out of bounds for dimension 0 with size 3"),
        ((3,), -4, IndexError, "index -4 is out of bounds for dimension 0 with size 3"),
        ((2, 3), (1, 3), IndexError, "index 3 is out of bounds for dimension 1 with size 3"),
        ((2, 3), (Ellipsis, 7), IndexError, "index 7 is out of bounds for dimension 1 with size 3"),
        ((2, 3), (None, 5), IndexError, "index 5 is out of bounds for dimension"),
        ((0,), 0, IndexError, "index 0 is out of bounds for dimension 0 with size 0"),
        ((2, 3), (0, 0, 0), IndexError, "too many indices for tensor of dimension 2"),
        ((2, 3), (slice(None),) * 3, IndexError, "too many indices for tensor of dimension 2"),
        ((), 0, IndexError, "0-dim tensor"),
        ((), slice(None, None, -1), IndexError, "0-dim tensor"),
        ((2,), (slice(None), slice(None, None, -1)), IndexError, "too many indices"),
        ((3,), slice(None, None, 0), ValueError, "slice step cannot be zero"),
        ((3,), 1.0, IndexError, "float"),
        ((3,), slice(1, 2.0), TypeError, "slice indices must be integers"),
        ((3,), "T[0, 5]", IndexError, "index 5 is out of bounds for dimension 0 with size 3"),
        ((3,), "T[-4]", IndexError, "index -4 is out of bounds for dimension 0 with size 3"),
        (
            (3, 2),
            "(slice(None), T[0, 2])",
            IndexError,
            r"index 2 is out of bounds for dimension \d with size 2",
        ),
        ((3,), [0, 7], IndexError, "index 7 is out of bounds for dimension 0 with size 3"),
        (
            (3,),
            "T[True, False]",
            IndexError,
            r"mask \[2\] at index 0 does not match .* \[3\] at index 0",
        ),
        ((3, 2), "T[[True], [False]]", IndexError, "mask"),
        ((3,), "T[1.0]", IndexError, "tensors used as indices must be"),
        (
            (3, 4),
            "(T[0, 1], T[0, 1, 2])",
            IndexError,
            r"could not be broadcast together with shapes \[2\], \[3\]",
        ),
        ((3,), "(T[0], T[0])", IndexError, "too many indices for tensor of dimension 1"),
    ],
    ids=repr,
)
def test_index_errors(shape, index, error, match):
    class T:
        def __class_getitem__(cls, item):
            return torch.tensor(list(item) if isinstance(item, tuple) else [item])

    if isinstance(index, str):
        index = eval(index, {"T": T, "slice": slice})
    t = torch.zeros(shape)
    with pytest.raises(error, match=match):
        t[index]
    with pytest.raises(error, match=match):
        t[index] = 1.0


@pytest.mark.beyond_torch
def test_failed_write_leaves_no_trace():
    for index in (torch.tensor([0, 5]), [0, 7], (torch.tensor([0, 1, 3]),)):
        t = torch.zeros(3)
        with pytest.raises(IndexError):
            t[index] = 1.0
        assert t.tolist() == [0, 0, 0] and t._version == 0


@pytest.mark.beyond_torch
def test_index_error_names_the_dimension():
    with pytest.raises(IndexError, match="index 2 is out of bounds for dimension 1 with size 2"):
        torch.zeros(3, 2)[:, torch.tensor([0, 2])]


def test_bad_index_types():
    t = torch.zeros(3)
    for index in (object(), {}, 1j):
        with pytest.raises((IndexError, TypeError)):
            t[index]


@pytest.mark.parametrize(
    "index,value_shape",
    [
        (0, (2,)),
        (slice(0, 2), (3,)),
        (slice(0, 2), (2, 1, 3)),
        ([0, 1], (3,)),
        ([True, False, True], (3,)),
    ],
)
def test_write_shape_mismatch(index, value_shape):
    t = torch.zeros(3)
    with pytest.raises(RuntimeError):
        t[index] = torch.ones(value_shape)
    assert t.tolist() == [0, 0, 0]


def test_index_put_shape_message():
    with pytest.raises(
        RuntimeError, match=r"\[3\] cannot be broadcast to indexing result of shape \[2\]"
    ):
        torch.zeros(3)[torch.tensor([0, 1])] = torch.ones(3)


def test_index_put_dtype_must_match():
    with pytest.raises(RuntimeError, match="source and destination dtypes match"):
        torch.zeros(3, dtype=torch.int64)[torch.tensor([0, 1])] = torch.tensor([2.5, 1.5])


@pytest.mark.parametrize("value", [None, "a", [1, 2], object()])
def test_write_needs_tensor_or_number(value):
    t = torch.zeros(3)
    with pytest.raises(TypeError):
        t[0:2] = value


def test_delete_is_refused():
    with pytest.raises(TypeError, match="delet"):
        del torch.zeros(3)[0]


def test_huge_python_int():
    with pytest.raises((IndexError, OverflowError, RuntimeError, TypeError, ValueError)):
        torch.zeros(3)[2**70]
    assert torch.zeros(3)[-(2**62) : 2**62].shape == (3,)


# ---------------------------------------------------------------- properties against NumPy

SHAPES = hnp.array_shapes(min_dims=1, max_dims=4, min_side=0, max_side=5)


@st.composite
def array_and_basic_index(draw):
    shape = draw(SHAPES)
    a = np.arange(1.0, 1 + np.prod(shape)).reshape(shape)
    parts = []
    for dim, n in enumerate(shape):
        kind = draw(st.sampled_from("islNE."))
        if kind == "N":
            parts.append(None)
            kind = draw(st.sampled_from("is"))
        if kind == "E":
            parts += [Ellipsis] + [slice(None)] * (len(shape) - 1 - dim)
            break
        elif kind == "i" and n:
            parts.append(draw(st.integers(-n, n - 1)))
        elif kind in "sl":
            bound = st.none() | st.integers(-n - 2, n + 2)
            step = st.none() | st.integers(1, 3)
            parts.append(slice(draw(bound), draw(bound), draw(step)))
        elif kind == ".":
            break
        else:
            parts.append(slice(None))
    return a, tuple(parts)


@st.composite
def array_and_advanced_index(draw):
    shape = draw(hnp.array_shapes(min_dims=1, max_dims=4, min_side=1, max_side=4))
    a = np.arange(1.0, 1 + np.prod(shape)).reshape(shape)
    common = draw(hnp.array_shapes(min_dims=0, max_dims=2, min_side=0, max_side=3))
    broadcast = st.sampled_from([common, common[1:] if common else common, (1,) * len(common)])
    parts, dim = [], 0
    while dim < len(shape):
        n = shape[dim]
        kind = draw(st.sampled_from("aaisN."))
        if kind == "a":
            s = draw(broadcast)
            values = draw(
                st.lists(st.integers(-n, n - 1), min_size=int(np.prod(s)), max_size=int(np.prod(s)))
            )
            parts.append(np.array(values, dtype=np.int64).reshape(s))
        elif kind == "i":
            parts.append(draw(st.integers(-n, n - 1)))
        elif kind == "s":
            parts.append(
                slice(
                    draw(st.none() | st.integers(-n, n)), None, draw(st.sampled_from([None, 1, 2]))
                )
            )
        elif kind == "N":
            parts.append(None)
            continue
        else:
            break
        dim += 1
    if draw(st.booleans()):
        parts.append(Ellipsis)
    return a, tuple(parts)


@SETTINGS
@given(array_and_basic_index())
def test_basic_read_property(case):
    a, index = case
    check_read(a, index)


@SETTINGS
@given(array_and_basic_index(), st.integers(0, 3))
def test_basic_write_property(case, keep):
    a, index = case
    shape = np_get(a, index).shape
    check_write(a, index, -1.0)
    check_write(a, index, -np.arange(1.0, 1 + np.prod(shape)).reshape(shape))
    part = shape[len(shape) - min(keep, len(shape)) :]
    check_write(a, index, -np.arange(1.0, 1 + np.prod(part)).reshape(part))


@SETTINGS
@given(array_and_advanced_index())
def test_advanced_read_property(case):
    a, index = case
    check_read(a, index)
    strided = torch.tensor(np.ascontiguousarray(a.T)).permute(*reversed(range(a.ndim)))
    np.testing.assert_array_equal(strided[to_torch(index)].numpy(), np_get(a, index))


@SETTINGS
@given(array_and_advanced_index())
def test_advanced_write_property(case):
    a, index = case
    check_write(a, index, -1.0)
    check_write(a, index, -np.array(np_get(a, index)))


@SETTINGS
@given(array_and_advanced_index())
def test_advanced_accumulate_property(case):
    a, index = case
    if not any(isinstance(i, np.ndarray) for i in index) or any(
        not isinstance(i, np.ndarray) for i in index
    ):
        return
    want = a.copy()
    np_add(want, index, 1.0)
    got = torch.tensor(a).index_put(
        to_torch(index), torch.tensor(1.0, dtype=torch.float64), accumulate=True
    )
    np.testing.assert_array_equal(got.numpy(), want)


@SETTINGS
@given(
    hnp.arrays(np.bool_, hnp.array_shapes(min_dims=1, max_dims=3, min_side=0, max_side=4)),
    st.integers(0, 2),
)
def test_mask_property(mask, extra):
    a = np.arange(1.0, 1 + mask.size * 2**extra).reshape(mask.shape + (2,) * extra)
    check_read(a, mask)
    check_write(a, mask, -1.0)
    check_write(a, mask, -np.array(a[mask]))
    assert torch.tensor(mask).nonzero().tolist() == np.argwhere(mask).tolist()


def test_index_put_forms():
    t = torch.zeros(4)
    i = torch.tensor([1, 1, 3])
    assert t.index_put_((i,), torch.tensor(1.0)) is t
    assert t.tolist() == [0, 1, 0, 1]
    t.index_put_((i,), torch.ones(3), accumulate=True)
    assert t.tolist() == [0, 3, 0, 2]
    assert torch.index_put(t, (i,), torch.tensor(9.0)).tolist() == [0, 9, 0, 9]
    assert t.tolist() == [0, 3, 0, 2]
