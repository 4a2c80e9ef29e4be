// SPDX-License-Identifier: BSD-3-Clause
// A library with cuDNN's functions that computes convolutions by plain loops on the fake driver. It
// is stricter than cuDNN: handles belong to a thread, a GPU and the stream that was set last,
// arrays are aligned and lie within memory of a GPU, and the workspace becomes NaN.
//
// Each pass has six algorithms. The list of choices is not in the order of their times, has kinds
// of products that nobody asked for, and algorithms that fail when they run.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <map>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

#include "library.h"

namespace {

enum : int {
  kSuccess = 0,
  kNotInitialized = 1001,
  kBadParam = 2000,
  kMisaligned = 2003,
  kNotFinalized = 2004,
  kOutOfBound = 2005,
  kTooSmall = 2006,
  kStreamMismatch = 2007,
  kShapeMismatch = 2008,
  kNotSupported = 3000,
  kBadShape = 3002,
};
enum : int { kFloat = 0, kDouble = 1, kHalf = 2, kBFloat16 = 9 };
enum : int { kDefaultMath = 0, kTensorMath = 1, kConvertingMath = 2, kExactMath = 3 };

std::recursive_mutex mutex;

// ---- handles and descriptors
// ---------------------------------------------------------------------

struct Handle {
  int device;
  bool has_stream = false;
  void* stream = nullptr;
  std::thread::id thread;  // that set the stream
};
std::set<Handle*>& handles() {
  static auto* const all = new std::set<Handle*>;
  return *all;
}
// Returns 0 if a handle may be used here.
int check(void* h) {
  auto* const handle = static_cast<Handle*>(h);
  if (!handles().contains(handle)) return kNotInitialized;
  if (!handle->has_stream || handle->thread != std::this_thread::get_id() ||
      handle->device != fake::driver().device())
    return kStreamMismatch;
  return kSuccess;
}

enum class Kind : unsigned char { Tensor, Filter, Convolution };
struct Descriptor {
  Kind kind;
  bool set = false;
  int type = 0, dims = 0;
  long long sizes[5] = {1, 1, 1, 1, 1}, strides[5] = {0, 0, 0, 0, 0};
  int padding[3] = {0, 0, 0}, stride[3] = {1, 1, 1}, dilation[3] = {1, 1, 1};
  int groups = 1, math = kDefaultMath;
  long long elements() const {
    long long n = 1;
    for (const long long s : sizes) n *= s;
    return n;
  }
};
std::set<Descriptor*>& descriptors() {
  static auto* const all = new std::set<Descriptor*>;
  return *all;
}
Descriptor* of_kind(void* d, Kind kind) {
  auto* const found = static_cast<Descriptor*>(d);
  return descriptors().contains(found) && found->kind == kind ? found : nullptr;
}
int create(void** d, Kind kind) {
  const std::lock_guard lock(mutex);
  auto* const made = new Descriptor{kind};
  descriptors().insert(made);
  *d = made;
  return kSuccess;
}
int destroy(void* d, Kind kind) {
  const std::lock_guard lock(mutex);
  Descriptor* const found = of_kind(d, kind);
  if (found == nullptr) return kBadParam;
  descriptors().erase(found);
  delete found;
  return kSuccess;
}
int set_sizes(Descriptor& d, int type, int dims, const int* sizes) {
  if (dims < 4 || dims > 5) return kNotSupported;
  if (type != kFloat && type != kDouble && type != kHalf && type != kBFloat16) return kBadParam;
  d.type = type;
  d.dims = dims;
  for (int i = 0; i < dims; ++i) {
    if (sizes[i] < 1) return kBadParam;
    d.sizes[i] = sizes[i];
  }
  return d.elements() < (1LL << 31) ? kSuccess : kNotSupported;
}

// ---- numbers
// -------------------------------------------------------------------------------------

size_t item(int type) { return type == kDouble ? 8 : type == kFloat ? 4 : 2; }
float of_bits(uint32_t bits) {
  float v = 0;
  std::memcpy(&v, &bits, 4);
  return v;
}
uint32_t bits_of(float v) {
  uint32_t bits = 0;
  std::memcpy(&bits, &v, 4);
  return bits;
}
// Rounds to `kept` bits of mantissa, to even. NaN and infinity stay.
float rounded(float v, int kept) {
  if (!std::isfinite(v)) return v;
  const int cut = 23 - kept;
  uint32_t bits = bits_of(v);
  bits += (1u << (cut - 1)) - 1 + (bits >> cut & 1);
  return of_bits(bits >> cut << cut);
}
double load(int type, const char* p) {
  if (type == kDouble) {
    double v = 0;
    std::memcpy(&v, p, 8);
    return v;
  }
  if (type == kFloat) {
    float v = 0;
    std::memcpy(&v, p, 4);
    return v;
  }
  uint16_t h = 0;
  std::memcpy(&h, p, 2);
  if (type == kBFloat16) return of_bits(uint32_t{h} << 16);
  const int exponent = h >> 10 & 31, mantissa = h & 1023;
  double v = exponent == 0    ? std::ldexp(mantissa, -24)
             : exponent == 31 ? (mantissa == 0 ? HUGE_VAL : NAN)
                              : std::ldexp(1024 + mantissa, exponent - 25);
  return (h & 0x8000) != 0 ? -v : v;
}
void store(int type, char* p, double v) {
  const auto f = static_cast<float>(v);
  if (type == kDouble) {
    std::memcpy(p, &v, 8);
  } else if (type == kFloat) {
    std::memcpy(p, &f, 4);
  } else if (type == kBFloat16) {
    const auto h = static_cast<uint16_t>(std::isnan(f) ? 0x7fc0 : bits_of(rounded(f, 7)) >> 16);
    std::memcpy(p, &h, 2);
  } else {
    const double magnitude = std::fabs(v);
    uint16_t h = 0x7e00;
    if (!std::isnan(v)) {
      int exponent = 0;
      std::frexp(magnitude, &exponent);
      exponent = std::max(exponent, -13);  // smaller numbers are subnormal
      const double units = std::nearbyint(std::ldexp(magnitude, 11 - exponent));
      const double whole = units + 1024.0 * (exponent + 13);
      h = static_cast<uint16_t>(magnitude == 0 ? 0 : std::min(whole, 31744.0));
    }
    if (std::signbit(v)) h |= 0x8000;
    std::memcpy(p, &h, 2);
  }
}

// ---- convolutions
// --------------------------------------------------------------------------------

enum Pass : int { kForward, kInputGrad, kWeightGrad };
constexpr const char* kNames[] = {"cudnnConvolutionForward", "cudnnConvolutionBackwardData",
                                  "cudnnConvolutionBackwardFilter"};

// Number 0 needs no workspace and repeats; 1 is slow, though it comes first; 2 is fastest and does
// not repeat; 3 needs much memory; 4 takes kernels of 3 points alone, but says so when it runs; 5
// needs more memory than anyone has.
constexpr int kAlgorithms = 6;
constexpr int kOrder[kAlgorithms] = {5, 4, 1, 3, 2, 0};
constexpr int kCost[kAlgorithms] = {6, 9, 1, 3, 2, 1};
bool repeats(int algorithm) { return algorithm != 2; }

struct Problem {
  Descriptor x, w, y, convolution;
};
// Checks the descriptors of a call in the order of its pass. Returns 0 if they belong together.
int problem_of(Pass pass, void* a, void* b, void* convolution, void* c, Problem& p) {
  void* const x = pass == kInputGrad ? c : a;
  void* const w = pass == kForward ? b : pass == kInputGrad ? a : c;
  void* const y = pass == kForward ? c : b;
  const Descriptor *dx = of_kind(x, Kind::Tensor), *dw = of_kind(w, Kind::Filter),
                   *dy = of_kind(y, Kind::Tensor), *dc = of_kind(convolution, Kind::Convolution);
  if (dx == nullptr || dw == nullptr || dy == nullptr || dc == nullptr) return kBadParam;
  if (!dx->set || !dw->set || !dy->set || !dc->set) return kNotFinalized;
  p = {*dx, *dw, *dy, *dc};
  if (p.x.dims != p.w.dims || p.x.dims != p.y.dims || p.x.dims != p.convolution.dims + 2 ||
      p.x.type != p.w.type || p.x.type != p.y.type)
    return kBadParam;
  if (p.convolution.type != (p.x.type == kDouble ? kDouble : kFloat)) return kBadParam;
  const long long g = p.convolution.groups;
  if (p.x.sizes[0] != p.y.sizes[0] || p.x.sizes[1] != p.w.sizes[1] * g ||
      p.y.sizes[1] != p.w.sizes[0] || p.w.sizes[0] % g != 0)
    return kShapeMismatch;
  for (int d = 0; d < p.x.dims - 2; ++d) {
    const Descriptor& o = p.convolution;
    const long long reach = o.dilation[d] * (p.w.sizes[d + 2] - 1) + 1;
    if ((p.x.sizes[d + 2] + 2LL * o.padding[d] - reach) / o.stride[d] + 1 != p.y.sizes[d + 2])
      return kShapeMismatch;
  }
  return kSuccess;
}

size_t workspace_of(const Problem& p, int algorithm) {
  if (algorithm == 0) return 0;
  if (algorithm == 5) return size_t{1} << 40;
  const auto bytes = static_cast<size_t>(p.y.elements()) * item(p.y.type);
  return 64 + bytes * (algorithm == 3 ? 64 : 1);
}

// Calls f(place in x, place in w, place in y) for all products.
template <class F>
void each_product(const Problem& p, F&& f) {
  const int n = p.x.dims - 2;
  const Descriptor& o = p.convolution;
  const long long per_group = p.w.sizes[0] / o.groups;
  long long taps = 1, places = 1;
  for (int d = 0; d < n; ++d) {
    taps *= p.w.sizes[d + 2];
    places *= p.y.sizes[d + 2];
  }
  for (long long image = 0; image < p.y.sizes[0]; ++image)
    for (long long out = 0; out < p.y.sizes[1]; ++out)
      for (long long place = 0; place < places; ++place)
        for (long long in = 0; in < p.w.sizes[1]; ++in)
          for (long long tap = 0; tap < taps; ++tap) {
            long long at_x =
                image * p.x.strides[0] + (out / per_group * p.w.sizes[1] + in) * p.x.strides[1];
            long long at_y = image * p.y.strides[0] + out * p.y.strides[1];
            bool inside = true;
            long long rest = place, taps_left = tap;
            for (int d = n - 1; d >= 0; --d) {
              const long long q = rest % p.y.sizes[d + 2], t = taps_left % p.w.sizes[d + 2];
              rest /= p.y.sizes[d + 2];
              taps_left /= p.w.sizes[d + 2];
              const long long i = q * o.stride[d] + t * o.dilation[d] - o.padding[d];
              inside = inside && i >= 0 && i < p.x.sizes[d + 2];
              at_x += i * p.x.strides[d + 2];
              at_y += q * p.y.strides[d + 2];
            }
            if (inside) f(at_x, (out * p.w.sizes[1] + in) * taps + tap, at_y);
          }
}

std::vector<double> load_all(const Problem& p, int type, const char* from, long long n) {
  std::vector<double> values(static_cast<size_t>(n));
  const bool tf32 = type == kFloat && p.convolution.math != kExactMath;
  for (long long i = 0; i < n; ++i) {
    const double v = load(type, from + static_cast<size_t>(i) * item(type));
    values[static_cast<size_t>(i)] = tf32 ? rounded(static_cast<float>(v), 10) : v;
  }
  return values;
}
void compute(Pass pass, const Problem& p, const char* a, const char* b, char* c) {
  const int type = p.x.type;
  const auto nx = p.x.elements(), nw = p.w.elements(), ny = p.y.elements();
  const std::vector<double> first = load_all(p, type, a, pass == kInputGrad ? nw : nx),
                            second = load_all(p, type, b, pass == kForward ? nw : ny);
  std::vector<double> sums(static_cast<size_t>(pass == kForward     ? ny
                                               : pass == kInputGrad ? nx
                                                                    : nw));
  each_product(p, [&](long long x, long long w, long long y) {
    const auto ix = static_cast<size_t>(x), iw = static_cast<size_t>(w),
               iy = static_cast<size_t>(y);
    if (pass == kForward) sums[iy] += first[ix] * second[iw];
    if (pass == kInputGrad) sums[ix] += first[iw] * second[iy];
    if (pass == kWeightGrad) sums[iw] += first[ix] * second[iy];
  });
  for (size_t i = 0; i < sums.size(); ++i) store(type, c + i * item(type), sums[i]);
}

struct Choice {
  int algorithm, status;
  float milliseconds;
  size_t workspace;
  int deterministic, math;
  int reserved[3];
};
static_assert(sizeof(Choice) == 48);

int choose(Pass pass, void* handle, void* a, void* b, void* convolution, void* c, int asked,
           int* found, Choice* choices) {
  const std::lock_guard lock(mutex);
  if (const int status = check(handle); status != 0) return status;
  Problem p;
  if (const int status = problem_of(pass, a, b, convolution, c, p); status != 0) return status;
  // Groups of 16-bit numbers in three dims, and long kernels, have no algorithm at all.
  if (item(p.x.type) == 2 && p.convolution.groups > 1 && p.x.dims == 5) return kNotSupported;
  *found = 0;
  const auto add = [&](int algorithm, int status, int math) {
    if (*found == asked) return;
    choices[(*found)++] = {algorithm,
                           status,
                           static_cast<float>(*found),
                           workspace_of(p, algorithm),
                           repeats(algorithm) ? 1 : 0,
                           math,
                           {0, 0, 0}};
  };
  const int math = p.convolution.math;
  for (const int algorithm : kOrder) {
    const int status = p.w.sizes[2] > 7 ? kNotSupported : kSuccess;
    if (algorithm == 1) add(1, status, kConvertingMath);
    add(algorithm, status, math == kDefaultMath && algorithm % 2 == 1 ? kTensorMath : math);
  }
  return kSuccess;
}
int workspace(Pass pass, void* handle, void* a, void* b, void* convolution, void* c, int algorithm,
              size_t* bytes) {
  const std::lock_guard lock(mutex);
  if (const int status = check(handle); status != 0) return status;
  Problem p;
  if (const int status = problem_of(pass, a, b, convolution, c, p); status != 0) return status;
  if (algorithm < 0 || algorithm >= kAlgorithms) return kBadParam;
  *bytes = workspace_of(p, algorithm);
  return kSuccess;
}

struct Runs {
  int64_t count = 0;
  int math = -1;
};
std::map<std::pair<int, int>, Runs>& runs() {
  static auto* const all = new std::map<std::pair<int, int>, Runs>;
  return *all;
}

bool is_factor(int type, const void* p, double expected) {
  double wide = 0;
  float narrow = 0;
  std::memcpy(type == kDouble ? static_cast<void*>(&wide) : &narrow, p, type == kDouble ? 8 : 4);
  return (type == kDouble ? wide : narrow) == expected;
}

int run(Pass pass, void* handle, const void* alpha, void* a_desc, const void* a, void* b_desc,
        const void* b, void* convolution, int algorithm, void* work, size_t work_bytes,
        const void* beta, void* c_desc, void* c) {
  const std::lock_guard lock(mutex);
  if (const int status = check(handle); status != 0) return status;
  Problem p;
  if (const int status = problem_of(pass, a_desc, b_desc, convolution, c_desc, p); status != 0)
    return status;
  if (!is_factor(p.x.type, alpha, 1) || !is_factor(p.x.type, beta, 0)) return kBadParam;
  if (algorithm < 0 || algorithm >= kAlgorithms) return kBadParam;
  if (algorithm == 4 && p.w.sizes[p.w.dims - 1] != 3) return kBadShape;
  const size_t needed = workspace_of(p, algorithm);
  if (work_bytes < needed) return kTooSmall;
  if (!fake::driver().owns(work, needed)) return kOutOfBound;
  const auto bytes_of = [](void* d) {
    const auto* const found = static_cast<Descriptor*>(d);
    return static_cast<size_t>(found->elements()) * item(found->type);
  };
  const void* const arrays[3] = {a, b, c};
  void* const described[3] = {a_desc, b_desc, c_desc};
  const auto* const to = static_cast<const char*>(c);
  for (int i = 0; i < 3; ++i) {
    const auto* const from = static_cast<const char*>(arrays[i]);
    if (reinterpret_cast<uintptr_t>(from) % 16 != 0) return kMisaligned;
    if (!fake::driver().owns(from, bytes_of(described[i]))) return kOutOfBound;
    if (i < 2 && from < to + bytes_of(c_desc) && to < from + bytes_of(described[i]))
      return kBadParam;
  }
  Runs& r = runs()[{pass, algorithm}];
  ++r.count;
  r.math = p.convolution.math;
  void* const stream = static_cast<Handle*>(handle)->stream;
  for (int i = 1; i < kCost[algorithm]; ++i) fake::driver().enqueue("cudnn_part", stream, {});
  fake::driver().enqueue(kNames[pass], stream, [=] {
    if (needed > 0) std::memset(work, 0xff, needed);
    compute(pass, p, static_cast<const char*>(a), static_cast<const char*>(b),
            static_cast<char*>(c));
  });
  return kSuccess;
}

size_t setting(const char* name, size_t otherwise) {
  const char* const v = std::getenv(name);
  return v == nullptr ? otherwise : static_cast<size_t>(std::atoll(v));
}

}  // namespace

#define FAKE_SIZE extern "C" __attribute__((visibility("default"))) size_t

FAKE_SIZE cudnnGetVersion() { return setting("FAKE_CUDNN_VERSION", 91002); }
FAKE_SIZE cudnnGetCudartVersion() { return setting("FAKE_CUDNN_CUDA", 13000); }
extern "C" __attribute__((visibility("default"))) const char* cudnnGetErrorString(int status) {
  switch (status) {
    case kNotInitialized:
      return "CUDNN_STATUS_NOT_INITIALIZED";
    case kStreamMismatch:
      return "CUDNN_STATUS_BAD_PARAM_STREAM_MISMATCH";
    case 4000:
      return "CUDNN_STATUS_INTERNAL_ERROR";
    case 4003:
      return "CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED";
    case 4004:
      return "CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED";
    case 5000:
      return "CUDNN_STATUS_EXECUTION_FAILED";
    default:
      return "CUDNN_UNKNOWN_STATUS";
  }
}
extern "C" __attribute__((visibility("default"))) void cudnnGetLastErrorString(char* to, size_t n) {
  std::snprintf(to, n, "%s", setting("FAKE_CUDNN_SILENT", 0) != 0 ? "" : "the fake's reason");
}

FAKE_API cudnnCreate(void** handle) {
  FAKE_ENTER(cudnnCreate);
  const std::lock_guard lock(mutex);
  auto* const made = new Handle{fake::driver().device()};
  handles().insert(made);
  *handle = made;
  return kSuccess;
}
FAKE_API cudnnSetStream(void* handle, void* stream) {
  FAKE_ENTER(cudnnSetStream);
  const std::lock_guard lock(mutex);
  auto* const h = static_cast<Handle*>(handle);
  if (!handles().contains(h) || h->device != fake::driver().device()) return kBadParam;
  h->stream = stream;
  h->has_stream = true;
  h->thread = std::this_thread::get_id();
  return kSuccess;
}

FAKE_API cudnnCreateTensorDescriptor(void** d) {
  FAKE_ENTER(cudnnCreateTensorDescriptor);
  return create(d, Kind::Tensor);
}
FAKE_API cudnnDestroyTensorDescriptor(void* d) { return destroy(d, Kind::Tensor); }
FAKE_API cudnnCreateFilterDescriptor(void** d) {
  FAKE_ENTER(cudnnCreateFilterDescriptor);
  return create(d, Kind::Filter);
}
FAKE_API cudnnDestroyFilterDescriptor(void* d) { return destroy(d, Kind::Filter); }
FAKE_API cudnnCreateConvolutionDescriptor(void** d) {
  FAKE_ENTER(cudnnCreateConvolutionDescriptor);
  return create(d, Kind::Convolution);
}
FAKE_API cudnnDestroyConvolutionDescriptor(void* d) { return destroy(d, Kind::Convolution); }

FAKE_API cudnnSetTensorNdDescriptor(void* d, int type, int dims, const int* sizes,
                                    const int* strides) {
  FAKE_ENTER(cudnnSetTensorNdDescriptor);
  const std::lock_guard lock(mutex);
  Descriptor* const t = of_kind(d, Kind::Tensor);
  if (t == nullptr) return kBadParam;
  if (const int status = set_sizes(*t, type, dims, sizes); status != 0) return status;
  long long step = 1;  // without gaps, in this order
  for (int i = dims - 1; i >= 0; --i) {
    if (strides[i] != step) return kNotSupported;
    t->strides[i] = step;
    step *= sizes[i];
  }
  t->set = true;
  return kSuccess;
}
FAKE_API cudnnSetFilterNdDescriptor(void* d, int type, int format, int dims, const int* sizes) {
  FAKE_ENTER(cudnnSetFilterNdDescriptor);
  const std::lock_guard lock(mutex);
  Descriptor* const f = of_kind(d, Kind::Filter);
  if (f == nullptr || format != 0) return kBadParam;
  if (const int status = set_sizes(*f, type, dims, sizes); status != 0) return status;
  f->set = true;
  return kSuccess;
}
FAKE_API cudnnSetConvolutionNdDescriptor(void* d, int dims, const int* padding, const int* stride,
                                         const int* dilation, int mode, int type) {
  FAKE_ENTER(cudnnSetConvolutionNdDescriptor);
  const std::lock_guard lock(mutex);
  Descriptor* const c = of_kind(d, Kind::Convolution);
  constexpr int kCrossCorrelation = 1;
  if (c == nullptr || dims < 2 || dims > 3 || mode != kCrossCorrelation) return kBadParam;
  for (int i = 0; i < dims; ++i) {
    if (padding[i] < 0 || stride[i] < 1 || dilation[i] < 1) return kBadParam;
    c->padding[i] = padding[i];
    c->stride[i] = stride[i];
    c->dilation[i] = dilation[i];
  }
  c->dims = dims;
  c->type = type;
  c->set = true;
  return kSuccess;
}
FAKE_API cudnnSetConvolutionGroupCount(void* d, int groups) {
  FAKE_ENTER(cudnnSetConvolutionGroupCount);
  const std::lock_guard lock(mutex);
  Descriptor* const c = of_kind(d, Kind::Convolution);
  if (c == nullptr || groups < 1) return kBadParam;
  c->groups = groups;
  return kSuccess;
}
FAKE_API cudnnSetConvolutionMathType(void* d, int math) {
  FAKE_ENTER(cudnnSetConvolutionMathType);
  const std::lock_guard lock(mutex);
  Descriptor* const c = of_kind(d, Kind::Convolution);
  if (c == nullptr || math < 0 || math > kExactMath) return kBadParam;
  c->math = math;
  return kSuccess;
}

#define FAKE_PASS(pass, Name, run_name)                                                          \
  FAKE_API cudnnGetConvolution##Name##Algorithm_v7(void* handle, void* a, void* b, void* o,      \
                                                   void* c, int asked, int* found, Choice* to) { \
    FAKE_ENTER(cudnnGetConvolution##Name##Algorithm_v7);                                         \
    return choose(pass, handle, a, b, o, c, asked, found, to);                                   \
  }                                                                                              \
  FAKE_API cudnnGetConvolution##Name##WorkspaceSize(void* handle, void* a, void* b, void* o,     \
                                                    void* c, int algorithm, size_t* bytes) {     \
    FAKE_ENTER(cudnnGetConvolution##Name##WorkspaceSize);                                        \
    return workspace(pass, handle, a, b, o, c, algorithm, bytes);                                \
  }                                                                                              \
  FAKE_API run_name(void* handle, const void* alpha, void* a_desc, const void* a, void* b_desc,  \
                    const void* b, void* o, int algorithm, void* work, size_t work_bytes,        \
                    const void* beta, void* c_desc, void* c) {                                   \
    FAKE_ENTER(run_name);                                                                        \
    return run(pass, handle, alpha, a_desc, a, b_desc, b, o, algorithm, work, work_bytes, beta,  \
               c_desc, c);                                                                       \
  }
FAKE_PASS(kForward, Forward, cudnnConvolutionForward)
FAKE_PASS(kInputGrad, BackwardData, cudnnConvolutionBackwardData)
FAKE_PASS(kWeightGrad, BackwardFilter, cudnnConvolutionBackwardFilter)

// What exists.
FAKE_API fake_cudnn_descriptors() {
  const std::lock_guard lock(mutex);
  return static_cast<int>(descriptors().size());
}
FAKE_API fake_cudnn_handles() {
  const std::lock_guard lock(mutex);
  return static_cast<int>(handles().size());
}
// How often an algorithm of a pass has run, and the kind of products at its last run.
FAKE_API fake_cudnn_runs(int pass, int algorithm) {
  const std::lock_guard lock(mutex);
  return static_cast<int>(runs()[{pass, algorithm}].count);
}
FAKE_API fake_cudnn_math(int pass, int algorithm) {
  const std::lock_guard lock(mutex);
  return runs()[{pass, algorithm}].math;
}
