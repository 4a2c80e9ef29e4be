# SPDX-License-Identifier: BSD-3-Clause
"""The ops' pages describe gradients at kinks, poles and bounds; backward agrees there."""

import math
import sys
from pathlib import Path

import pytest
from op_checks import constants_of
from op_items import each_cell, each_sample
from op_table import (
    F8,
    OPS,
    arguments,
    call,
    has_derivative,
    results,
    samples_of,
    tensors_in,
    tree_map,
)

import cograd
from cograd.nn import functional as F

EXT = Path(__file__).resolve().parents[2] / "docs" / "_ext"
if sys.version_info < (3, 11):
    pytest.skip("the pages' notes are read with tomllib (3.11)", allow_module_level=True)
sys.path.insert(0, str(EXT))
import op_pages  # noqa: E402

PAGES = op_pages.pages(cograd._C._op_table())
NOTES = op_pages.resolved(op_pages.notes())
DIFFERENTIABLE = {n: rs for n, rs in PAGES.items() if any(r["differentiable"] for r in rs)}
SAID = {n: op_pages.defined(rs, NOTES[n].get("gradient")) for n, rs in DIFFERENTIABLE.items()}
WORDS = {n: w for n, w in SAID.items() if w in op_pages.DEFINED and w != "random"}

# page | expression in x and y | x | y -> gradient of its sum with respect to x ; to y
ROWS = """
abs | x.abs() | 0 -> 0
abs | x.abs().real | 0j -> 0+0j
acos | x.acos() | [-1, 1, 2] -> [-inf, -inf, nan]
acosh | x.acosh() | [1, 0.5] -> [inf, nan]
addcdiv | c.addcdiv(c.zeros(2), y, x) | [0, 0] | [1, 0] -> [-inf, nan] ; [inf, inf]
alpha_dropout | F.alpha_dropout(x, 1, True) | [1, 2] -> [0, 0]
amax | x.amax() | [2, 2, 1] -> [0.5, 0.5, 0]
amin | x.amin() | [2, 1, 1] -> [0, 0.5, 0.5]
aminmax | c.aminmax(x).max | [2, 2, 1] -> [0.5, 0.5, 0]
aminmax | c.aminmax(x).min | [2, 1, 1] -> [0, 0.5, 0.5]
aminmax | c.aminmax(x, dim=0).max | [2, 2, 1] -> [0.5, 0.5, 0]
angle | x.angle() | [0, -1, 2] -> [0, 0, 0]
angle | x.angle() | [0j, -1+0j] -> [0+0j, 0-1j]
as_strided | x.view(6)[1:].as_strided((2, 2), (1, 2), 1) | [1, 2, 3, 4, 5, 6] -> [0, 1, 1, 1, 1, 0]
as_strided | x.view(6)[1:].as_strided((2, 2), (1, 2), 0) | [1, 2, 3, 4, 5, 6] -> raises RuntimeError
asin | x.asin() | [-1, 1, 2] -> [inf, inf, nan]
atan2 | c.atan2(x, y) | [0] | [0] -> [0] ; [0]
atanh | x.atanh() | [-1, 1, 2] -> [inf, inf, -1 / 3]
batch_norm | F.batch_norm(x, None, None, training=True, eps=0) | [[1], [1]] -> [[nan], [nan]]
cdist | c.cdist(x, y) | [[1, 1]] | [[1, 1]] -> [[0, 0]] ; [[0, 0]]
cdist | c.cdist(x, y, 1) | [[1, 1]] | [[1, 2]] -> [[0, -1]] ; [[0, 1]]
cdist | c.cdist(x, y, inf) | [[1, 1]] | [[2, 2]] -> [[-1, -1]] ; [[1, 1]]
cdist | c.cdist(x, y, 0.5) | [[1, 1]] | [[1, 2]] -> [[0, -1]] ; [[0, 1]]
ceil | x.ceil() | [1, 1.5] -> [0, 0]
celu | F.celu(x, alpha=2) | [0] -> [1]
cholesky | x.cholesky()[1, 0] | [[4, 0], [0, 4]] -> [[0, 0.25], [0.25, 0]]
cholesky_inverse | c.cholesky_inverse(x) | [[0, 0], [0, 1]] -> not finite
cholesky_solve | c.cholesky_solve(c.ones(2, 1), x) | [[0, 0], [0, 1]] -> not finite
clamp | x.clamp(-1, 1) | [-1, 1, 2, nan] -> [1, 1, 0, 0]
clamp | c.clamp(x, y, T([2])) | [1, 0, 1] | [1, 1, 0] -> [1, 0, 1] ; [0, 1, 0]
clamp_max | x.clamp_max(1) | [1, 2, 0] -> [1, 0, 1]
clamp_max | c.clamp_max(x, y) | [1, 2] | [1, 1] -> [1, 0] ; [0, 1]
clamp_min | x.clamp_min(1) | [1, 2, 0] -> [1, 1, 0]
clamp_min | c.clamp_min(x, y) | [1, 2] | [1, 1] -> [1, 1] ; [0, 0]
copysign | c.copysign(x, y) | [0, 1, 1, -1] | [1, 0, -0.0, 1] -> [0, 1, -1, -1] ; [0, 0, 0, 0]
corrcoef | c.corrcoef(x) | [[1, 1], [1, 2]] -> not finite
cosine_similarity | F.cosine_similarity(x, y, 0) | [0, 0] | [1, 0] -> [1e+08, 0] ; [0, 0]
cosine_similarity | F.cosine_similarity(x, y, 0, 0) | [0, 0] | [1, 0] -> not finite
cosine_similarity | F.cosine_similarity(x.half(), y.half(), 0) | [0, 0] | [1, 0] -> not finite
cov | c.cov(x) | [[1]] -> [[nan]]
cummax | x.cummax(0).values | [1, 1, 0] -> [1, 2, 0]
cummin | x.cummin(0).values | [1, 1, 2] -> [1, 2, 0]
cumprod | x.cumprod(0) | [2, 0, 3, 0, 5] -> [1, 8, 0, 0, 0]
det | x.det() | [[1, 1], [1, 1]] -> [[1, -1], [-1, 1]]
digamma | x.digamma() | [0] -> [inf]
dist | c.dist(x, y) | [1, 2] | [1, 2] -> [0, 0] ; [0, 0]
dist | c.dist(x, y, 1) | [1, 2] | [1, 1] -> [0, 1] ; [0, -1]
dist | c.dist(x, y, inf) | [1, 1, 0] | [0, 0, 0] -> [0.5, 0.5, 0] ; [-0.5, -0.5, 0]
dist | c.dist(x, y, 0) | [1, 1, 0] | [0, 0, 0] -> none ; none
dist | c.dist(x, y, 0.5) | [1, 1] | [1, 2] -> [0, -1] ; [0, 1]
div | x / y | [1, 0, -1] | [0, 0, 0] -> [inf, inf, inf] ; [-inf, nan, inf]
div | c.div(x, y, rounding_mode='floor') | [4] | [2] -> [0] ; [0]
div | c.div(x, y, rounding_mode='trunc') | [4] | [2] -> [0] ; [0]
dropout | F.dropout(x, 0) | [1, 2] -> [1, 1]
dropout | c.dropout(x, 1, True) | [1, 2] -> [0, 0]
elu | F.elu(x, 2) | [0] -> [2]
erfinv | x.erfinv() | [-1, 1, 2] -> [inf, inf, nan]
feature_alpha_dropout | c.feature_alpha_dropout(x, 1, True) | [[1, 2]] -> [[0, 0]]
feature_dropout | c.feature_dropout(x, 1, True) | [[1, 2]] -> [[0, 0]]
fill | c.fill(x, y) | [1, 2] | 3 -> [0, 0] ; 2
fill_diagonal | x.clone().fill_diagonal_(5) | [[1, 2], [3, 4]] -> [[0, 1], [1, 0]]
float_power | c.float_power(x, y) | [0, 0, 0, -1] | [0, 0.5, -1, 2] \
    -> [0, inf, -inf, -2] ; [0, 0, -inf, nan]
floor | x.floor() | [1, 1.5] -> [0, 0]
fmax | c.fmax(x, y) | [1, nan, 1, nan] | [1, 1, nan, nan] -> [1, 0, 1, 1] ; [0, 1, 0, 0]
fmin | c.fmin(x, y) | [1, nan, 1, nan] | [1, 1, nan, nan] -> [1, 0, 1, 1] ; [0, 1, 0, 0]
fmod | c.fmod(x, y) | [4, 5, 1] | [2, 2, 0] -> [1, 1, 1] ; [-2, -2, -inf]
fmod | c.fmod(x, y) | [0] | [0] -> [1] ; [nan]
frac | x.frac() | [1, 0, 1.5] -> [1, 1, 1]
frexp | c.frexp(x)[0] | [1, 3, 0] -> [0.5, 0.25, 1]
group_norm | F.group_norm(x, 1, eps=0) | [[1, 1]] -> [[nan, nan]]
hardshrink | F.hardshrink(x, 0.5) | [-0.5, 0.5, 0, 1] -> [0, 0, 0, 1]
hardsigmoid | F.hardsigmoid(x) | [-3, 3, 0] -> [0, 0, 1 / 6]
hardswish | F.hardswish(x) | [-3, 3, 0, 4, -4] -> [0, 1, 0.5, 1, 0]
hardtanh | F.hardtanh(x) | [-1, 1, 0] -> [0, 0, 1]
hypot | c.hypot(x, y) | [0] | [0] -> [nan] ; [nan]
igamma | c.igamma(T([0.5, 1, 2]), x) | [0, 0, 0] -> [inf, nan, 0]
igammac | c.igammac(T([0.5, 1, 2]), x) | [0, 0, 0] -> [-inf, nan, 0]
index_copy | x.index_copy(0, T([0, 0]), y) | [1] | [1, 2] -> [0] ; [1, 1]
index_fill | x.index_fill(0, T([0]), y) | [1, 2] | 3 -> [0, 1] ; 1
index_put | x.index_put((T([0, 0]),), y) | [1] | [1, 2] -> [0] ; [1, 1]
index_reduce | x.index_reduce(0, T([0, 0]), y, 'amax') | [1] | [1, 1] -> [1 / 3] ; [1 / 3, 1 / 3]
index_reduce | x.index_reduce(0, T([0, 0]), y, 'prod') | [2] | [0, 3] -> [0] ; [6, 0]
index_reduce | x.index_reduce(0, T([0, 0]), y, 'prod') | [2] | [0, 0] -> [0] ; [0, 0]
instance_norm | F.instance_norm(x, eps=0) | [[[1, 1]]] -> [[[nan, nan]]]
inverse | x.inverse() | [[1, 1], [1, 1]] -> raises LinAlgError
kthvalue | x.kthvalue(2).values | [1, 1, 0] -> [1, 0, 0]
layer_norm | F.layer_norm(x, (2,), eps=0) | [1, 1] -> [nan, nan]
leaky_relu | F.leaky_relu(x, 0.25) | [0] -> [0.25]
lgamma | x.lgamma() | [0, -1] -> [-inf, nan]
log | x.log() | [0, -1] -> [inf, -1]
log10 | x.log10() | [0, -1] -> [inf, -0.434294]
log1p | x.log1p() | [-1, -2] -> [inf, -1]
log2 | x.log2() | [0, -1] -> [inf, -1.4427]
log_softmax | (x.log_softmax(0) * T([1, 0])) | [-inf, -inf] -> [nan, nan]
log_softmax | (x.log_softmax(0) * T([1, 0])) | [inf, 0] -> [nan, nan]
logaddexp | c.logaddexp(x, y) | [-inf, inf, -inf] | [-inf, inf, 0] -> [nan, nan, 0] ; [nan, nan, 1]
logaddexp2 | c.logaddexp2(x, y) | [-inf, inf, -inf] | [-inf, inf, 0] \
    -> [nan, nan, 0] ; [nan, nan, 1]
logcumsumexp | x.logcumsumexp(0) | [-inf, -inf, 0] -> [0, 0, 1]
logcumsumexp | x.logcumsumexp(0) | [inf, 0] -> [nan, 0]
logdet | x.logdet() | [[1, 1], [1, 1]] -> not finite
logit | x.logit() | [0, 1, 2] -> [inf, inf, nan]
logit | x.logit(0.25) | [0, 1, 0.25, 0.75, 0.5] -> [0, 0, 5.33333, 5.33333, 4]
logsumexp | x.logsumexp(0) | [-inf, -inf] -> [nan, nan]
logsumexp | x.logsumexp(0) | [inf, inf] -> [nan, nan]
logsumexp | x.logsumexp(0) | [inf, 0] -> [nan, 0]
logsumexp | x.logsumexp(0) | [-inf, 0] -> [0, 1]
lu_solve | c.lu_solve(c.ones(2, 1), x, T([1, 2]).int()) | [[0, 0], [0, 1]] -> not finite
masked_fill | x.masked_fill(T([True, False]), y) | [1, 2] | 3 -> [0, 1] ; 1
matrix_power | c.matrix_power(x, 0) | [[0, 0], [0, 0]] -> [[0, 0], [0, 0]]
matrix_power | c.matrix_power(x, 2) | [[0, 0], [0, 0]] -> [[0, 0], [0, 0]]
matrix_power | c.matrix_power(x, -1) | [[0, 0], [0, 0]] -> raises LinAlgError
max | x.max() | [2, 2, 1] -> [0.5, 0.5, 0]
max | x.max(0).values | [2, 2, 1] -> [1, 0, 0]
maximum | c.maximum(x, y) | [1, nan, 1, nan] | [1, 1, nan, nan] -> [0.5, 1, 1, 1] ; [0.5, 1, 1, 1]
median | x.median() | [1, 1, 1] -> [1 / 3, 1 / 3, 1 / 3]
median | x.median(0).values | [1, 1, 1] -> [0, 1, 0]
min | x.min() | [1, 2, 1] -> [0.5, 0, 0.5]
min | x.min(0).values | [2, 1, 1] -> [0, 1, 0]
minimum | c.minimum(x, y) | [1, 2] | [1, 1] -> [0.5, 0] ; [0.5, 1]
mode | x.mode().values | [2, 1, 2, 1] -> [0, 0, 0, 1]
msort | (x.msort() * T([1, 2, 3])) | [1, 1, 0] -> [2, 3, 1]
mvlgamma | x.mvlgamma(2) | [0.5] -> [-inf]
nan_to_num | x.nan_to_num() | [nan, inf, -inf, 1] -> [0, 0, 0, 1]
nanmean | x.nanmean() | [nan, 1] -> [0, 1]
nanmean | x.nanmean() | [nan, nan] -> [nan, nan]
nanmedian | x.nanmedian() | [nan, 1, 1] -> [0, 0.5, 0.5]
nanmedian | x.nanmedian(0).values | [nan, 1, 1] -> [0, 1, 0]
nanquantile | x.nanquantile(0.5) | [nan, 1, 3] -> [0, 0.5, 0.5]
nansum | x.nansum() | [nan, 1] -> [0, 1]
native_batch_norm | c.native_batch_norm(x, None, None, None, None, True, 0.1, 0)[0] \
    | [[1], [1]] -> [[nan], [nan]]
native_group_norm | c.native_group_norm(x, None, None, 1, 1, 2, 1, 0)[0] \
    | [[[1, 1]]] -> [[[nan, nan]]]
nextafter | c.nextafter(x, y) | [1] | [2] -> [1] ; [0]
F.binary_cross_entropy | F.binary_cross_entropy(x, y, None, None, None, 'sum') \
    | [0, 1, 0] | [0, 1, 1] -> [0, 0, -1e+12] ; [100, -100, 100]
F.binary_cross_entropy | F.binary_cross_entropy(x.half(), T([1]).half()) | [0] -> not finite
F.cross_entropy | F.cross_entropy(x, T([0, -100]), reduction='sum') \
    | [[0, 0], [0, 1]] -> [[-0.5, 0.5], [0, 0]]
F.dropout | F.dropout(x, 1) | [1, 2] -> [0, 0]
F.l1_loss | F.l1_loss(x, y, reduction='sum') | [1, 2] | [1, 1] -> [0, 1] ; [0, -1]
F.mse_loss | F.mse_loss(x, T([0]), weight=y) | [1] | [0] -> not finite
F.nll_loss | F.nll_loss(x, T([0, -100]), reduction='sum') | [[1, 2], [1, 2]] -> [[-1, 0], [0, 0]]
F.pdist | F.pdist(x) | [[1, 1], [1, 1]] -> [[0, 0], [0, 0]]
F.pdist | F.pdist(x, 1) | [[1, 1], [1, 2]] -> [[0, -1], [0, 1]]
F.pdist | F.pdist(x, inf) | [[1, 1], [2, 2]] -> [[-1, -1], [1, 1]]
F.scaled_dot_product_attention | F.scaled_dot_product_attention(x, x, x, T([[False]])) \
    | [[[1, 2]]] -> [[[0, 0]]]
norm | x.norm() | [0, 0] -> [0, 0]
norm | x.norm(1) | [0, 2] -> [0, 1]
norm | x.norm(inf) | [2, -2, 1] -> [0.5, -0.5, 0]
norm | x.norm(3) | [0, 0] -> [0, 0]
norm | x.norm(0.5) | [0, 1] -> [0, 1]
norm | x.norm(0) | [0, 1] -> none
norm | x.norm(-1) | [0, 1] -> [0, 0]
pinverse | c.pinverse(x) | [[0]] -> [[0]]
polygamma | x.polygamma(1) | [0, -1] -> [-inf, -inf]
polygamma | x.polygamma(2) | [0, -1] -> [inf, inf]
polygamma | c.polygamma(0, x) | [0] -> [inf]
pow | x.pow(0.5) | [0] -> [inf]
pow | x.pow(0) | [0] -> [0]
pow | x.pow(-1) | [0] -> [-inf]
pow | x.pow(1) | [0] -> [1]
pow | c.pow(x, y) | [0, 0, 0, -1] | [0, 2, -1, 2] -> [0, 0, -inf, -2] ; [0, 0, -inf, nan]
pow | c.pow(0, x) | [0, 1, -1] -> [0, 0, -inf]
pow | c.pow(x, y) | [0, 0, 2] | [0.5, 1, 0] -> [inf, 1, 0] ; [0, 0, 0.693147]
pow | c.pow(y, x) | [0, 0.5, 1, -1] | [0, 0, 0, 0] -> [0, 0, 0, -inf] ; [0, inf, 1, -inf]
prelu | F.prelu(x, y) | [0, 0] | [0.25] -> [0.25, 0.25] ; [0]
prelu | F.prelu(x, y) | [0, -2] | [0.25] -> [0.25, 0.25] ; [-2]
prod | x.prod() | [2, 0, 3] -> [0, 6, 0]
prod | x.prod() | [0, 0, 3] -> [0, 0, 0]
put | x.put(T([0, 0]), y) | [1] | [1, 2] -> [0] ; [1, 1]
qr | c.qr(x)[1] | [[1, 0], [0, 0]] -> not finite
qr | c.qr(x, False)[0] | [[1], [2]] -> raises RuntimeError
quantile | x.quantile(0.5) | [1, 1, 1] -> [0, 1, 0]
quantile | x.quantile(0.5) | [1, 3] -> [0.5, 0.5]
quantile | c.quantile(y, x) | 0.5 | [1, 2, 5] -> 0 ; [0, 1, 0]
quantile | c.quantile(y, x) | 0.25 | [1, 3] -> 2 ; [0.75, 0.25]
quantile | x.quantile(0.5, interpolation='nearest') | [1, 3] -> [1, 0]
quantile | x.quantile(0.5, interpolation='midpoint') | [1, 1, 3] -> [0, 1, 0]
reciprocal | x.reciprocal() | [0] -> [-inf]
relu | x.relu() | [0] -> [0]
relu6 | F.relu6(x) | [0, 6, 1] -> [0, 0, 1]
remainder | c.remainder(x, y) | [4, 5, 1] | [2, 2, 0] -> [1, 1, 1] ; [-2, -2, -inf]
remainder | c.remainder(x, 2) | [4, -4] -> [1, 1]
renorm | c.renorm(x, 2, 0, 1) | [[1, 0], [0, 0]] -> [[1, 1], [1, 1]]
rms_norm | F.rms_norm(x, (2,), eps=0) | [0, 0] -> [nan, nan]
round | x.round() | [0.5, 1] -> [0, 0]
rsqrt | x.rsqrt() | [0, -1] -> [-inf, nan]
scatter | x.scatter(0, T([0, 0]), y) | [1] | [1, 2] -> [0] ; [1, 1]
scatter | x.scatter(0, T([0]), y, reduce='multiply') | [0] | [0] -> raises NotImplementedError
scatter_reduce | x.scatter_reduce(0, T([0, 0]), y, 'amax') | [1] \
    | [1, 1] -> [1 / 3] ; [1 / 3, 1 / 3]
scatter_reduce | x.scatter_reduce(0, T([0, 0]), y, 'prod') | [2] | [0, 3] -> [0] ; [6, 0]
scatter_reduce | x.scatter_reduce(0, T([0, 0]), y, 'prod') | [2] | [0, 0] -> [0] ; [0, 0]
scatter_reduce | x.scatter_reduce(0, T([0]), y, 'amin', include_self=False) | [5] | [1] -> [0] ; [1]
selu | F.selu(x) | [0] -> [1.7581]
sgn | x.sgn() | [0, 1] -> [0, 0]
sgn | x.sgn().imag | [0j, 2+0j] -> [0+0j, 0+0.5j]
sign | x.sign() | [0, 1] -> [0, 0]
slogdet | x.slogdet()[1] | [[1, 1], [1, 1]] -> not finite
slogdet | x.slogdet()[1] | [[0, 0], [0, 0]] -> not finite
slogdet | x.slogdet()[0] | [[2, 0], [0, 1]] -> none
softmax | x.softmax(0) | [-inf, -inf] -> [nan, nan]
softmax | (x.softmax(0) * T([1, 0])) | [inf, 0] -> [nan, nan]
softplus | F.softplus(x, 2, 2) | [1, 1.5] -> [0.880797, 1]
softshrink | F.softshrink(x, 0.5) | [-0.5, 0.5, 0, 1] -> [0, 0, 0, 1]
softsign | F.softsign(x) | [0] -> [1]
sort | (x.sort().values * T([1, 2, 3])) | [1, 1, 0] -> [2, 3, 1]
sqrt | x.sqrt() | [0, -1] -> [inf, nan]
std | x.std() | [1, 1] -> [0, 0]
std | x.std() | [1] -> [nan]
std | x.std(correction=2) | [1, 2] -> [nan, nan]
std_mean | c.std_mean(x)[0] | [1, 1] -> [0, 0]
std_mean | c.std_mean(x)[0] | [1] -> [nan]
svd | c.svd(x).S | [[1, 0], [0, 1]] -> [[1, 0], [0, 1]]
svd | c.svd(x).U | [[1, 0], [0, 1]] -> not finite
svd | c.svd(x).S | [[0, 0], [0, 0]] -> [[1, 0], [0, 1]]
svd | c.svd(x).U | [[2, 0], [0, 0], [0, 0]] -> not finite
tan | x.tan() | [1.5707963267948966] -> finite
threshold | F.threshold(x, 1, 5) | [1, 2] -> [0, 1]
topk | (x.topk(2).values * T([1, 2])) | [1, 1, 1] -> [1, 2, 0]
triangular_solve | c.triangular_solve(c.ones(2, 1), x).solution | [[0, 0], [0, 1]] -> not finite
trunc | x.trunc() | [1, 1.5] -> [0, 0]
var | x.var() | [1, 1] -> [0, 0]
var | x.var() | [1] -> not finite
var | x.var(correction=2) | [1, 2] -> not finite
var_mean | c.var_mean(x)[0] | [1, 1] -> [0, 0]
var_mean | c.var_mean(x)[0] | [1] -> [nan]
where | c.where(x > 0, x.sqrt(), 0 * x) | [0] -> [nan]
xlog1py | c.xlog1py(x, y) | [0, 0, 1] | [-1, 2, -1] -> [0, 1.09861, -inf] ; [nan, 0, inf]
xlogy | c.xlogy(x, y) | [0, 0, 1] | [0, 2, 0] -> [0, 0.693147, -inf] ; [nan, 0, inf]
"""


def rows():
    for line in ROWS.strip().splitlines():
        given, expected = line.split(" -> ")
        page, expression, *points = (part.strip() for part in given.split(" | "))
        name = page.replace("F.", "nn.functional.")
        yield pytest.param(name, expression, points, expected, id=f"{page}-{expression}")


CASES = list(rows())


ERRORS = {e.__name__: e for e in (RuntimeError, NotImplementedError, cograd.linalg.LinAlgError)}
NAMES = {"c": cograd, "F": F, "T": cograd.tensor, "nan": math.nan, "inf": math.inf}


def point(text):
    value = cograd.tensor(eval(text, NAMES))
    return value.to(cograd.complex128 if value.is_complex() else F8).requires_grad_()


def gradients(expression, points):
    """Returns the gradients of the sum of an expression's (real) elements at the points."""
    leaves = [point(p) for p in points]
    out = eval(expression, NAMES | dict(zip("xy", leaves, strict=False)))
    if out.requires_grad:
        (out.real if out.is_complex() else out).sum().backward()
    return [leaf.grad for leaf in leaves]


@pytest.fixture(autouse=True)
def in_float64():
    before = cograd.get_default_dtype()
    cograd.set_default_dtype(F8)
    yield
    cograd.set_default_dtype(before)


@pytest.mark.filterwarnings("ignore")
@each_cell(("page", "expression", "points", "expected"), CASES)
def test_row(page, expression, points, expected):
    assert page in SAID
    if expected.startswith("raises "):
        with pytest.raises(ERRORS[expected.removeprefix("raises ")]):
            gradients(expression, points)
        return
    found = gradients(expression, points)
    if expected in ("finite", "not finite"):
        assert all(g.isfinite().all().item() for g in found) == (expected == "finite")
        return
    for g, text in zip(found, expected.split(" ; "), strict=True):
        if text == "none":
            assert g is None
            continue
        wanted = cograd.tensor(eval(text, NAMES)).to(g.dtype)
        cograd.testing.assert_close(g, wanted, rtol=1e-4, atol=1e-12, equal_nan=True)


def test_every_differentiable_page_says_where_its_gradient_is_defined():
    assert [n for n, note in SAID.items() if not note] == []
    assert [n for n in PAGES if n not in SAID and "gradient" in NOTES.get(n, {})] == []


def test_every_sentence_has_a_row():
    by_hand = {
        n
        for n, note in op_pages.notes().items()
        if note.get("gradient", "=")[0] != "=" and note["gradient"] not in op_pages.DEFINED
    }
    assert by_hand - {case.values[0] for case in CASES} == set()


# If a page says "linear" or "smooth", its samples are checked at these values instead.
POINTS = [0.0, 0.5, 1.0, -1.0, 3.0, -3.0, 6.0]
STEP = 1e-6


def function_of(record, sample, value=None):
    """Returns an op's weighted and summed results along a line through the sample or a value."""
    args, kwargs = arguments(record, sample)
    constants = constants_of(record, args)
    found = [t for t in tensors_in((args, kwargs)) if t.dtype is F8 and id(t) not in constants]
    leaves = list({id(t): t for t in found}.values())
    starts = [t if value is None else cograd.full_like(t, value) for t in leaves]
    lines = [cograd.linspace(0.3, 1.1, t.numel()).reshape(t.shape) for t in leaves]

    def f(step, at=None):
        values = at or [s + step * d for s, d in zip(starts, lines, strict=True)]
        new = {id(t): v for t, v in zip(leaves, values, strict=True)}
        a, k = tree_map(lambda t: new.get(id(t), t), (args, kwargs))
        outs = [p for o in results(call(OPS.function(record), a, k)) for p in parts(o)]
        return sum((o * cograd.linspace(1, 2, o.numel()).reshape(o.shape)).sum() for o in outs)

    return f, starts, lines


def parts(o):
    """Returns the real tensors that an output consists of."""
    if not isinstance(o, cograd.Tensor) or not (o.is_complex() or o.is_floating_point()):
        return []
    return [o.real, o.imag] if o.is_complex() else [o]


def slope(f, starts, lines):
    leaves = [s.clone().requires_grad_() for s in starts]
    out = f(0, leaves)
    if not out.requires_grad:  # the sample's tensor provides only a shape or dtype
        return 0
    grads = cograd.autograd.grad(out, leaves, allow_unused=True)
    return sum((g * d).sum().item() for g, d in zip(grads, lines, strict=True) if g is not None)


WORD_CASES = [
    pytest.param(r, s, WORDS[n], id=f"{n}({s})")
    for n in WORDS
    for r in DIFFERENTIABLE[n]
    if r["differentiable"] and r["kind"] != "random"
    for s in samples_of(r)
    if has_derivative(s)
]


@each_sample(WORD_CASES, names="record,sample,word")
def test_word(record, sample, word):
    """The slopes on both sides equal the gradient; those of linear ops are the same everywhere."""
    for value in POINTS:
        f, starts, lines = function_of(record, sample, value)
        if not starts:
            return
        got = slope(f, starts, lines)
        here, after, before = (float(f(s)) for s in (0, STEP, -STEP))
        near = {"rel": 1e-3, "abs": 1e-3 * (1 + abs(here))}
        assert got == pytest.approx((after - here) / STEP, **near)
        assert got == pytest.approx((here - before) / STEP, **near)
        if word == "linear":
            f, starts, lines = function_of(record, sample)
            assert got == pytest.approx(slope(f, starts, lines))


RANDOM = [
    f"y.{f}_()" for f in "bernoulli cauchy exponential log_normal normal random uniform".split()
]
RANDOM += ["y.geometric_(0.5)", "cograd.bernoulli(y)", "cograd.poisson(y)", "cograd.normal(y, y)"]


@pytest.mark.parametrize("form", RANDOM)
def test_what_is_drawn_counts_as_a_constant(form):
    x = cograd.full((3,), 0.5).requires_grad_()
    y = x.clone()
    eval(form, {"cograd": cograd, "y": y}).sum().backward()
    assert x.grad.tolist() == [0, 0, 0]


def test_random_words():
    said = {n for n, word in SAID.items() if word == "random"}
    assert said == {form.split(".")[1].split("(")[0].rstrip("_") for form in RANDOM}
