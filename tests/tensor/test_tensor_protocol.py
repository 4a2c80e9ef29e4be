# SPDX-License-Identifier: BSD-3-Clause
"""Tensors in Python's protocols: numbers, truth, length, iteration, hash, format, operators."""

import math
import operator

import numpy as np
import pytest
from op_items import each_cell

import cograd as torch

ALL = [
    torch.bool,
    torch.uint8,
    torch.int8,
    torch.int16,
    torch.int32,
    torch.int64,
    torch.float16,
    torch.bfloat16,
    torch.float32,
    torch.float64,
]


@pytest.mark.parametrize("dtype", ALL)
def test_item_and_tolist_types(dtype):
    kind = bool if dtype is torch.bool else float if dtype.is_floating_point else int
    t = torch.tensor([[1, 0]], dtype=dtype)
    assert type(t[0, 0].item()) is kind and t[0, 0].item() == 1
    rows = t.tolist()
    assert rows == [[1, 0]] and type(rows[0][0]) is kind
    assert type(t[0, 0].tolist()) is kind
    assert torch.ones(1, 1, 1, dtype=dtype).item() == 1


def test_tolist_shapes():
    assert torch.zeros(0).tolist() == []
    assert torch.zeros(2, 0).tolist() == [[], []]
    assert torch.zeros(0, 2).tolist() == []
    assert torch.arange(8).reshape(2, 2, 2).permute(2, 0, 1).tolist() == [
        [[0, 2], [4, 6]],
        [[1, 3], [5, 7]],
    ]
    assert torch.tensor(3.0, requires_grad=True).tolist() == 3.0


def test_item_of_requires_grad():
    assert torch.tensor(3.0, requires_grad=True).item() == 3.0


@pytest.mark.parametrize("n", [0, 2])
def test_item_needs_one_element(n):
    with pytest.raises(
        RuntimeError, match=f"a Tensor with {n} elements cannot be converted to Scalar"
    ):
        torch.ones(n).item()


def test_float_int_conversion():
    assert float(torch.tensor(2)) == 2.0 and type(float(torch.tensor(2))) is float
    assert int(torch.tensor(2.7)) == 2 and int(torch.tensor(-2.7)) == -2
    assert int(torch.tensor([[5]])) == 5
    assert int(torch.tensor(True)) == 1
    assert int(torch.tensor(2**62)) == 2**62
    for f in (float, int):
        with pytest.raises(
            ValueError, match="only one element tensors can be converted to Python scalars"
        ):
            f(torch.ones(2))
    with pytest.raises(ValueError, match="NaN"):
        int(torch.tensor(math.nan))
    with pytest.raises(OverflowError, match="infinity"):
        int(torch.tensor(math.inf))


def test_index_protocol():
    assert [1, 2, 3][torch.tensor(1)] == 2
    assert [1, 2, 3][torch.tensor([1])] == 2
    assert list(range(torch.tensor(3))) == [0, 1, 2]
    assert operator.index(torch.tensor(True)) == 1
    for bad in (torch.tensor(1.0), torch.tensor([1, 2])):
        with pytest.raises(
            TypeError, match="only integer tensors of a single element can be converted to an index"
        ):
            operator.index(bad)


def test_math_functions_take_tensors():
    assert math.sqrt(torch.tensor(4.0)) == 2.0
    assert math.floor(torch.tensor(2.5)) == 2


@pytest.mark.parametrize(
    "t,want",
    [
        (torch.tensor(True), True),
        (torch.tensor(0), False),
        (torch.tensor([2.5]), True),
        (torch.tensor([[0.0]]), False),
        (torch.tensor(math.nan), True),
        (torch.tensor(-0.0), False),
    ],
)
def test_bool(t, want):
    assert bool(t) is want
    assert (not t) is (not want)


def test_bool_is_ambiguous():
    with pytest.raises(
        RuntimeError, match="Boolean value of Tensor with more than one value is ambiguous"
    ):
        bool(torch.ones(2))
    with pytest.raises(RuntimeError, match="Boolean value of Tensor with no values is ambiguous"):
        bool(torch.ones(0))


def test_is_nonzero():
    assert torch.is_nonzero(torch.tensor([2])) and not torch.is_nonzero(torch.tensor(0.0))


def test_len():
    assert len(torch.zeros(3, 2)) == 3 and len(torch.zeros(0)) == 0
    with pytest.raises(TypeError, match="len.. of a 0-d tensor"):
        len(torch.ones(()))


def test_iteration():
    t = torch.arange(6).reshape(3, 2)
    rows = list(t)
    assert [r.tolist() for r in rows] == [[0, 1], [2, 3], [4, 5]]
    rows[0].fill_(9)
    assert t[0].tolist() == [9, 9], "iteration gives views"
    assert list(torch.zeros(0, 3)) == []
    a, b = torch.tensor([1.0, 2.0])
    assert (a.item(), b.item()) == (1, 2)
    with pytest.raises(TypeError, match="iteration over a 0-d tensor"):
        iter(torch.ones(()))
    assert [r.tolist() for r in reversed(torch.arange(3))] == [2, 1, 0]
    assert [i for i, _ in enumerate(torch.zeros(4))] == [0, 1, 2, 3]
    assert dict(zip("ab", torch.arange(2), strict=True))["b"].item() == 1


def test_iteration_is_differentiable():
    w = torch.ones(3, requires_grad=True)
    sum(x * i for i, x in enumerate(w)).backward()
    assert w.grad.tolist() == [0, 1, 2]


def test_hash_is_identity():
    a, b = torch.ones(2), torch.ones(2)
    assert len({a, b, a}) == 2
    assert {a: 1}[a] == 1 and hash(a) == hash(a)


def test_contains():
    t = torch.tensor([[1, 2], [3, 4]])
    assert 2 in t and 5 not in t and torch.tensor(3) in t and 2.0 in t
    for bad in ("a", None, [1]):
        with pytest.raises((RuntimeError, TypeError)):
            bad in t


def test_format():
    assert f"{torch.tensor(1.5):.3f}" == "1.500"
    assert f"{torch.tensor(3):>4d}" == "   3"
    assert f"{torch.tensor(0.25, requires_grad=True):.2f}" == "0.25"
    assert f"{torch.ones(2)}" == str(torch.ones(2)) == repr(torch.ones(2))
    assert "%.2f" % torch.tensor(1.5) == "1.50"  # noqa: UP031
    with pytest.raises(TypeError, match="__format__"):
        format(torch.ones(2), ".3f")


def test_abs_neg_pos_invert():
    t = torch.tensor([-1, 2])
    assert abs(t).tolist() == [1, 2]
    assert (-t).tolist() == [1, -2]
    assert (+t).tolist() == [-1, 2]
    assert (~t).tolist() == [0, -3]
    assert (~torch.tensor([True, False])).tolist() == [False, True]
    assert (~torch.tensor([1], dtype=torch.uint8)).tolist() == [254]
    with pytest.raises(TypeError):
        ~torch.tensor([1.0])


# ---------------------------------------------------------------- binary operators

ARITHMETIC = ["add", "sub", "mul", "truediv", "floordiv", "mod", "pow"]
BITWISE = ["and_", "or_", "xor", "lshift", "rshift"]


@each_cell("name", ARITHMETIC)
@each_cell("scalar", [3, 2.5, np.float64(2.5), np.int64(3)])
@each_cell("dtype", [torch.int64, torch.float64])
def test_arithmetic_with_scalars(name, scalar, dtype):
    f = getattr(operator, name)
    values = [1, 2, 7]
    t = torch.tensor(values, dtype=dtype)
    kind = float if dtype is torch.float64 else int
    plain = (
        scalar
        if type(scalar) in (int, float)
        else float(scalar)
        if isinstance(scalar, float)
        else int(scalar)
    )
    np.testing.assert_allclose(f(t, scalar).numpy(), [f(kind(v), plain) for v in values], rtol=1e-6)
    if not isinstance(scalar, np.generic):
        np.testing.assert_allclose(
            f(scalar, t).numpy(), [f(plain, kind(v)) for v in values], rtol=1e-6
        )


@pytest.mark.parametrize("name", BITWISE)
@pytest.mark.parametrize("dtype", [torch.int32, torch.uint8, torch.int64])
def test_bitwise_operators(name, dtype):
    f = getattr(operator, name)
    a, b = torch.tensor([12, 5, 0], dtype=dtype), torch.tensor([2, 3, 1], dtype=dtype)
    want = [f(x, y) for x, y in [(12, 2), (5, 3), (0, 1)]]
    assert f(a, b).tolist() == want and f(a, b).dtype is dtype
    assert f(a, 2).tolist() == [f(x, 2) for x in (12, 5, 0)]
    assert f(2, b).tolist() == [f(2, y) for y in (2, 3, 1)]
    in_place = a.clone()
    alias = in_place
    in_place = getattr(operator, "i" + name.strip("_"))(in_place, b)
    assert in_place is alias and alias.tolist() == want
    with pytest.raises((RuntimeError, TypeError)):
        f(torch.ones(1), torch.ones(1)) if "shift" not in name else f(torch.ones(1), "a")


def test_logic_on_bools():
    a, b = torch.tensor([True, True, False]), torch.tensor([True, False, False])
    assert (a & b).tolist() == [True, False, False]
    assert (a | b).tolist() == [True, True, False]
    assert (a ^ b).tolist() == [False, True, False]
    assert (a & True).tolist() == [True, True, False]
    assert (True ^ a).tolist() == [False, False, True]
    assert (a & b).dtype is torch.bool


@pytest.mark.parametrize("name", ["iadd", "isub", "imul", "itruediv", "ifloordiv", "imod", "ipow"])
def test_in_place_operators_keep_identity(name):
    t = torch.tensor([4.0, 9.0])
    alias, version, view = t, t._version, t[:1]
    t = getattr(operator, name)(t, 2)
    assert t is alias and t._version == version + 1
    plain = getattr(operator, name[1:])
    assert t.tolist() == [plain(4.0, 2), plain(9.0, 2)] and view.item() == plain(4.0, 2)


def test_in_place_result_dtype():
    t = torch.tensor([4, 9])
    with pytest.raises(RuntimeError, match="can't be cast"):
        t /= 2
    with pytest.raises(RuntimeError, match="can't be cast"):
        t += 1.5
    assert t.tolist() == [4, 9] and t._version == 0
    t += True
    assert t.tolist() == [5, 10]
    u = torch.tensor([1], dtype=torch.uint8)
    u += torch.tensor(1000)
    assert u.dtype is torch.uint8 and u.item() == (1001) % 256


def test_matmul_operator():
    a, b = torch.arange(6.0).reshape(2, 3), torch.arange(3.0)
    assert (a @ b).tolist() == [5, 14]
    with pytest.raises(TypeError):
        a @ 2
    with pytest.raises(TypeError):
        2 @ a


@pytest.mark.parametrize("name", ["lt", "le", "gt", "ge", "eq", "ne"])
def test_comparisons(name):
    f = getattr(operator, name)
    a, b = torch.tensor([1, 2, 3]), torch.tensor([2, 2, 2])
    want = [f(x, 2) for x in (1, 2, 3)]
    for other in (b, 2, 2.0, torch.tensor(2), np.int64(2)):
        r = f(a, other)
        assert r.tolist() == want and r.dtype is torch.bool
    assert f(2, a).tolist() == [f(2, x) for x in (1, 2, 3)]
    assert getattr(torch, name)(a, b).tolist() == getattr(a, name)(2).tolist() == want


def test_comparison_with_nan_and_out_of_range_scalars():
    t = torch.tensor([math.nan, 1.0])
    assert (t == t).tolist() == [False, True] and (t != t).tolist() == [True, False]
    assert (t < 2).tolist() == [False, True]
    assert (torch.tensor([5]) < 5.5).tolist() == [True]
    assert (torch.tensor([5]) == 5.5).tolist() == [False]
    assert (torch.tensor([2**53 + 1]) == torch.tensor([2**53])).tolist() == [False]


def test_comparison_with_foreign_objects():
    t = torch.ones(2)
    assert (t == None) is False  # noqa: E711
    assert (t != None) is True  # noqa: E711
    assert (t == "a") is False and (t != "a") is True
    assert (t == [1, 1]) is False
    assert (t == object()) is False
    for f in (operator.lt, operator.le, operator.gt, operator.ge):
        for other in (None, "a", [1]):
            with pytest.raises(TypeError, match="not supported between instances"):
                f(t, other)


@each_cell("name", ARITHMETIC + BITWISE)
@each_cell("other", [None, "a", [1, 1], object(), {}], ids=lambda v: type(v).__name__)
def test_operators_refuse_foreign_objects(name, other):
    f = getattr(operator, name)
    with pytest.raises(TypeError):
        f(torch.tensor([1, 2]), other)
    if not (isinstance(other, str) and name == "mod"):
        with pytest.raises(TypeError):
            f(other, torch.tensor([1, 2]))


def test_foreign_objects_may_take_over():
    class Other:
        def __radd__(self, left):
            return "radd"

        def __rmul__(self, left):
            return "rmul"

        def __eq__(self, right):
            return "eq"

        __hash__ = None

    t = torch.ones(2)
    assert t + Other() == "radd" and t * Other() == "rmul"
    assert (t == Other()) == "eq"


def test_numpy_scalar_on_the_left_gives_a_tensor():
    t = torch.ones(2)
    for r in (np.float64(2) * t, np.int64(2) * t, np.float32(2) + t):
        assert isinstance(r, torch.Tensor) and r.dtype is torch.float32


def test_operator_broadcast_error_names_sizes():
    for f in (operator.add, operator.mul, operator.lt):
        with pytest.raises(
            RuntimeError,
            match=r"tensor a \(3\) must match .*tensor b \(2\) at non-singleton dimension 1",
        ):
            f(torch.ones(2, 3), torch.ones(2))


def test_function_argument_errors():
    with pytest.raises(TypeError):
        torch.add(torch.ones(2))
    with pytest.raises(TypeError, match="bogus"):
        torch.add(torch.ones(2), torch.ones(2), bogus=1)
    with pytest.raises(TypeError):
        torch.exp([1.0])
    with pytest.raises(TypeError):
        torch.exp()
    with pytest.raises(TypeError):
        torch.exp(torch.ones(1), torch.ones(1))
    with pytest.raises(TypeError):
        torch.ones(2).sum(dim="a")
    with pytest.raises(AttributeError):
        torch.ones(2).no_such_method


def test_keyword_forms():
    a, b = torch.ones(2), torch.full((2,), 3.0)
    assert torch.add(input=a, other=b, alpha=2).tolist() == [7, 7]
    assert a.add(other=b).tolist() == [4, 4]
    assert torch.sum(input=b, dim=0, keepdim=True).tolist() == [6]
    assert torch.clamp(input=b, min=0, max=2).tolist() == [2, 2]


def test_apply_and_map_like_helpers():
    assert torch.arange(3).apply_(lambda v: v * 2).tolist() == [0, 2, 4]


def test_tensor_truth_in_python_builtins():
    assert max(torch.tensor([1, 3, 2])).item() == 3
    assert sum(torch.tensor([1, 3, 2])).item() == 6
    assert sorted(torch.tensor([3, 1, 2]), key=float)[0].item() == 1
    assert any(torch.tensor([False, True]))
