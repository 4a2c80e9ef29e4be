// SPDX-License-Identifier: BSD-3-Clause
// The functions of TensorImpl, Storage and Dims that need not be inline.
#include "tensor/tensor.h"

#include "tensor/sparse.h"

#include <memory>

#include "tensor/backend.h"
#include "tensor/fake_device.h"

namespace cograd {

TensorHooks tensor_hooks;

Storage* Storage::wrap(void* data, int64_t nbytes, void (*deleter)(void*), void* context,
                       bool read_only) {
  auto* s = new (small_alloc(sizeof(Storage))) Storage;
  s->data = data;
  s->nbytes = nbytes;
  s->deleter = deleter;
  s->context = context;
  s->kind = 2;
  s->read_only = read_only;
  return s;
}

constinit std::atomic<uint32_t> capture_clock{0};

Storage* Storage::part(void* at, int64_t size) {
  Storage* whole = kind == 3 ? static_cast<Storage*>(context) : this;
  const auto release = [](void* storage) { static_cast<Storage*>(storage)->release(); };
  Storage* s = wrap(at, size, release, whole, read_only);
  s->kind = 3;
  s->born = whole->born;
  whole->retain();
  return s;
}

Storage* Storage::make_large(int64_t nbytes) {
  auto* s = new (small_alloc(sizeof(Storage))) Storage;
  try {
    s->data = data_alloc(static_cast<size_t>(nbytes));
  } catch (...) {
    small_free(s, sizeof(Storage));
    throw;
  }
  s->nbytes = nbytes;
  return s;
}

void Storage::destroy_slow() noexcept {
  if (kind == 0)
    data_free(data, static_cast<size_t>(nbytes));
  else if (deleter != nullptr)
    deleter(context);
  small_free(this, sizeof(Storage));
}

Storage* Storage::make_elsewhere(int64_t nbytes) {
  const Device here = thread_place.now;
  Storage* s;
  if (Backend* b = backend_of(here.type))
    s = b->make_storage(here, nbytes);
  else if (here.type == DeviceType::Fake)
    s = make_fake_storage(nbytes);
  else
    s = wrap(meta_address(nbytes), nbytes, nullptr, nullptr, false);
  s->kind = 4;
  return s;
}

int64_t* TensorImpl::room_for(int n) {
  COGRAD_CHECK(n <= kMaxDims, "a tensor has at most ", kMaxDims, " dimensions, got ", n);
  return n <= kInlineDims ? nullptr : new int64_t[2 * static_cast<size_t>(n)];
}
TensorImpl* TensorImpl::make_wide(DType dtype, int n) {
  std::unique_ptr<int64_t[]> room(room_for(n));
  auto* p = new (small_alloc(sizeof(TensorImpl))) TensorImpl(dtype);
  p->ndim = static_cast<uint8_t>(n);
  p->sizes_ = room.release();
  p->strides_ = p->sizes_ + n;
  return p;
}
void TensorImpl::drop_dims() noexcept {
  delete[] sizes_;
  sizes_ = inline_;
  strides_ = inline_ + kInlineDims;
}
void TensorImpl::set_ndim(int n) {
  int64_t* room = room_for(n);
  if (ndim > kInlineDims) drop_dims();
  ndim = static_cast<uint8_t>(n);
  if (room == nullptr) return;
  sizes_ = room;
  strides_ = room + n;
}
void TensorImpl::release_own_version() noexcept {
  if (own_version->refs.fetch_sub(1, std::memory_order_acq_rel) == 1) delete own_version;
  own_version = nullptr;
}

void fail_sparse(const char* who) {
  detail::fail(ErrorKind::NotImplemented, who,
               " is not supported for a sparse tensor: call to_dense() on it first, or compute "
               "with its values()");
}

TensorImpl* TensorImpl::alias() const {
  if (is_sparse(this)) [[unlikely]]
    fail_sparse("an operation that needs the memory of a tensor");
  TensorImpl* p = make(dtype, ndim);
  storage->retain();
  p->storage = storage;
  p->data = data;
  p->numel = numel;
  p->device = device;
  p->flags = flags & (kContiguous | kInference);
  if (own_version != nullptr) {
    own_version->refs.fetch_add(1, std::memory_order_relaxed);
    p->own_version = own_version;
  }
  std::copy_n(sizes_, ndim, p->sizes_);
  std::copy_n(strides_, ndim, p->strides_);
  return p;
}

Tensor alias_strided(const Tensor& t, IntList sizes, IntList strides, char* data) {
  TensorImpl* src = t.impl();
  TensorImpl* p = TensorImpl::make(src->dtype, static_cast<int>(sizes.size()));
  src->storage->retain();
  p->storage = src->storage;
  p->data = data;
  p->device = src->device;
  p->flags = src->flags & kInference;
  if (src->own_version != nullptr) {
    src->own_version->refs.fetch_add(1, std::memory_order_relaxed);
    p->own_version = src->own_version;
  }
  std::copy(sizes.begin(), sizes.end(), p->sizes_);
  std::copy(strides.begin(), strides.end(), p->strides_);
  Tensor out = Tensor::steal(p);
  p->refresh_geometry();
  return out;
}

Tensor empty_checked(const char* op, IntList sizes, DType dtype) {
  COGRAD_CHECK(sizes.size() <= kMaxDims, op, "(): at most ", kMaxDims, " dimensions, got ",
               sizes.size());
  for (int64_t s : sizes)
    COGRAD_CHECK(s >= 0, op, "(): Trying to create tensor with negative dimension ", s, ": ",
                 to_string(sizes));
  return empty(sizes, dtype);
}

static constinit std::atomic<DType> g_default_dtype{DType::Float32};
DType default_dtype() noexcept { return g_default_dtype.load(std::memory_order_relaxed); }
void set_default_dtype(DType t) {
  COGRAD_CHECK_TYPE(is_floating(t),
                    "only floating-point types are supported as the default type, got ",
                    dtype_name(t));
  g_default_dtype.store(t, std::memory_order_relaxed);
}

int wrap_dim(int64_t dim, int ndim) {
  const int64_t n = ndim == 0 ? 1 : ndim;
  COGRAD_CHECK_INDEX(dim >= -n && dim < n, "Dimension out of range (expected to be in range of [",
                     -n, ", ", n - 1, "], but got ", dim, ")");
  return static_cast<int>(dim < 0 ? dim + n : dim);
}

std::string to_string(IntList v) {
  std::string s = "[";
  for (size_t i = 0; i < v.size(); ++i) {
    if (i != 0) s += ", ";
    s += std::to_string(v[i]);
  }
  return s + "]";
}

Dims contiguous_strides(IntList sizes) {
  Dims strides(sizes.size());
  int64_t n = 1;
  for (size_t i = sizes.size(); i-- > 0;) {
    strides[i] = n;
    if (i != 0) n = checked_mul(n, std::max<int64_t>(sizes[i], 1));
  }
  return strides;
}

bool broadcast_shapes(IntList a, IntList b, Dims& out) {
  const size_t n = std::max(a.size(), b.size());
  out.clear();
  out.resize(n);
  for (size_t i = 0; i < n; ++i) {
    const int64_t x = i < n - a.size() ? 1 : a[i - (n - a.size())];
    const int64_t y = i < n - b.size() ? 1 : b[i - (n - b.size())];
    if (x != y && x != 1 && y != 1) return false;
    out[i] = x == 1 ? y : x;
  }
  return true;
}

}  // namespace cograd
