// SPDX-License-Identifier: BSD-3-Clause
// Writes to a tensor's own geometry: resize_, resize_as_ and what the in-place view ops share.
#include "ops/shape/inplace_geometry.h"

#include <cstring>

#include "ops/core/options.h"
#include "ops/core/raw.h"

namespace cograd {

namespace {

void take_geometry(const Tensor& self, IntList sizes, IntList strides, char* data) {
  TensorImpl* p = self.impl();
  p->set_ndim(static_cast<int>(sizes.size()));
  std::copy(sizes.begin(), sizes.end(), p->sizes_);
  std::copy(strides.begin(), strides.end(), p->strides_);
  p->data = data;
  p->refresh_geometry();
}

// Other tensors point into the bytes, so only memory that nobody shares may move.
void grow_storage(const char* op, TensorImpl* p, int64_t nbytes) {
  Storage* old = p->storage;
  COGRAD_CHECK(old->kind != 2, "Trying to resize storage that is not resizable");
  COGRAD_CHECK(old->unique(), op, "(): the tensor shares its ", old->nbytes,
               " bytes of memory with other tensors, which cannot grow to ", nbytes,
               " bytes; clone() it first");
  const int64_t offset = p->data - static_cast<char*>(old->data);
  Storage* fresh = Storage::make(nbytes);
  std::memcpy(fresh->data, old->data, static_cast<size_t>(old->nbytes));
  fresh->version.store(old->version.load(std::memory_order_relaxed), std::memory_order_relaxed);
  p->storage = fresh;
  p->data = static_cast<char*>(fresh->data) + offset;
  old->release();
}

void resize(const char* op, const Tensor& self, IntList sizes) {
  TensorImpl* p = self.impl();
  COGRAD_CHECK(!requires_grad(self), "cannot resize variables that require grad");
  check_inplace(self, op, false);
  int64_t count = 1;
  for (int64_t s : sizes) {
    COGRAD_CHECK(s >= 0, op, "(): Trying to create tensor with negative dimension ", s, ": ",
                 to_string(sizes));
    COGRAD_CHECK(!__builtin_mul_overflow(count, s, &count), op,
                 "(): Storage size calculation overflowed with sizes=", to_string(sizes));
  }
  p->bump_version();
  if (same(self.sizes(), sizes)) return;
  int64_t bytes = 0;
  COGRAD_CHECK(!__builtin_mul_overflow(count, self.itemsize(), &bytes), op,
               "(): Storage size calculation overflowed with sizes=", to_string(sizes));
  const int64_t offset = p->data - static_cast<char*>(p->storage->data);
  if (bytes > 0 && offset + bytes > p->storage->nbytes) grow_storage(op, p, offset + bytes);
  const Dims copy(sizes);
  take_geometry(self, copy, contiguous_strides(copy), p->data);
}

template <class... Args>
bool add_resize(const char* name, const char* args, const char* doc, OpRecord::CallInto call) {
  auto* r = new OpRecord;
  r->spec = {name, args, kInplace, doc, "none: changes the tensor's geometry; tested by hand"};
  r->args = detail::ArgKinds<std::tuple<Args...>>::make();
  r->result = Result::Kind::Tensor;
  r->call = [](const Value*, Result&) {};
  r->call_inplace = call;
  return add_record(r);
}

[[maybe_unused]] const bool added =
    add_resize<Tensor, IntList, std::optional<std::string_view>>(
        "resize", "input, *size, memory_format=None",
        "Another shape, in C order, over the same memory; new elements are undefined.",
        [](const Tensor& self, const Value* v) {
          const auto format = ArgTraits<std::optional<std::string_view>>::get(v[2]);
          if (format) wants_contiguous("resize_", format);
          resize("resize_", self, ArgTraits<IntList>::get(v[1]));
        }) &&
    add_resize<Tensor, Tensor, std::optional<std::string_view>>(
        "resize_as", "input, the_template, *, memory_format=None",
        "resize_ to the shape of another tensor.", [](const Tensor& self, const Value* v) {
          const auto format = ArgTraits<std::optional<std::string_view>>::get(v[2]);
          if (format) wants_contiguous("resize_as_", format);
          resize("resize_as_", self, ArgTraits<Tensor>::get(v[1]).sizes());
        });

}  // namespace

void change_geometry(const Tensor& self, const char* op, const Value* args, MakeView make) {
  const bool tracked = thread_state.grad_enabled && requires_grad(self);
  check_inplace(self, (std::string(op) + "_").c_str(), tracked);
  const Tensor view = make(args);
  const NodeRef node = NodeRef::borrow(view->grad_fn);
  const Dims sizes(view.sizes());
  const Dims strides(view.strides());
  take_geometry(self, sizes, strides, view.bytes());
  self->bump_version();
  // A view's history is made anew against its base, as after any write; see grad_fn().
  if (tracked && self->base == nullptr) rebase_history(self, node.get());
}

namespace {

// Every diagonal element of a matrix, or of a tensor of more dims of one size.
struct FillDiagonal {
  static constexpr OpSpec spec{
      "fill_diagonal", "input, fill_value, wrap=False", kInplace | kShape,
      "Overwrites the main diagonal; with wrap it starts again below, after one row left out.",
      "none: in place only, tested by hand"};
  struct State {
    bool wrap;
  };
  static Tensor forward(Ctx<FillDiagonal>& ctx, const Tensor& x, Scalar value, bool wrap) {
    COGRAD_CHECK(x.dim() >= 2, "dimensions must larger than 1");
    for (int d = 1; x.dim() > 2 && d < x.dim(); ++d)
      COGRAD_CHECK(x.size(d) == x.size(0), "all dimensions of input must be of equal length");
    check_representable(value, x.dtype());
    ctx->wrap = wrap;
    Tensor out = ctx.out(x.sizes(), x.dtype());
    if (!out.is(x)) raw_copy(out, x);
    const int64_t rows = x.size(0), cols = x.size(1);
    int64_t step[1] = {0};
    for (int64_t s : out.strides()) step[0] += s;
    for (int64_t top = 0; top < rows; top += cols + 1) {
      const int64_t length[1] = {std::min(rows - top, cols)};
      char* at = out.bytes() + top * out.stride(0) * out.itemsize();
      if (length[0] > 0) raw_fill(alias_strided(out, length, step, at), value);
      if (!wrap || x.dim() > 2) break;
    }
    return out;
  }
  static Tensor backward(Ctx<FillDiagonal>& ctx, const Tensor& g) {
    return apply<FillDiagonal>(g, Scalar(0), ctx->wrap);
  }
};
COGRAD_OP(FillDiagonal)

}  // namespace

}  // namespace cograd
