// SPDX-License-Identifier: BSD-3-Clause
#include "cuda/lib/cublaslt.h"

#include <array>
#include <map>
#include <mutex>
#include <tuple>

#include "cuda/driver/capture.h"
#include "cuda/driver/gpu.h"
#include "cuda/driver/launch.h"
#include "cuda/driver/timing.h"
#include "cuda/memory/scratch.h"

namespace cograd::cuda {

namespace {

// The prototypes and numbers are our own, from cuBLASLt's documentation.
using Handle = void*;
using Descriptor = void*;
struct Algorithm {
  uint64_t data[8];
};
struct Heuristic {
  Algorithm algorithm;
  size_t workspace;
  int state;
  float waves;
  int reserved[4];
};
enum : int { kTransA = 3, kTransB = 4 };           // attributes of a product
enum : int { kBatchCount = 5, kBatchStride = 6 };  // attributes of a matrix
enum : int { kMaxWorkspace = 1 };                  // attribute of a preference
enum : int { kFloatCompute = 68, kDoubleCompute = 70 };

struct Api {
  int (*create)(Handle*);
  int (*product_create)(Descriptor*, int compute, int scale);
  int (*product_set)(Descriptor, int attribute, const void*, size_t);
  int (*product_destroy)(Descriptor);
  int (*matrix_create)(Descriptor*, int type, uint64_t rows, uint64_t cols, int64_t ld);
  int (*matrix_set)(Descriptor, int attribute, const void*, size_t);
  int (*matrix_destroy)(Descriptor);
  int (*preference_create)(Descriptor*);
  int (*preference_set)(Descriptor, int attribute, const void*, size_t);
  int (*preference_destroy)(Descriptor);
  int (*heuristic)(Handle, Descriptor, Descriptor, Descriptor, Descriptor, Descriptor, Descriptor,
                   int asked, Heuristic*, int* found);
  int (*matmul)(Handle, Descriptor, const void* alpha, const void* a, Descriptor, const void* b,
                Descriptor, const void* beta, const void* c, Descriptor, void* d, Descriptor,
                const Algorithm*, void* workspace, size_t, CUstream);
};

struct Loaded {
  Loaded()
      : library({"cuBLASLt", "COGRAD_CUBLASLT", "libcublasLt.so.13", "libcublasLt.so.12", "cublas",
                 "'cograd[cuda]' (CUDA 13) or 'cograd[cuda12]'"}) {
    library.get(api.create, "cublasLtCreate");
    library.get(api.product_create, "cublasLtMatmulDescCreate");
    library.get(api.product_set, "cublasLtMatmulDescSetAttribute");
    library.get(api.product_destroy, "cublasLtMatmulDescDestroy");
    library.get(api.matrix_create, "cublasLtMatrixLayoutCreate");
    library.get(api.matrix_set, "cublasLtMatrixLayoutSetAttribute");
    library.get(api.matrix_destroy, "cublasLtMatrixLayoutDestroy");
    library.get(api.preference_create, "cublasLtMatmulPreferenceCreate");
    library.get(api.preference_set, "cublasLtMatmulPreferenceSetAttribute");
    library.get(api.preference_destroy, "cublasLtMatmulPreferenceDestroy");
    library.get(api.heuristic, "cublasLtMatmulAlgoGetHeuristic");
    library.get(api.matmul, "cublasLtMatmul");
  }
  Library library;
  Api api{};
};
const Loaded& loaded() {
  static const Loaded l;
  return l;
}

struct Types {
  int stored, compute, scale;
};
// Returns cuBLASLt's numbers for a dtype; stored is -1 if it has no products of it.
Types types_of(DType t) noexcept {
  switch (t) {
    case DType::Float32:
      return {0, kFloatCompute, 0};
    case DType::Float64:
      return {1, kDoubleCompute, 1};
    case DType::Float16:
      return {2, kFloatCompute, 0};
    case DType::BFloat16:
      return {14, kFloatCompute, 0};
    case DType::Complex64:
      return {4, kFloatCompute, 4};
    case DType::Complex128:
      return {5, kDoubleCompute, 5};
    default:
      return {-1, 0, 0};
  }
}

// The descriptors of products of one form, and the algorithm that cuBLASLt chose. They stay until
// the process ends.
struct Plan {
  Descriptor product = nullptr, a = nullptr, b = nullptr, c = nullptr;
  Algorithm algorithm{};
  size_t workspace = 0;
  bool usable = false;
};

// A matrix as cuBLASLt sees it: column-major, so rows and columns of the stored one are swapped.
Descriptor matrix(const Api& api, int type, int64_t rows, int64_t cols, int64_t ld, int64_t batch,
                  int64_t stride) {
  Descriptor d = nullptr;
  const auto count = static_cast<int32_t>(batch);
  if (api.matrix_create(&d, type, static_cast<uint64_t>(cols), static_cast<uint64_t>(rows), ld) !=
      0)
    return nullptr;
  if (batch > 1) {
    api.matrix_set(d, kBatchCount, &count, sizeof count);
    api.matrix_set(d, kBatchStride, &stride, sizeof stride);
  }
  return d;
}

Plan make_plan(const Api& api, Handle handle, const Product& p, const Types& t) {
  constexpr size_t kWorkspace = size_t{32} << 20;
  Plan plan;
  if (api.product_create(&plan.product, t.compute, t.scale) != 0) return plan;
  // C^T = op(B)^T op(A)^T: the operands change places.
  const int ta = p.tb ? 1 : 0, tb = p.ta ? 1 : 0;
  api.product_set(plan.product, kTransA, &ta, sizeof ta);
  api.product_set(plan.product, kTransB, &tb, sizeof tb);
  plan.a = matrix(api, t.stored, p.tb ? p.n : p.k, p.tb ? p.k : p.n, p.ldb, p.batch, p.stride_b);
  plan.b = matrix(api, t.stored, p.ta ? p.k : p.m, p.ta ? p.m : p.k, p.lda, p.batch, p.stride_a);
  plan.c = matrix(api, t.stored, p.m, p.n, p.ldc, p.batch, p.stride_c);
  Descriptor preference = nullptr;
  if (plan.a == nullptr || plan.b == nullptr || plan.c == nullptr ||
      api.preference_create(&preference) != 0)
    return plan;
  api.preference_set(preference, kMaxWorkspace, &kWorkspace, sizeof kWorkspace);
  Heuristic best{};
  int found = 0;
  const int status = api.heuristic(handle, plan.product, plan.a, plan.b, plan.c, plan.c, preference,
                                   1, &best, &found);
  api.preference_destroy(preference);
  plan.usable = status == 0 && found == 1 && best.state == 0;
  plan.algorithm = best.algorithm;
  plan.workspace = best.workspace;
  return plan;
}

using Key = std::tuple<int, DType, bool, bool, int64_t, int64_t, int64_t, int64_t, int64_t, int64_t,
                       int64_t, int64_t, int64_t, int64_t, int>;

// Returns the alignment of all operands: an algorithm may need 16 bytes.
int alignment(const Product& p) noexcept {
  const auto all = reinterpret_cast<uintptr_t>(p.a) | reinterpret_cast<uintptr_t>(p.b) |
                   reinterpret_cast<uintptr_t>(p.c);
  return static_cast<int>(all & 15);
}

struct PlansOfGpu {
  std::mutex mutex;
  Handle handle = nullptr;
  std::map<Key, Plan> plans;
};

const Plan& plan_of(const Api& api, int gpu, const Product& p, const Types& t, Handle* handle) {
  static auto* const all = new std::array<PlansOfGpu, kMaxGpus>;
  static const Plan none;
  PlansOfGpu& of = (*all)[static_cast<size_t>(gpu)];
  const std::lock_guard lock(of.mutex);
  const DuringCapture allowed;  // the library allocates
  if (of.handle == nullptr && api.create(&of.handle) != 0) return none;
  *handle = of.handle;
  const Key key{gpu,   p.dtype, p.ta,       p.tb,       p.m,        p.n,     p.k,         p.lda,
                p.ldb, p.ldc,   p.stride_a, p.stride_b, p.stride_c, p.batch, alignment(p)};
  const auto it = of.plans.find(key);
  return it != of.plans.end()
             ? it->second
             : of.plans.emplace(key, make_plan(api, of.handle, p, t)).first->second;
}

}  // namespace

const Library& cublaslt() { return loaded().library; }

bool cublaslt_product(const Product& p) {
  const Types t = types_of(p.dtype);
  // The library checks alignment by the element's size only with a plan for such addresses.
  if (t.stored < 0 || !loaded().library.found() || p.batch > INT32_MAX || p.k == 0) return false;
  const Api& api = loaded().api;
  Gpu& gpu = here();
  Handle handle = nullptr;
  const Plan& plan = plan_of(api, gpu.index, p, t, &handle);
  if (!plan.usable) return false;
  // The factors have the type of the sums: (re, im) for complex products.
  double wide[2][2] = {{p.alpha, 0}, {p.beta, 0}};
  float narrow[2][2] = {{static_cast<float>(p.alpha), 0}, {static_cast<float>(p.beta), 0}};
  const bool is_double = t.compute == kDoubleCompute;
  const void* alpha = is_double ? static_cast<const void*>(wide[0]) : narrow[0];
  const void* beta = is_double ? static_cast<const void*>(wide[1]) : narrow[1];
  const Scratch workspace(plan.workspace);
  const Timed timed("cublasLtMatmul");
  const int status =
      api.matmul(handle, plan.product, alpha, p.b, plan.a, p.a, plan.b, beta, p.c, plan.c, p.c,
                 plan.c, &plan.algorithm, workspace.get(), plan.workspace, gpu.stream());
  if (status != 0)
    detail::fail(ErrorKind::Runtime, "cuBLASLt returned status ", status, " for a product of ", p.m,
                 " x ", p.k, " by ", p.k, " x ", p.n);
  launched("cublasLtMatmul");
  return true;
}

}  // namespace cograd::cuda
