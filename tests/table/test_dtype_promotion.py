# SPDX-License-Identifier: BSD-3-Clause
"""Result dtypes: the promotion lattice, weak scalars, 0-dim tensors, finfo/iinfo, defaults."""

import math

import numpy as np
import pytest
from op_items import each_cell

import cograd as torch

NAMES = "b1 u1 i1 i2 i4 i8 f2 bf f4 f8".split()
DT = {
    "b1": torch.bool,
    "u1": torch.uint8,
    "i1": torch.int8,
    "i2": torch.int16,
    "i4": torch.int32,
    "i8": torch.int64,
    "f2": torch.float16,
    "bf": torch.bfloat16,
    "f4": torch.float32,
    "f8": torch.float64,
}
INTS = ["u1", "i1", "i2", "i4", "i8"]
FLOATS = ["f2", "bf", "f4", "f8"]

# Row: left operand, column: right operand, both with at least one dim (in the order of NAMES).
PAIRS = [
    "b1 u1 i1 i2 i4 i8 f2 bf f4 f8",
    "u1 u1 i2 i2 i4 i8 f2 bf f4 f8",
    "i1 i2 i1 i2 i4 i8 f2 bf f4 f8",
    "i2 i2 i2 i2 i4 i8 f2 bf f4 f8",
    "i4 i4 i4 i4 i4 i8 f2 bf f4 f8",
    "i8 i8 i8 i8 i8 i8 f2 bf f4 f8",
    "f2 f2 f2 f2 f2 f2 f2 f4 f4 f8",
    "bf bf bf bf bf bf f4 bf f4 f8",
    "f4 f4 f4 f4 f4 f4 f4 f4 f4 f8",
    "f8 f8 f8 f8 f8 f8 f8 f8 f8 f8",
]
# Row: tensor with dims, column: 0-dim tensor. The category decides first, then the row.
ZERO_DIM = [
    "b1 u1 i1 i2 i4 i8 f2 bf f4 f8",
    "u1 u1 u1 u1 u1 u1 f2 bf f4 f8",
    "i1 i1 i1 i1 i1 i1 f2 bf f4 f8",
    "i2 i2 i2 i2 i2 i2 f2 bf f4 f8",
    "i4 i4 i4 i4 i4 i4 f2 bf f4 f8",
    "i8 i8 i8 i8 i8 i8 f2 bf f4 f8",
    "f2 f2 f2 f2 f2 f2 f2 f2 f2 f2",
    "bf bf bf bf bf bf bf bf bf bf",
    "f4 f4 f4 f4 f4 f4 f4 f4 f4 f4",
    "f8 f8 f8 f8 f8 f8 f8 f8 f8 f8",
]
SCALARS = {
    True: "b1 u1 i1 i2 i4 i8 f2 bf f4 f8",
    3: "i8 u1 i1 i2 i4 i8 f2 bf f4 f8",
    1.5: "f4 f4 f4 f4 f4 f4 f2 bf f4 f8",
}
TRUE_DIVISION = ["f4 f4 f4 f4 f4 f4 f2 bf f4 f8"] * 6 + PAIRS[6:]
CAN_CAST = ["1111111111"] + ["0111111111"] * 5 + ["0000001111"] * 4
CELLS = [(a, b) for a in NAMES for b in NAMES]


def cell(table, a, b):
    return DT[table[NAMES.index(a)].split()[NAMES.index(b)]]


def ones(name, *shape):
    return torch.ones(shape, dtype=DT[name])


@each_cell("a,b", CELLS)
def test_pair(a, b):
    want = cell(PAIRS, a, b)
    assert torch.promote_types(DT[a], DT[b]) is want
    assert torch.result_type(ones(a, 2), ones(b, 2)) is want
    assert (ones(a, 2) * ones(b, 2)).dtype is want
    assert (ones(a, 2) + ones(b, 3, 1)).dtype is want
    assert (ones(a) * ones(b)).dtype is want, "two 0-dim tensors promote as full tensors"


@each_cell("a,b", CELLS)
def test_zero_dim_operand(a, b):
    want = cell(ZERO_DIM, a, b)
    assert (ones(a, 2) * ones(b)).dtype is want
    assert (ones(b) * ones(a, 2)).dtype is want
    assert torch.result_type(ones(a, 2), ones(b)) is want
    assert torch.maximum(ones(a, 2), ones(b)).dtype is want
    assert torch.where(torch.tensor([True, False]), ones(a, 2), ones(b)).dtype is want


@each_cell("a,b", CELLS)
def test_true_division(a, b):
    assert (ones(a, 2) / ones(b, 2)).dtype is cell(TRUE_DIVISION, a, b)


@each_cell("scalar", list(SCALARS))
@each_cell("a", NAMES)
def test_python_scalar_is_weak(a, scalar):
    want = DT[SCALARS[scalar].split()[NAMES.index(a)]]
    for shape in [(2,), ()]:
        t = ones(a, *shape)
        assert torch.result_type(t, scalar) is want
        assert torch.result_type(scalar, t) is want
        assert (t * scalar).dtype is want
        assert (scalar * t).dtype is want
        assert torch.mul(t, scalar).dtype is want


@each_cell("scalar", [True, 3, 1.5])
@each_cell("a", NAMES)
def test_true_division_by_scalar(a, scalar):
    want = DT[a] if a in FLOATS else torch.float32
    assert (ones(a, 2) / scalar).dtype is want
    assert (scalar / ones(a, 2)).dtype is want


def test_result_type_of_two_scalars():
    assert torch.result_type(1, 1.0) is torch.float32
    assert torch.result_type(True, 2) is torch.int64
    assert torch.result_type(True, False) is torch.bool


def test_scalar_value_does_not_decide():
    assert (ones("u1", 2) * 300).dtype is torch.uint8
    assert (ones("u1", 1) * 300).item() == 300 % 256
    assert (ones("f2", 1) * 1e-3).dtype is torch.float16


@each_cell("a,b", CELLS)
def test_can_cast(a, b):
    assert torch.can_cast(DT[a], DT[b]) is (CAN_CAST[NAMES.index(a)][NAMES.index(b)] == "1")


@each_cell("a,b", CELLS)
def test_in_place_follows_can_cast(a, b):
    target, other = ones(a, 2), ones(b, 2)
    if torch.can_cast(cell(PAIRS, a, b), DT[a]):
        target *= other
        assert target.dtype is DT[a]
    else:
        with pytest.raises(RuntimeError, match="can't be cast to the desired output type"):
            target *= other
        assert target.tolist() == ones(a, 2).tolist()
        assert target._version == 0


@each_cell("a,b", CELLS)
def test_comparison_is_bool(a, b):
    for f in (torch.eq, torch.ne, torch.lt, torch.le, torch.gt, torch.ge):
        r = f(ones(a, 2), ones(b, 2))
        assert r.dtype is torch.bool
        assert r.tolist() == [f in (torch.eq, torch.le, torch.ge)] * 2


@each_cell("a,b", CELLS)
def test_conversion(a, b):
    src = torch.tensor([0, 1, 1], dtype=DT[a])
    r = src.to(DT[b])
    assert r.dtype is DT[b]
    assert r.tolist() == [0, 1, 1]
    if a == b:
        assert r is src
    assert src.type(DT[b]).dtype is DT[b]
    assert src.to(torch.empty(0, dtype=DT[b])).dtype is DT[b]


@each_cell("name", "sqrt exp log sin cos tanh sigmoid erf rsqrt expm1 log1p atan asinh".split())
@each_cell("a", NAMES)
def test_float_functions_promote_integers_to_default(name, a):
    want = DT[a] if a in FLOATS else torch.float32
    assert getattr(torch, name)(ones(a, 2)).dtype is want


@each_cell("name", "sum prod cumsum cumprod".split())
@each_cell("a", NAMES)
def test_sums_widen_integers(name, a):
    want = DT[a] if a in FLOATS else torch.int64
    f = getattr(torch, name)
    assert f(ones(a, 2), 0).dtype is want
    assert f(ones(a, 2), 0, dtype=torch.float64).dtype is torch.float64
    assert f(ones(a, 2), dim=0, dtype=torch.int16).dtype is torch.int16


def test_sum_of_small_ints_does_not_wrap():
    assert torch.full((300,), 1, dtype=torch.uint8).sum().item() == 300
    assert torch.full((300,), True).sum().item() == 300


@each_cell("a", NAMES)
def test_any_all_dtype(a):
    want = torch.uint8 if a == "u1" else torch.bool
    for f in (torch.any, torch.all):
        assert f(ones(a, 2)).dtype is want
        assert f(ones(a, 2, 2), dim=1).dtype is want


@each_cell("a", [n for n in NAMES if n not in FLOATS])
@each_cell("name", ["mean", "var", "std", "norm"])
def test_float_reductions_refuse_integers(name, a):
    with pytest.raises(RuntimeError):
        getattr(torch, name)(ones(a, 2))


def test_mean_of_integers_with_dtype():
    r = torch.mean(torch.tensor([1, 2]), dtype=torch.float64)
    assert r.dtype is torch.float64 and r.item() == 1.5


@each_cell("a", INTS + FLOATS)
def test_argmax_is_int64(a):
    assert torch.argmax(ones(a, 3)).dtype is torch.int64
    assert torch.argmin(ones(a, 3)).dtype is torch.int64
    assert ones(a, 3).max(0).indices.dtype is torch.int64


def test_square_and_pow_of_bool():
    assert (ones("b1", 2) ** 2).dtype is torch.int64
    assert torch.square(ones("b1", 2)).dtype is torch.int64


def test_cat_and_stack_promote():
    assert torch.cat([ones("i4", 2), ones("f2", 2)]).dtype is torch.float16
    assert torch.stack([ones("u1", 2), ones("i1", 2)]).dtype is torch.int16


def test_bool_arithmetic():
    t, f = torch.tensor([True, True]), torch.tensor([True, False])
    assert (t + f).tolist() == [True, True]
    assert (t * f).tolist() == [True, False]
    with pytest.raises(RuntimeError, match="[Ss]ubtraction.*bool"):
        t - f
    with pytest.raises(RuntimeError, match="[Nn]egation.*bool"):
        -t
    with pytest.raises(RuntimeError, match="[Ss]ubtraction.*bool"):
        1 - t
    assert (t + 1).tolist() == [2, 2]


@each_cell("name", FLOATS)
def test_finfo(name):
    f = torch.finfo(DT[name])
    bits, mantissa, emin, emax, resolution = {
        "f2": (16, 10, -14, 16, 1e-3),
        "bf": (16, 7, -126, 128, 1e-2),
        "f4": (32, 23, -126, 128, 1e-6),
        "f8": (64, 52, -1022, 1024, 1e-15),
    }[name]
    assert f.bits == bits
    assert f.eps == 2.0**-mantissa
    assert f.tiny == f.smallest_normal == 2.0**emin
    assert f.max == (2 - 2.0**-mantissa) * 2.0 ** (emax - 1)
    assert f.min == -f.max
    assert f.resolution == resolution
    assert f.dtype == str(DT[name]).split(".")[-1]
    assert repr(f).startswith("finfo(") and f"dtype={f.dtype}" in repr(f)


def test_finfo_without_argument_is_the_default_dtype():
    assert torch.finfo().eps == torch.finfo(torch.float32).eps


@each_cell("name", INTS)
def test_iinfo(name):
    i = torch.iinfo(DT[name])
    n = np.iinfo(np.dtype(name))
    assert (i.bits, i.min, i.max) == (n.bits, n.min, n.max)
    assert i.dtype == str(DT[name]).split(".")[-1]
    assert repr(i).startswith("iinfo(min=") and f"dtype={i.dtype}" in repr(i)


def test_finfo_iinfo_errors():
    with pytest.raises(TypeError, match="iinfo"):
        torch.finfo(torch.int32)
    with pytest.raises(TypeError, match="finfo"):
        torch.iinfo(torch.float32)
    with pytest.raises(TypeError):
        torch.iinfo()


def test_dtype_objects():
    for name in NAMES:
        d = DT[name]
        assert isinstance(d, torch.dtype)
        assert d.itemsize == torch.empty(1, dtype=d).element_size()
        assert d.is_floating_point is (name in FLOATS)
        assert d.is_signed is (name not in ("b1", "u1"))
        assert d.is_complex is False
        assert torch.empty(0, dtype=d).is_floating_point() is (name in FLOATS)
        assert torch.is_floating_point(torch.empty(0, dtype=d)) is (name in FLOATS)
        assert torch.empty(0, dtype=d).is_signed() is d.is_signed
        assert d == d and hash(d) == hash(d) and {d: 1}[d] == 1
    assert len(set(DT.values())) == 10
    assert torch.float32 != torch.float64 and torch.float32 != "float32"


def test_dtype_aliases():
    assert torch.float is torch.float32
    assert torch.double is torch.float64
    assert torch.half is torch.float16
    assert torch.long is torch.int64
    assert torch.int is torch.int32
    assert torch.short is torch.int16
    assert str(torch.float).endswith(".float32") and repr(torch.bool).endswith(".bool")


def test_conversion_methods():
    t = torch.tensor([1.75, -1.75])
    for method, dtype in [
        ("double", torch.float64),
        ("float", torch.float32),
        ("half", torch.float16),
        ("bfloat16", torch.bfloat16),
        ("long", torch.int64),
        ("int", torch.int32),
        ("short", torch.int16),
        ("char", torch.int8),
        ("bool", torch.bool),
    ]:
        r = getattr(t, method)()
        assert r.dtype is dtype
        if dtype is torch.bool:
            assert r.tolist() == [True, True]
        elif dtype.is_floating_point:
            assert r.tolist() == [1.75, -1.75]
        else:
            assert r.tolist() == [1, -1], "conversion truncates toward zero"
    assert t.float() is t
    assert torch.tensor([1.75]).byte().tolist() == [1]


def test_nan_and_inf_to_bool():
    assert torch.tensor([math.nan, math.inf, 0.0, -0.0]).bool().tolist() == [
        True,
        True,
        False,
        False,
    ]


def test_integer_narrowing_wraps():
    assert torch.tensor([256 + 7, -1, 128]).to(torch.uint8).tolist() == [7, 255, 128]
    assert torch.tensor([130]).to(torch.int8).tolist() == [-126]
    assert torch.tensor([2**40 + 5]).to(torch.int32).tolist() == [5]


def test_half_rounding():
    assert torch.tensor([2049.0]).half().item() == 2048.0
    assert torch.tensor([2051.0]).half().item() == 2052.0
    assert torch.tensor([65520.0]).half().item() == math.inf
    assert torch.tensor([65519.0]).half().item() == 65504.0
    assert torch.tensor([2.0**-25]).half().item() == 0.0
    assert torch.tensor([2.0**-24]).half().item() == 2.0**-24
    assert torch.tensor([2.0**-24 * 1.5], dtype=torch.float64).half().item() == 2.0**-23
    assert torch.tensor([257.0]).bfloat16().item() == 256.0
    assert torch.tensor([259.0]).bfloat16().item() == 260.0
    assert math.isnan(torch.tensor([math.nan]).bfloat16().item())
    assert math.isnan(torch.tensor([math.nan]).half().item())
    assert torch.tensor([3.4e38]).bfloat16().item() == math.inf


def test_all_half_values_round_trip():
    bits = np.arange(2**16, dtype=np.uint16)
    ref = bits.view(np.float16)
    t = torch.from_numpy(ref.copy())
    with np.errstate(invalid="ignore"):  # NumPy warns about signalling NaN on Arm
        wide = ref.astype(np.float32)
    np.testing.assert_array_equal(t.float().numpy(), wide)
    np.testing.assert_array_equal(t.float().half().numpy(), ref)
    np.testing.assert_array_equal(t.double().half().numpy(), ref)


def test_float_to_half_matches_numpy():
    rng = np.random.default_rng(0)
    x = (rng.standard_normal(4000) * 10.0 ** rng.uniform(-9, 5, 4000)).astype(np.float32)
    with np.errstate(over="ignore"):
        ref = x.astype(np.float16)
    np.testing.assert_array_equal(torch.from_numpy(x).half().numpy(), ref)


@pytest.fixture
def restore_default():
    old = torch.get_default_dtype()
    yield
    torch.set_default_dtype(old)


def test_default_dtype(restore_default):
    assert torch.get_default_dtype() is torch.float32
    torch.set_default_dtype(torch.float64)
    assert torch.get_default_dtype() is torch.float64
    assert torch.tensor(1.0).dtype is torch.float64
    assert torch.tensor([1.0, 2]).dtype is torch.float64
    assert torch.zeros(1).dtype is torch.float64
    assert torch.randn(1).dtype is torch.float64
    assert torch.arange(0.0, 1.0, 0.5).dtype is torch.float64
    assert torch.linspace(0, 1, 3).dtype is torch.float64
    assert (torch.tensor([1]) / 2).dtype is torch.float64
    assert torch.sqrt(torch.tensor([4])).dtype is torch.float64
    assert torch.Tensor([1]).dtype is torch.float64
    assert torch.tensor(1).dtype is torch.int64
    assert torch.full((1,), 2.0).dtype is torch.float64
    assert torch.tensor(np.float32(2)).dtype is torch.float32
    assert torch.finfo().bits == 64
    torch.set_default_dtype(torch.float16)
    assert torch.tensor(1.0).dtype is torch.float16
    assert (ones("f4", 1) * 1.5).dtype is torch.float32
    assert (ones("i8", 1) * 1.5).dtype is torch.float16


def test_default_dtype_must_be_floating(restore_default):
    with pytest.raises(TypeError, match="only floating-point types are supported"):
        torch.set_default_dtype(torch.int32)
    with pytest.raises(TypeError):
        torch.set_default_dtype("float32")
    assert torch.get_default_dtype() is torch.float32
