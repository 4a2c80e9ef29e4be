# SPDX-License-Identifier: BSD-3-Clause
# Written by tools/gen_stubs.py from the built module; do not edit.
from typing import Any, NamedTuple

from cograd import Tensor
from cograd._C import _Lengths
from cograd._C import _aminmax_result
from cograd._C import _cummax_result
from cograd._C import _cummin_result
from cograd._C import _frexp_result
from cograd._C import _geqrf_result
from cograd._C import _kthvalue_result
from cograd._C import _linalg_cholesky_ex_result
from cograd._C import _linalg_eig_result
from cograd._C import _linalg_eigh_result
from cograd._C import _linalg_inv_ex_result
from cograd._C import _linalg_ldl_factor_result
from cograd._C import _linalg_ldl_factor_ex_result
from cograd._C import _linalg_lu_result
from cograd._C import _linalg_lu_factor_result
from cograd._C import _linalg_lu_factor_ex_result
from cograd._C import _linalg_qr_result
from cograd._C import _linalg_slogdet_result
from cograd._C import _linalg_solve_ex_result
from cograd._C import _linalg_svd_result
from cograd._C import _lu_unpack_result
from cograd._C import _max_result
from cograd._C import _median_result
from cograd._C import _min_result
from cograd._C import _mode_result
from cograd._C import _nanmedian_result
from cograd._C import _qr_result
from cograd._C import _slogdet_result
from cograd._C import _sort_result
from cograd._C import _svd_result
from cograd._C import _topk_result
from cograd._C import _triangular_solve_result

all_return_types: list[Any]

aminmax = _aminmax_result
cummax = _cummax_result
cummin = _cummin_result
frexp = _frexp_result
geqrf = _geqrf_result
class _histogram_fields(NamedTuple):
    hist: Tensor
    bin_edges: Tensor
class _histogram_result(_Lengths, _histogram_fields): ...
histogram = _histogram_result
class _histogramdd_fields(NamedTuple):
    hist: Tensor
    bin_edges: tuple[Tensor, ...]
class _histogramdd_result(_Lengths, _histogramdd_fields): ...
histogramdd = _histogramdd_result
kthvalue = _kthvalue_result
linalg_cholesky_ex = _linalg_cholesky_ex_result
linalg_eig = _linalg_eig_result
linalg_eigh = _linalg_eigh_result
linalg_inv_ex = _linalg_inv_ex_result
linalg_ldl_factor = _linalg_ldl_factor_result
linalg_ldl_factor_ex = _linalg_ldl_factor_ex_result
class _linalg_lstsq_fields(NamedTuple):
    solution: Tensor
    residuals: Tensor
    rank: Tensor
    singular_values: Tensor
class _linalg_lstsq_result(_Lengths, _linalg_lstsq_fields): ...
linalg_lstsq = _linalg_lstsq_result
linalg_lu = _linalg_lu_result
linalg_lu_factor = _linalg_lu_factor_result
linalg_lu_factor_ex = _linalg_lu_factor_ex_result
linalg_qr = _linalg_qr_result
linalg_slogdet = _linalg_slogdet_result
linalg_solve_ex = _linalg_solve_ex_result
linalg_svd = _linalg_svd_result
lu_unpack = _lu_unpack_result
max = _max_result
median = _median_result
min = _min_result
mode = _mode_result
nanmedian = _nanmedian_result
qr = _qr_result
slogdet = _slogdet_result
sort = _sort_result
svd = _svd_result
topk = _topk_result
triangular_solve = _triangular_solve_result