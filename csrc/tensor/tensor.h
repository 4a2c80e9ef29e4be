// SPDX-License-Identifier: BSD-3-Clause
// TensorImpl, the strided tensor, and Tensor, a counted reference to it.
#pragma once
#include <atomic>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "cograd/dtype.h"
#include "cograd/error.h"
#include "cograd/scalar.h"
#include "tensor/device.h"
#include "tensor/dims.h"
#include "tensor/published.h"
#include "tensor/storage.h"

namespace cograd {

class Node;
struct AutogradMeta;
class Tensor;

enum TensorFlags : uint32_t {
  kContiguous = 1,
  kRequiresGrad = 2,   // a leaf with requires_grad=True
  kTaint = 4,          // created from differentiable inputs inside a Function's forward
  kInference = 8,      // created under inference_mode
  kOwnsPyObject = 16,  // the tensor keeps its Python object alive, not the other way round
  kRetainsGrad = 32,
  // How a view was created; decides whether it may be written in place with grad mode on.
  kViewNoGrad = 64,
  kViewMultiOutput = 128,
  kViewCustomFunction = 256,
  kWrappedNumber = 512,  // a Python number wrapped in a 0-dim tensor: weak in type promotion
  kViewOfNoGrad = 1024,  // a view, created with grad mode on, of a kViewNoGrad view
  kViewInference = 2048,
  kDual = 4096,        // has, or had, a tangent at some dual level
  kBatched = 8192,     // a batched tensor of a vmap
  kRewritten = 16384,  // was written in place while recorded: it may be part of a reference cycle
  kSharesWrites = 32768,  // other tensors over its memory have histories of their own; not a view
};
inline constexpr uint32_t kViewKinds =
    kViewNoGrad | kViewMultiOutput | kViewCustomFunction | kViewOfNoGrad | kViewInference;

// Set by the layers above; until then a tensor has neither autograd state nor a Python object.
struct TensorHooks {
  void (*release_autograd)(struct TensorImpl*) noexcept = nullptr;  // drops base, grad_fn and meta
  void (*release_pyobj)(struct TensorImpl*) noexcept = nullptr;
};
COGRAD_API extern TensorHooks tensor_hooks;

struct COGRAD_API TensorImpl {
  std::atomic<uint32_t> refs{1};
  DType dtype;
  uint8_t ndim = 0;
  Device device = thread_place.now;
  uint32_t flags = 0;
  uint32_t output_nr = 0;
  int64_t numel = 0;
  char* data = nullptr;
  Storage* storage = nullptr;
  TensorImpl* base = nullptr;  // what this tensor is a differentiable view of; never itself a view
  Node* grad_fn = nullptr;
  Published<AutogradMeta> meta;
  VersionCounter* own_version = nullptr;  // null: the storage's counter is used
  void* pyobj = nullptr;
  int64_t* sizes_ = inline_;
  int64_t* strides_ = inline_ + kInlineDims;
  uint32_t view_version = 0;  // version at which the grad_fn of a view was last created
  static constexpr int kInlineDims = 5;
  int64_t inline_[2 * kInlineDims];

  static TensorImpl* make(DType dtype, int ndim) {
    if (ndim > kInlineDims) [[unlikely]]
      return make_wide(dtype, ndim);
    auto* p = new (small_alloc(sizeof(TensorImpl))) TensorImpl(dtype);
    p->ndim = static_cast<uint8_t>(ndim);
    return p;
  }
  explicit TensorImpl(DType t) noexcept : dtype(t) {}

  IntList sizes() const noexcept { return {sizes_, ndim}; }
  IntList strides() const noexcept { return {strides_, ndim}; }
  std::atomic<uint32_t>& version() noexcept {
    return own_version != nullptr ? own_version->value : storage->version;
  }
  // Returns the number of in-place writes, as users see it.
  uint32_t write_count() noexcept { return version().load(std::memory_order_relaxed); }
  // Returns the version that saved tensors compare; new data of another geometry changes it too.
  uint32_t current_version() noexcept {
    if (own_version == nullptr) [[likely]]
      return storage->version.load(std::memory_order_relaxed);
    return own_version->value.load(std::memory_order_relaxed) + own_version->geometry;
  }
  void bump_version() noexcept { version().fetch_add(1, std::memory_order_relaxed); }
  bool is_view() const noexcept { return base != nullptr; }

  // Recomputes numel and kContiguous. Call this after writing sizes_ and strides_.
  void refresh_geometry() {
    int64_t n = 1;
    bool contiguous = true;
    bool overflow = false;
    for (int i = ndim - 1; i >= 0; --i) {
      if (sizes_[i] != 1 && strides_[i] != n) contiguous = false;
      overflow |= __builtin_mul_overflow(n, sizes_[i], &n);
    }
    if (overflow) [[unlikely]]
      fail_numel();
    numel = n;
    flags = (contiguous || n == 0) ? flags | kContiguous : flags & ~uint32_t{kContiguous};
  }
  // Sets contiguous sizes and strides. `sizes` must have passed the checks of storage_bytes().
  void set_contiguous_geometry(const int64_t* sizes) noexcept {
    uint64_t n = 1;  // unsigned: of an empty tensor the product with size 0 may overflow
    for (int i = ndim - 1; i >= 0; --i) {
      sizes_[i] = sizes[i];
      strides_[i] = static_cast<int64_t>(n);
      n *= static_cast<uint64_t>(sizes[i] > 1 ? sizes[i] : 1);
    }
    numel = 1;
    for (int i = 0; i < ndim; ++i) numel *= sizes[i];
    flags |= kContiguous;
  }
  void retain() noexcept { refs.fetch_add(1, std::memory_order_relaxed); }
  void release() noexcept {
    if (refs.load(std::memory_order_acquire) == 1 ||
        refs.fetch_sub(1, std::memory_order_acq_rel) == 1)
      destroy();
  }
  void destroy() noexcept {
    if (pyobj != nullptr) [[unlikely]] {
      if ((flags & kOwnsPyObject) == 0)
        pyobj = nullptr;
      else
        tensor_hooks.release_pyobj(this);
    }
    if (base != nullptr || grad_fn != nullptr || meta != nullptr)
      tensor_hooks.release_autograd(this);
    if (own_version != nullptr) [[unlikely]]
      release_own_version();
    if (storage != nullptr) storage->release();
    if (ndim > kInlineDims) [[unlikely]]
      drop_dims();
    small_free(this, sizeof(TensorImpl));
  }
  // Returns a tensor over the same bytes with the same geometry and version counter but no history.
  TensorImpl* alias() const;
  void drop_dims() noexcept;
  void release_own_version() noexcept;
  void set_ndim(int n);

 private:
  static TensorImpl* make_wide(DType dtype, int n);
  // Allocates sizes and strides; null if the inline array suffices. Raises if n exceeds kMaxDims.
  static int64_t* room_for(int n);
};

class Tensor {
 public:
  Tensor() noexcept = default;
  Tensor(const Tensor& o) noexcept : p_(o.p_) {
    if (p_ != nullptr) p_->retain();
  }
  Tensor(Tensor&& o) noexcept : p_(std::exchange(o.p_, nullptr)) {}
  Tensor& operator=(const Tensor& o) noexcept {
    Tensor(o).swap(*this);
    return *this;
  }
  Tensor& operator=(Tensor&& o) noexcept {
    Tensor(std::move(o)).swap(*this);
    return *this;
  }
  ~Tensor() {
    if (p_ != nullptr) p_->release();
  }
  static Tensor steal(TensorImpl* p) noexcept {
    Tensor t;
    t.p_ = p;
    return t;
  }
  static Tensor borrow(TensorImpl* p) noexcept {
    if (p != nullptr) p->retain();
    return steal(p);
  }
  void swap(Tensor& o) noexcept { std::swap(p_, o.p_); }
  void reset() noexcept { Tensor().swap(*this); }
  TensorImpl* release() noexcept { return std::exchange(p_, nullptr); }

  bool defined() const noexcept { return p_ != nullptr; }
  TensorImpl* impl() const noexcept { return p_; }
  TensorImpl* operator->() const noexcept { return p_; }
  bool is(const Tensor& o) const noexcept { return p_ == o.p_; }

  int dim() const noexcept { return p_->ndim; }
  int64_t numel() const noexcept { return p_->numel; }
  IntList sizes() const noexcept { return p_->sizes(); }
  IntList strides() const noexcept { return p_->strides(); }
  int64_t size(int d) const noexcept { return p_->sizes_[d < 0 ? d + p_->ndim : d]; }
  int64_t stride(int d) const noexcept { return p_->strides_[d < 0 ? d + p_->ndim : d]; }
  DType dtype() const noexcept { return p_->dtype; }
  int64_t itemsize() const noexcept { return dtype_size(p_->dtype); }
  bool is_floating() const noexcept { return cograd::is_floating(p_->dtype); }
  bool is_contiguous() const noexcept { return (p_->flags & kContiguous) != 0; }
  char* bytes() const noexcept { return p_->data; }
  template <class T>
  T* data() const noexcept {
    return reinterpret_cast<T*>(p_->data);
  }
  int64_t storage_offset() const noexcept {
    return (p_->data - static_cast<char*>(p_->storage->data)) / itemsize();
  }

 private:
  TensorImpl* p_ = nullptr;
};
static_assert(sizeof(Tensor) == sizeof(void*));

using TensorList = std::span<const Tensor>;

// Returns a contiguous tensor with undefined contents.
inline Tensor empty(IntList sizes, DType dtype) {
  int64_t bytes = dtype_size(dtype);
  bool bad = false;
  for (int64_t s : sizes) bad |= (s < 0) | __builtin_mul_overflow(bytes, s, &bytes);
  if (bad | (bytes == 0)) [[unlikely]]
    bytes = storage_bytes(sizes, dtype_size(dtype));
  TensorImpl* p = TensorImpl::make(dtype, static_cast<int>(sizes.size()));
  Tensor out = Tensor::steal(p);
  p->storage = Storage::make(bytes);
  p->data = static_cast<char*>(p->storage->data);
  p->set_contiguous_geometry(sizes.data());
  return out;
}
inline Tensor empty_like(const Tensor& t) { return empty(t.sizes(), t.dtype()); }
// Like `empty`, after checking the sizes (negative, overflow) on behalf of `op`.
COGRAD_API Tensor empty_checked(const char* op, IntList sizes, DType dtype);

// Returns a tensor over `t`'s storage with another geometry and no autograd relation to `t`.
COGRAD_API Tensor alias_strided(const Tensor& t, IntList sizes, IntList strides, char* data);

// Returns the dtype of new floating-point tensors: float32 unless set_default_dtype changed it.
COGRAD_API DType default_dtype() noexcept;
COGRAD_API void set_default_dtype(DType t);

// Returns `dim` made non-negative; raises IndexError if it is not in [-ndim, ndim). A 0-dim tensor
// counts as 1-dim.
COGRAD_API int wrap_dim(int64_t dim, int ndim);

}  // namespace cograd
