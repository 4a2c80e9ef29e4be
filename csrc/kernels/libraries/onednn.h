// SPDX-License-Identifier: BSD-3-Clause
// oneDNN 3 through its C interface; declares only what cograd uses.
#pragma once
#include <cstdint>
#include <string>

#include "kernels/libraries/blas.h"

namespace cograd::kernels::onednn {

using Object = struct OpaqueObject*;  // any of the library's handles
using Dims = const int64_t*;

inline constexpr int kFloat32 = 3, kAnyLayout = 1, kForward = 96, kDirect = 1;
inline constexpr unsigned kInOrder = 1;

// Identifiers of a primitive's arguments.
inline constexpr int kSource = 1, kOutput = 17, kWeights = 33, kBias = 41, kScratch = 80;
inline constexpr int kSourceGrad = 129, kOutputGrad = 145, kWeightsGrad = 161;
// Queries for a primitive's description.
inline constexpr int kAskSource = 129, kAskSourceGrad = 130, kAskWeights = 131,
                     kAskWeightsGrad = 132, kAskOutput = 133, kAskOutputGrad = 134,
                     kAskScratch = 136;

struct Argument {
  int name;
  Object memory;
};

struct Api {
  int (*sgemm)(char ta, char tb, int64_t m, int64_t n, int64_t k, float alpha, const float* a,
               int64_t lda, const float* b, int64_t ldb, float beta, float* c, int64_t ldc);
  int (*engine_create)(Object* engine, int kind, size_t index);
  int (*stream_create)(Object* stream, Object engine, unsigned flags);
  int (*attr_create)(Object* attr);
  int (*attr_set_scratchpad)(Object attr, int mode);
  int (*layout_with_tag)(Object* layout, int ndims, Dims sizes, int dtype, int tag);
  int (*layout_with_strides)(Object* layout, int ndims, Dims sizes, int dtype, Dims strides);
  int (*layout_equal)(Object a, Object b);
  size_t (*layout_bytes)(Object layout);
  int (*layout_destroy)(Object layout);
  int (*memory_create)(Object* memory, Object layout, Object engine, void* data);
  int (*memory_destroy)(Object memory);
  int (*reorder)(Object* desc, Object from, Object from_engine, Object to, Object to_engine,
                 Object attr);
  int (*forward)(Object* desc, Object engine, int kind, int algorithm, Object source,
                 Object weights, Object bias, Object output, Dims strides, Dims dilations,
                 Dims before, Dims behind, Object attr);
  int (*source_grad)(Object* desc, Object engine, int algorithm, Object source, Object weights,
                     Object output, Dims strides, Dims dilations, Dims before, Dims behind,
                     Object forward, Object attr);
  int (*weights_grad)(Object* desc, Object engine, int algorithm, Object source, Object weights,
                      Object bias, Object output, Dims strides, Dims dilations, Dims before,
                      Dims behind, Object forward, Object attr);
  Object (*desc_layout)(Object desc, int what, int index);
  int (*desc_destroy)(Object desc);
  int (*primitive_create)(Object* primitive, Object desc);
  int (*primitive_execute)(Object primitive, Object stream, int count, const Argument* arguments);
  int (*primitive_destroy)(Object primitive);
  int (*stream_destroy)(Object stream);
  // Functions of the OpenMP that the library uses; null if it has no threads.
  void (*omp_set_num_threads)(int n);
  int (*omp_get_max_threads)();

  Object engine, attr;  // `attr` requests that the caller provides scratch memory
};

void load(const std::string& path);
bool is_loaded() noexcept;
const Api& api() noexcept;  // must be loaded
std::string version();
// Returns OpenBLAS's table with oneDNN's float32 product.
const Blas& table() noexcept;

// Raises Memory or Runtime unless `status` is success.
void check(int status, const char* what);

// While an object lives, oneDNN computes on this thread alone. Our pool passes it pieces of the
// work, so that no other threads exist, before or after a fork.
class OneThread {
 public:
  OneThread() noexcept : before_(0) {
    if (api().omp_set_num_threads == nullptr) return;
    before_ = api().omp_get_max_threads();
    if (before_ != 1) api().omp_set_num_threads(1);
  }
  ~OneThread() {
    if (before_ > 1) api().omp_set_num_threads(before_);
  }
  OneThread(const OneThread&) = delete;
  OneThread& operator=(const OneThread&) = delete;

 private:
  int before_;
};

}  // namespace cograd::kernels::onednn
