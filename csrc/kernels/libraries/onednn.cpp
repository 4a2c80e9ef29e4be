// SPDX-License-Identifier: BSD-3-Clause
#include "kernels/libraries/onednn.h"

#include <atomic>
#include <memory>

#include "cograd/error.h"
#include "kernels/libraries/library.h"

namespace cograd::kernels::onednn {
namespace {

constexpr int kOutOfMemory = 1, kCpu = 1, kUserScratchpad = 1;
constexpr unsigned kNoRuntime = 1, kOpenMp = 2;

// The layout of the struct that dnnl_version() returns.
struct Version {
  int major, minor, patch;
  const char* hash;
  unsigned cpu_runtime, gpu_runtime;
};

struct Loaded {
  std::unique_ptr<SharedObject> object;
  Api api{};
  Blas table{};
  std::string version;
};
std::atomic<const Loaded*> loaded{nullptr};

const Loaded& it() noexcept { return *loaded.load(std::memory_order_acquire); }

void sgemm(int, int ta, int tb, int m, int n, int k, float alpha, const float* a, int lda,
           const float* b, int ldb, float beta, float* c, int ldc) {
  const OneThread one;
  check(api().sgemm(ta == kTrans ? 'T' : 'N', tb == kTrans ? 'T' : 'N', m, n, k, alpha, a, lda, b,
                    ldb, beta, c, ldc),
        "a product");
}

void find_functions(const SharedObject& o, Api& a) {
  o.get(a.sgemm, "dnnl_sgemm");
  o.get(a.engine_create, "dnnl_engine_create");
  o.get(a.stream_create, "dnnl_stream_create");
  o.get(a.attr_create, "dnnl_primitive_attr_create");
  o.get(a.attr_set_scratchpad, "dnnl_primitive_attr_set_scratchpad_mode");
  o.get(a.layout_with_tag, "dnnl_memory_desc_create_with_tag");
  o.get(a.layout_with_strides, "dnnl_memory_desc_create_with_strides");
  o.get(a.layout_equal, "dnnl_memory_desc_equal");
  o.get(a.layout_bytes, "dnnl_memory_desc_get_size");
  o.get(a.layout_destroy, "dnnl_memory_desc_destroy");
  o.get(a.memory_create, "dnnl_memory_create");
  o.get(a.memory_destroy, "dnnl_memory_destroy");
  o.get(a.reorder, "dnnl_reorder_primitive_desc_create");
  o.get(a.forward, "dnnl_convolution_forward_primitive_desc_create");
  o.get(a.source_grad, "dnnl_convolution_backward_data_primitive_desc_create");
  o.get(a.weights_grad, "dnnl_convolution_backward_weights_primitive_desc_create");
  o.get(a.desc_layout, "dnnl_primitive_desc_query_md");
  o.get(a.desc_destroy, "dnnl_primitive_desc_destroy");
  o.get(a.primitive_create, "dnnl_primitive_create");
  o.get(a.primitive_execute, "dnnl_primitive_execute");
  o.get(a.primitive_destroy, "dnnl_primitive_destroy");
  o.get(a.stream_destroy, "dnnl_stream_destroy");
}

}  // namespace

void check(int status, const char* what) {
  COGRAD_CHECK_KIND(Memory, status != kOutOfMemory,
                    "out of memory: oneDNN could not allocate memory for ", what);
  COGRAD_CHECK(status == 0, "oneDNN cannot compute ", what, " (status ", status, ")");
}

void load(const std::string& path) {
  auto fresh = std::make_unique<Loaded>();
  fresh->object = std::make_unique<SharedObject>(Library::onednn, path);
  const SharedObject& o = *fresh->object;
  Api& a = fresh->api;
  const Version* (*version)() = nullptr;
  o.get(version, "dnnl_version");
  const Version& v = *version();
  fresh->version =
      std::to_string(v.major) + "." + std::to_string(v.minor) + "." + std::to_string(v.patch);
  COGRAD_CHECK(v.major == 3, "backends: '", path, "' is oneDNN ", fresh->version, ", expected 3");
  COGRAD_CHECK(v.cpu_runtime == kOpenMp || v.cpu_runtime == kNoRuntime, "backends: oneDNN in '",
               path, "' uses a threading runtime that cograd does not support (", v.cpu_runtime,
               "), expected one for OpenMP, such as the package onednn-cpu-gomp");
  find_functions(o, a);
  if (v.cpu_runtime == kOpenMp) {
    o.get(a.omp_set_num_threads, "omp_set_num_threads");
    o.get(a.omp_get_max_threads, "omp_get_max_threads");
  }
  check(a.engine_create(&a.engine, kCpu, 0), "an engine");
  check(a.attr_create(&a.attr), "attributes");
  check(a.attr_set_scratchpad(a.attr, kUserScratchpad), "attributes");
  fresh->table = openblas();
  fresh->table.sgemm = sgemm;
  loaded.store(fresh.release(), std::memory_order_release);
}

bool is_loaded() noexcept { return loaded.load(std::memory_order_acquire) != nullptr; }
const Api& api() noexcept { return it().api; }
std::string version() { return it().version; }
const Blas& table() noexcept { return it().table; }

}  // namespace cograd::kernels::onednn
