# SPDX-License-Identifier: BSD-3-Clause
"""repr of tensors compared with strings recorded from torch 2.13."""

import math

import pytest
from op_items import each_cell

import cograd as torch

nan, inf = math.nan, math.inf
# The repr of a dtype has the package's name; the recorded strings have torch's.
PACKAGE = str(torch.float32).split(".")[0]

RECORDED = [
    (
        "torch.tensor(1.5)",
        "tensor(1.5000)",
    ),
    (
        "torch.tensor(3)",
        "tensor(3)",
    ),
    (
        "torch.tensor(True)",
        "tensor(True)",
    ),
    (
        "torch.tensor(2.0, dtype=torch.float64)",
        "tensor(2., dtype=torch.float64)",
    ),
    (
        "torch.tensor(-0.0)",
        "tensor(-0.)",
    ),
    (
        "torch.tensor([1.0, 2.0, 3.0])",
        "tensor([1., 2., 3.])",
    ),
    (
        "torch.tensor([1.0, 2.5, -3.0])",
        "tensor([ 1.0000,  2.5000, -3.0000])",
    ),
    (
        "torch.tensor([1, -20, 300])",
        "tensor([  1, -20, 300])",
    ),
    (
        "torch.tensor([True, False])",
        "tensor([ True, False])",
    ),
    (
        "torch.tensor([0.00001, 1.0])",
        "tensor([1.0000e-05, 1.0000e+00])",
    ),
    (
        "torch.tensor([1e9, 1.0])",
        "tensor([1.0000e+09, 1.0000e+00])",
    ),
    (
        "torch.tensor([1e-5, 2e-5])",
        "tensor([1.0000e-05, 2.0000e-05])",
    ),
    (
        "torch.tensor([123456.0, 1.5])",
        "tensor([1.2346e+05, 1.5000e+00])",
    ),
    (
        "torch.tensor([1e9, 2e9])",
        "tensor([1.0000e+09, 2.0000e+09])",
    ),
    (
        "torch.tensor([nan, inf, -inf])",
        "tensor([nan, inf, -inf])",
    ),
    (
        "torch.tensor([nan, 1.0, inf])",
        "tensor([nan, 1., inf])",
    ),
    (
        "torch.tensor([nan, 1.5, -inf, 0.0])",
        "tensor([   nan, 1.5000,   -inf, 0.0000])",
    ),
    (
        "torch.tensor([[nan, 1e10], [0.0, 3.0]])",
        ("tensor([[       nan, 1.0000e+10],\n        [0.0000e+00, 3.0000e+00]])"),
    ),
    (
        "torch.tensor([0.0, 0.0])",
        "tensor([0., 0.])",
    ),
    (
        "torch.zeros(2, 3)",
        ("tensor([[0., 0., 0.],\n        [0., 0., 0.]])"),
    ),
    (
        "torch.arange(12.0).reshape(3, 4)",
        (
            "tensor([[ 0.,  1.,  2.,  3.],\n"
            "        [ 4.,  5.,  6.,  7.],\n"
            "        [ 8.,  9., 10., 11.]])"
        ),
    ),
    (
        "torch.arange(24).reshape(2, 3, 4)",
        (
            "tensor([[[ 0,  1,  2,  3],\n"
            "         [ 4,  5,  6,  7],\n"
            "         [ 8,  9, 10, 11]],\n"
            "\n"
            "        [[12, 13, 14, 15],\n"
            "         [16, 17, 18, 19],\n"
            "         [20, 21, 22, 23]]])"
        ),
    ),
    (
        "torch.arange(16.0).reshape(2, 2, 2, 2) / 7",
        (
            "tensor([[[[0.0000, 0.1429],\n"
            "          [0.2857, 0.4286]],\n"
            "\n"
            "         [[0.5714, 0.7143],\n"
            "          [0.8571, 1.0000]]],\n"
            "\n"
            "\n"
            "        [[[1.1429, 1.2857],\n"
            "          [1.4286, 1.5714]],\n"
            "\n"
            "         [[1.7143, 1.8571],\n"
            "          [2.0000, 2.1429]]]])"
        ),
    ),
    (
        "torch.arange(40.0)",
        (
            "tensor([ 0.,  1.,  2.,  3.,  4.,  5.,  6.,  7.,  8.,  9., 10., 11., 12., 13.,\n"
            "        14., 15., 16., 17., 18., 19., 20., 21., 22., 23., 24., 25., 26., 27.,\n"
            "        28., 29., 30., 31., 32., 33., 34., 35., 36., 37., 38., 39.])"
        ),
    ),
    (
        "torch.arange(40.0) / 3",
        (
            "tensor([ 0.0000,  0.3333,  0.6667,  1.0000,  1.3333,  1.6667,  2.0000,  2.3333,\n"
            "         2.6667,  3.0000,  3.3333,  3.6667,  4.0000,  4.3333,  4.6667,  5.0000,\n"
            "         5.3333,  5.6667,  6.0000,  6.3333,  6.6667,  7.0000,  7.3333,  7.6667,\n"
            "         8.0000,  8.3333,  8.6667,  9.0000,  9.3333,  9.6667, 10.0000, 10.3333,\n"
            "        10.6667, 11.0000, 11.3333, 11.6667, 12.0000, 12.3333, 12.6667, 13.0000])"
        ),
    ),
    (
        "torch.arange(1001)",
        "tensor([   0,    1,    2,  ...,  998,  999, 1000])",
    ),
    (
        "torch.arange(1001.0) / 8",
        "tensor([  0.0000,   0.1250,   0.2500,  ..., 124.7500, 124.8750, 125.0000])",
    ),
    (
        "torch.arange(10000.0).reshape(100, 100)",
        (
            "tensor([[0.0000e+00, 1.0000e+00, 2.0000e+00,  ..., 9.7000e+01, 9.8000e+01,\n"
            "         9.9000e+01],\n"
            "        [1.0000e+02, 1.0100e+02, 1.0200e+02,  ..., 1.9700e+02, 1.9800e+02,\n"
            "         1.9900e+02],\n"
            "        [2.0000e+02, 2.0100e+02, 2.0200e+02,  ..., 2.9700e+02, 2.9800e+02,\n"
            "         2.9900e+02],\n"
            "        ...,\n"
            "        [9.7000e+03, 9.7010e+03, 9.7020e+03,  ..., 9.7970e+03, 9.7980e+03,\n"
            "         9.7990e+03],\n"
            "        [9.8000e+03, 9.8010e+03, 9.8020e+03,  ..., 9.8970e+03, 9.8980e+03,\n"
            "         9.8990e+03],\n"
            "        [9.9000e+03, 9.9010e+03, 9.9020e+03,  ..., 9.9970e+03, 9.9980e+03,\n"
            "         9.9990e+03]])"
        ),
    ),
    (
        "torch.arange(8000).reshape(20, 20, 20)",
        (
            "tensor([[[   0,    1,    2,  ...,   17,   18,   19],\n"
            "         [  20,   21,   22,  ...,   37,   38,   39],\n"
            "         [  40,   41,   42,  ...,   57,   58,   59],\n"
            "         ...,\n"
            "         [ 340,  341,  342,  ...,  357,  358,  359],\n"
            "         [ 360,  361,  362,  ...,  377,  378,  379],\n"
            "         [ 380,  381,  382,  ...,  397,  398,  399]],\n"
            "\n"
            "        [[ 400,  401,  402,  ...,  417,  418,  419],\n"
            "         [ 420,  421,  422,  ...,  437,  438,  439],\n"
            "         [ 440,  441,  442,  ...,  457,  458,  459],\n"
            "         ...,\n"
            "         [ 740,  741,  742,  ...,  757,  758,  759],\n"
            "         [ 760,  761,  762,  ...,  777,  778,  779],\n"
            "         [ 780,  781,  782,  ...,  797,  798,  799]],\n"
            "\n"
            "        [[ 800,  801,  802,  ...,  817,  818,  819],\n"
            "         [ 820,  821,  822,  ...,  837,  838,  839],\n"
            "         [ 840,  841,  842,  ...,  857,  858,  859],\n"
            "         ...,\n"
            "         [1140, 1141, 1142,  ..., 1157, 1158, 1159],\n"
            "         [1160, 1161, 1162,  ..., 1177, 1178, 1179],\n"
            "         [1180, 1181, 1182,  ..., 1197, 1198, 1199]],\n"
            "\n"
            "        ...,\n"
            "\n"
            "        [[6800, 6801, 6802,  ..., 6817, 6818, 6819],\n"
            "         [6820, 6821, 6822,  ..., 6837, 6838, 6839],\n"
            "         [6840, 6841, 6842,  ..., 6857, 6858, 6859],\n"
            "         ...,\n"
            "         [7140, 7141, 7142,  ..., 7157, 7158, 7159],\n"
            "         [7160, 7161, 7162,  ..., 7177, 7178, 7179],\n"
            "         [7180, 7181, 7182,  ..., 7197, 7198, 7199]],\n"
            "\n"
            "        [[7200, 7201, 7202,  ..., 7217, 7218, 7219],\n"
            "         [7220, 7221, 7222,  ..., 7237, 7238, 7239],\n"
            "         [7240, 7241, 7242,  ..., 7257, 7258, 7259],\n"
            "         ...,\n"
            "         [7540, 7541, 7542,  ..., 7557, 7558, 7559],\n"
            "         [7560, 7561, 7562,  ..., 7577, 7578, 7579],\n"
            "         [7580, 7581, 7582,  ..., 7597, 7598, 7599]],\n"
            "\n"
            "        [[7600, 7601, 7602,  ..., 7617, 7618, 7619],\n"
            "         [7620, 7621, 7622,  ..., 7637, 7638, 7639],\n"
            "         [7640, 7641, 7642,  ..., 7657, 7658, 7659],\n"
            "         ...,\n"
            "         [7940, 7941, 7942,  ..., 7957, 7958, 7959],\n"
            "         [7960, 7961, 7962,  ..., 7977, 7978, 7979],\n"
            "         [7980, 7981, 7982,  ..., 7997, 7998, 7999]]])"
        ),
    ),
    (
        "torch.arange(2000.0).reshape(2, 1000)",
        (
            "tensor([[0.0000e+00, 1.0000e+00, 2.0000e+00,  ..., 9.9700e+02, 9.9800e+02,\n"
            "         9.9900e+02],\n"
            "        [1.0000e+03, 1.0010e+03, 1.0020e+03,  ..., 1.9970e+03, 1.9980e+03,\n"
            "         1.9990e+03]])"
        ),
    ),
    (
        "torch.empty(0)",
        "tensor([])",
    ),
    (
        "torch.empty(0, 3)",
        "tensor([], size=(0, 3))",
    ),
    (
        "torch.empty(2, 0, dtype=torch.float64)",
        "tensor([], size=(2, 0), dtype=torch.float64)",
    ),
    (
        "torch.tensor([], dtype=torch.int64)",
        "tensor([], dtype=torch.int64)",
    ),
    (
        "torch.tensor([], dtype=torch.bool)",
        "tensor([], dtype=torch.bool)",
    ),
    (
        "torch.tensor([1.5, 2.5], dtype=torch.float16)",
        "tensor([1.5000, 2.5000], dtype=torch.float16)",
    ),
    (
        "torch.tensor([1.5, 2.0], dtype=torch.bfloat16)",
        "tensor([1.5000, 2.0000], dtype=torch.bfloat16)",
    ),
    (
        "torch.tensor([1, 2], dtype=torch.uint8)",
        "tensor([1, 2], dtype=torch.uint8)",
    ),
    (
        "torch.tensor([[1, 2]], dtype=torch.int32)",
        "tensor([[1, 2]], dtype=torch.int32)",
    ),
    (
        "torch.tensor([1.0], dtype=torch.float64)",
        "tensor([1.], dtype=torch.float64)",
    ),
    (
        "torch.tensor([1, -2], dtype=torch.int8)",
        "tensor([ 1, -2], dtype=torch.int8)",
    ),
    (
        "torch.tensor(7, dtype=torch.int16)",
        "tensor(7, dtype=torch.int16)",
    ),
    (
        "torch.ones(2, requires_grad=True)",
        "tensor([1., 1.], requires_grad=True)",
    ),
    (
        "torch.ones(2, requires_grad=True) + 1",
        "tensor([2., 2.], grad_fn=<AddBackward0>)",
    ),
    (
        "torch.ones(2, requires_grad=True).exp().sum()",
        "tensor(5.4366, grad_fn=<SumBackward0>)",
    ),
    (
        "torch.ones(2, 2, requires_grad=True).mm(torch.ones(2, 2))",
        ("tensor([[2., 2.],\n        [2., 2.]], grad_fn=<MmBackward0>)"),
    ),
    (
        "torch.ones(2, dtype=torch.float64, requires_grad=True) * 2",
        "tensor([2., 2.], dtype=torch.float64, grad_fn=<MulBackward0>)",
    ),
    (
        "torch.arange(12.0, dtype=torch.float64).reshape(2, 6) * 1000.5",
        (
            "tensor([[    0.0000,  1000.5000,  2001.0000,  3001.5000,  4002.0000,  5002.5000],\n"
            "        [ 6003.0000,  7003.5000,  8004.0000,  9004.5000, 10005.0000, 11005.5000]],\n"
            "       dtype=torch.float64)"
        ),
    ),
    (
        "(torch.arange(6.0) / 4).reshape(2, 3).t()",
        ("tensor([[0.0000, 0.7500],\n        [0.2500, 1.0000],\n        [0.5000, 1.2500]])"),
    ),
    (
        "torch.tensor([0.1, 0.22, 0.333, 0.4444, 0.55555])",
        "tensor([0.1000, 0.2200, 0.3330, 0.4444, 0.5555])",
    ),
    (
        "torch.tensor([1e-4, 0.1])",
        "tensor([1.0000e-04, 1.0000e-01])",
    ),
    (
        "torch.tensor([9.9e-5, 0.09])",
        "tensor([9.9000e-05, 9.0000e-02])",
    ),
    (
        "torch.tensor([1000.5, 1.0])",
        "tensor([1.0005e+03, 1.0000e+00])",
    ),
    (
        "torch.tensor([1000.5, 0.9])",
        "tensor([1.0005e+03, 9.0000e-01])",
    ),
]

WITH_OPTIONS = [
    (
        "precision=2",
        "torch.tensor([1.23456, 2.0])",
        "tensor([1.23, 2.00])",
    ),
    (
        "precision=8",
        "torch.tensor([0.1, 2.0], dtype=torch.float64)",
        "tensor([0.10000000, 2.00000000], dtype=torch.float64)",
    ),
    (
        "sci_mode=True",
        "torch.tensor([1.5, 2.0])",
        "tensor([1.5000e+00, 2.0000e+00])",
    ),
    (
        "sci_mode=False",
        "torch.tensor([1e-6, 1e6])",
        "tensor([      0.0000, 1000000.0000])",
    ),
    (
        "sci_mode=True",
        "torch.tensor([1.0, 2.0])",
        "tensor([1.0000e+00, 2.0000e+00])",
    ),
    (
        "threshold=5",
        "torch.arange(10)",
        "tensor([0, 1, 2,  ..., 7, 8, 9])",
    ),
    (
        "threshold=5, edgeitems=1",
        "torch.arange(30.0).reshape(5, 6)",
        ("tensor([[ 0.,  ...,  5.],\n        ...,\n        [24.,  ..., 29.]])"),
    ),
    (
        "threshold=3, edgeitems=0",
        "torch.arange(6)",
        "tensor([...], size=(6,))",
    ),
    (
        "linewidth=30",
        "torch.arange(20)",
        (
            "tensor([ 0,  1,  2,  3,  4,\n"
            "         5,  6,  7,  8,  9,\n"
            "        10, 11, 12, 13, 14,\n"
            "        15, 16, 17, 18, 19])"
        ),
    ),
    (
        "linewidth=30",
        "torch.ones(4, dtype=torch.float64, requires_grad=True)",
        ("tensor([1., 1., 1., 1.],\n       dtype=torch.float64,\n       requires_grad=True)"),
    ),
    (
        'profile="short"',
        "torch.arange(1100.0) / 3",
        "tensor([0.00e+00, 3.33e-01,  ..., 3.66e+02, 3.66e+02])",
    ),
]


@pytest.fixture(autouse=True)
def default_options():
    torch.set_printoptions(profile="default")
    yield
    torch.set_printoptions(profile="default")


def plain(text):
    return text.replace(f"dtype={PACKAGE}.", "dtype=torch.")


@each_cell("code, expected", RECORDED, ids=[case[0] for case in RECORDED])
def test_repr(code, expected):
    tensor = eval(code)
    assert plain(repr(tensor)) == expected
    assert plain(str(tensor)) == expected


@pytest.mark.parametrize(
    "options, code, expected", WITH_OPTIONS, ids=[f"{case[0]}|{case[1]}" for case in WITH_OPTIONS]
)
def test_options(options, code, expected):
    eval(f"torch.set_printoptions({options})")
    assert plain(repr(eval(code))) == expected


def test_full_profile_does_not_summarize():
    torch.set_printoptions(profile="full")
    assert "..." not in repr(torch.arange(5000))


def test_options_are_undone_by_a_profile():
    tensor = torch.tensor([1.23456])
    torch.set_printoptions(precision=2)
    assert repr(tensor) == "tensor([1.23])"
    torch.set_printoptions(profile="default")
    assert repr(tensor) == "tensor([1.2346])"


def test_parameter():
    param = torch.nn.Parameter(torch.tensor([1.0, 2.5]))
    assert repr(param) == ("Parameter containing:\ntensor([1.0000, 2.5000], requires_grad=True)")


def test_subclass():
    class Mine(torch.Tensor):
        pass

    tensor = torch.Tensor._make_subclass(Mine, torch.ones(2), False)
    assert repr(tensor) == "Mine([1., 1.])"


def test_default_dtype_has_no_suffix():
    torch.set_default_dtype(torch.float64)
    try:
        assert repr(torch.ones(1)) == "tensor([1.])"
        assert "float32" in repr(torch.ones(1, dtype=torch.float32))
    finally:
        torch.set_default_dtype(torch.float32)


def test_big_tensors_are_read_at_the_edges_only(monkeypatch):
    tensor = torch.zeros(2000, 2000)
    sizes = []
    original = torch.Tensor.tolist

    def spy(self):
        sizes.append(self.numel())
        return original(self)

    try:
        monkeypatch.setattr(torch.Tensor, "tolist", spy)
    except (TypeError, AttributeError):
        pytest.skip("methods of Tensor cannot be replaced")
    repr(tensor)
    assert sizes and max(sizes) <= 49
