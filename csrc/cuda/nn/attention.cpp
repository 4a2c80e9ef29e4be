// SPDX-License-Identifier: BSD-3-Clause
// The slots of kernels/nn/attention.h.
#include "kernels/nn/attention.h"

#include "cuda/args/attention_args.h"
#include "cuda/slots/registry.h"
#include "cuda/slots/support.h"

namespace cograd::cuda {

using device::AttentionArgs;
using device::AttentionOperand;
using device::AttentionTiles;
using kernels::Attention;
using kernels::Matrices;

namespace {

// The variant of the kernels for a call: how they multiply, the length of rows in shared memory,
// and what there is besides products and the softmax.
struct Variant {
  DType type;
  bool mma;
  int size, with = 0;

  Variant(DType t, int64_t row, int64_t value_row)
      : type(t),
        mma(dtype_size(t) == 2 && here().properties.major >= 8),
        size(static_cast<int>(32 * ceil_div(std::max(row, value_row), 32))) {}
  Variant(DType t, const Attention& a) : Variant(t, a.size, a.value_size) {
    if (a.mask.data != nullptr) with |= device::kMaskBit;
    if (a.dropout > 0) with |= device::kDropoutBit;
  }
  AttentionTiles tiles(bool forward) const {
    const int bytes = mma ? 2 : static_cast<int>(dtype_size(wide_dtype(type)));
    return device::attention_tiles(forward, mma, bytes, size);
  }
  CUfunction function(const char* program, const char* name) const {
    return function_of(program, name,
                       {{"COGRAD_T", stored_type(type)},
                        {"COGRAD_SIZE", int64_t{size}},
                        {"COGRAD_MMA", int64_t{mma}},
                        {"COGRAD_WITH", int64_t{with}}});
  }
};

// The leading dims of one launch are the last ones; the host counts through those before them.
struct Lead {
  const Attention& a;
  int outer = std::max(0, a.dims - device::kAttentionDims);
  int64_t launches = 1, matrices = 1;

  explicit Lead(const Attention& of) : a(of) {
    for (int d = 0; d < a.dims; ++d) (d < outer ? launches : matrices) *= a.sizes[d];
  }
  // The elements before the matrices of a launch.
  int64_t start(const int64_t* steps, int64_t number) const {
    int64_t at = 0;
    for (int d = outer - 1; d >= 0; number /= a.sizes[d--]) at += number % a.sizes[d] * steps[d];
    return at;
  }
};

bool in_packs(const Lead& lead, const void* data, const int64_t* steps, int64_t row_step,
              int64_t size, int64_t bytes) {
  const int64_t pack = 16 / bytes;
  bool all =
      reinterpret_cast<uintptr_t>(data) % 16 == 0 && size % pack == 0 && row_step % pack == 0;
  for (int d = 0; d < lead.a.dims; ++d) all &= lead.a.sizes[d] == 1 || steps[d] % pack == 0;
  return all;
}

AttentionOperand operand(const Lead& lead, int64_t launch, const void* data, const int64_t* steps,
                         int64_t row_step, int64_t size, DType t) {
  AttentionOperand o{};
  const auto bytes = int64_t{dtype_size(t)};
  o.data = static_cast<const char*>(data) + lead.start(steps, launch) * bytes;
  o.row_step = row_step;
  for (int d = lead.outer; d < lead.a.dims; ++d)
    o.steps[d + device::kAttentionDims - lead.a.dims] = steps[d];
  o.packs = in_packs(lead, data, steps, row_step, size, bytes) ? 1 : 0;
  return o;
}

void set_dropout(AttentionArgs& to, const Attention& a) {
  const double keep = 1 - a.dropout;
  to.factor = keep > 0 ? static_cast<double>(static_cast<float>(1 / keep)) : 0.0;
  to.limit = static_cast<uint64_t>(keep * 4294967296.0);
  to.seed = a.random.seed;
  to.offset = a.random.offset;
  to.base = reinterpret_cast<const unsigned long long*>(a.random.base);
}

void set_stats(AttentionArgs& to, DType t, const Attention& a, void* stats) {
  to.tops = stats;
  to.inverses = static_cast<char*>(stats) + a.count * a.rows * dtype_size(wide_dtype(t));
}

// The arguments of one launch; those of single kernels are added.
class Call {
 public:
  Call(DType t, const Attention& a, const Lead& lead, int64_t launch)
      : type_(t), lead_(lead), launch_(launch) {
    for (long long& s : args.sizes) s = 1;
    for (int d = lead.outer; d < a.dims; ++d)
      args.sizes[d + device::kAttentionDims - a.dims] = a.sizes[d];
    args.rows = a.rows;
    args.keys = a.keys;
    args.first = launch * lead.matrices;
    args.scale = a.scale;
    args.size = static_cast<int>(a.size);
    args.value_size = static_cast<int>(a.value_size);
    args.group = static_cast<int>(a.group);
    args.causal = a.causal ? 1 : 0;
    args.q = of(a.q, a.size);
    args.k = of(a.k, a.size);
    args.v = of(a.v, a.value_size);
    set_dropout(args, a);
    set_mask(a.mask);
  }
  AttentionOperand of(const Matrices& m, int64_t size) const {
    return operand(lead_, launch_, m.data, m.steps, m.row_step, size, type_);
  }

  AttentionArgs args{};

 private:
  void set_mask(const kernels::AttentionMask& m) {
    if (m.data == nullptr) return;
    args.mask = operand(lead_, launch_, m.data, m.steps, m.row_step, 0, m.dtype);
    args.mask_col = m.col_step;
    args.mask_kind = m.dtype == DType::Bool ? device::kTruthMask
                     : m.dtype == type_     ? device::kStoredMask
                                            : device::kComputedMask;
  }

  DType type_;
  const Lead& lead_;
  int64_t launch_;
};

void run(const char* program, const char* name, const Variant& variant, bool forward,
         AttentionArgs& args, int64_t rows, int64_t matrices) {
  const AttentionTiles tiles = variant.tiles(forward);
  args.blocks = ceil_div(rows, tiles.rows());
  args.jobs = args.blocks * matrices;
  Grid g = grid_of(args.jobs, tiles.threads());
  g.shared_bytes = static_cast<unsigned>(tiles.shared_bytes);
  const CUfunction f = variant.function(program, name);
  allow_shared(name, f, g.shared_bytes);
  launch(name, f, g, args);
}

}  // namespace

std::optional<DType> attention_dtype(DType t, int64_t size, int64_t value_size) {
  if (!is_floating(t) || std::max(size, value_size) > device::kMostAttentionSize)
    return std::nullopt;
  const AttentionTiles tiles = Variant(t, size, value_size).tiles(false);
  if (tiles.shared_bytes > here().properties.shared_per_block_optin) return std::nullopt;
  return t;
}
COGRAD_CUDA_SLOT(attention_dtype)

void attention_forward(DType t, const Attention& a, const Matrices& out, void* stats) {
  const Variant variant(t, a);
  const Lead lead(a);
  for (int64_t i = 0; i < lead.launches; ++i) {
    Call call(t, a, lead, i);
    call.args.out = call.of(out, a.value_size);
    set_stats(call.args, t, a, stats);
    run("attention.h", "attention_forward", variant, true, call.args, a.rows, lead.matrices);
  }
}
COGRAD_CUDA_SLOT(attention_forward)

void attention_backward(DType t, const Attention& a, const Matrices& out, const Matrices& g,
                        const void* stats, const Matrices& gq, const Matrices& gk,
                        const Matrices& gv) {
  constexpr const char* kProgram = "attention_backward.h";
  const Variant variant(t, a);
  const Lead lead(a);
  const Scratch along(static_cast<size_t>(a.count * a.rows * dtype_size(wide_dtype(t))));
  for (int64_t i = 0; i < lead.launches; ++i) {
    Call call(t, a, lead, i);
    AttentionArgs& args = call.args;
    args.out = call.of(out, a.value_size);
    args.g = call.of(g, a.value_size);
    args.gq = call.of(gq, a.size);
    args.gk = call.of(gk, a.size);
    args.gv = call.of(gv, a.value_size);
    set_stats(args, t, a, const_cast<void*>(stats));
    args.along = along.get();
    args.jobs = lead.matrices * a.rows;
    launch("attention_along", variant.function(kProgram, "attention_along"),
           grid_of(ceil_div(args.jobs, 8), 256), args);
    run(kProgram, "attention_query_gradient", variant, false, args, a.rows, lead.matrices);
    run(kProgram, "attention_key_gradients", variant, false, args, a.keys, lead.matrices / a.group);
  }
}
COGRAD_CUDA_SLOT(attention_backward)

void attention_keep(DType t, const Attention& a, void* out) {
  AttentionArgs args{};
  args.keys = a.keys;
  args.rows = a.rows;
  args.out.data = out;
  args.jobs = a.count * a.rows * a.dropout_blocks();
  set_dropout(args, a);
  const CUfunction f = function_of("attention_keep.h", "attention_keep",
                                   {{"COGRAD_T", stored_type(t)},
                                    {"COGRAD_SIZE", int64_t{32}},
                                    {"COGRAD_MMA", int64_t{0}},
                                    {"COGRAD_WITH", int64_t{device::kDropoutBit}}});
  launch("attention_keep", f, grid_over(args.jobs), args);
}
COGRAD_CUDA_SLOT(attention_keep)

}  // namespace cograd::cuda
