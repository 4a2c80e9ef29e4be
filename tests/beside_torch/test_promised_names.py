# SPDX-License-Identifier: BSD-3-Clause
"""The names that the documentation promises exist."""

import pytest

import cograd as torch

PROMISED = """
tensor as_tensor empty zeros ones full empty_like zeros_like ones_like full_like rand_like
randn_like arange linspace logspace eye rand randn randint randperm tril triu meshgrid add sub
mul div pow sqrt rsqrt exp expm1 log log1p log2 log10 sin cos tan asin acos atan atan2 sinh cosh
tanh sigmoid erf abs sign floor ceil round trunc clamp minimum maximum where lerp relu
logical_and logical_or logical_not logical_xor bitwise_and bitwise_or bitwise_xor bitwise_not
sum mean prod var std min max amin amax argmin argmax all any norm logsumexp cumsum cumprod
count_nonzero softmax log_softmax mm bmm matmul mv dot addmm baddbmm outer einsum reshape
flatten unflatten squeeze unsqueeze permute transpose t movedim flip roll repeat_interleave tile
cat stack split chunk unbind narrow select diagonal as_strided gather scatter scatter_add
index_select index_add index_copy masked_fill masked_select take_along_dim nonzero sort argsort
topk unique bincount searchsorted allclose equal isclose isnan isinf isfinite eq ne lt le gt ge
finfo iinfo Generator manual_seed from_numpy from_dlpack set_printoptions get_default_dtype
set_default_dtype set_num_threads get_num_threads is_tensor result_type promote_types
""".split()
METHODS = """
view expand expand_as repeat new_tensor new_zeros new_ones new_full new_empty add_ sub_ mul_
div_ copy_ fill_ zero_ uniform_ normal_ detach requires_grad_ retain_grad numpy tolist item size
stride dim numel contiguous clone to type double float half bfloat16 long int short char bool
byte is_contiguous data_ptr storage_offset element_size
""".split()
FUNCTIONAL = """
relu gelu silu softplus leaky_relu elu softmax log_softmax layer_norm dropout embedding linear
cross_entropy nll_loss mse_loss l1_loss binary_cross_entropy binary_cross_entropy_with_logits
""".split()


@pytest.mark.parametrize(
    "home,names",
    [("torch", PROMISED), ("Tensor", METHODS), ("functional", FUNCTIONAL)],
)
def test_promised_names_exist(home, names):
    where = {"torch": torch, "Tensor": torch.Tensor, "functional": torch.nn.functional}[home]
    assert [n for n in names if not callable(getattr(where, n, None))] == []
