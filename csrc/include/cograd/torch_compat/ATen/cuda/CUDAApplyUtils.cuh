// SPDX-License-Identifier: BSD-3-Clause
// torch's <ATen/cuda/CUDAApplyUtils.cuh>, which cograd does not offer.
#pragma once
#error "cograd: <ATen/cuda/CUDAApplyUtils.cuh> is for CUDA devices; cograd computes on the CPU only, compile the CPU sources alone"
